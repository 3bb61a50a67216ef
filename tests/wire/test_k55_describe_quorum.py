from __future__ import annotations

import pytest

from ottla.protocol.client import Client
from ottla.protocol.error_codes import ErrorCode
from ottla.protocol.messages.k55_describe_quorum import DescribeQuorumRequest, PartitionData, TopicData
from tests.support.running_broker import RunningBroker


@pytest.mark.parametrize("version", [0, 1, 2])
def test_the_node_is_its_quorums_only_voter(broker: RunningBroker, client: Client, version: int) -> None:
    answer = client.call(DescribeQuorumRequest([TopicData("__cluster_metadata", [PartitionData(0)])]), version)
    (partition,) = answer.topics[0].partitions
    (voter,) = partition.current_voters
    assert (partition.leader_id, partition.observers, voter.replica_id) == (1, [], 1)
    assert voter.log_end_offset == partition.high_watermark > 0
    if version == 2:
        assert voter.replica_directory_id == broker.broker.log_dir.meta.directory_id
        assert [(node.node_id, node.listeners[0].port) for node in answer.nodes] == [(1, broker.port)]


def test_other_partitions_have_no_quorum(client: Client) -> None:
    answer = client.call(DescribeQuorumRequest([TopicData("t", [PartitionData(0)])]))
    (partition,) = answer.topics[0].partitions
    assert (partition.error_code, partition.error_message) == (
        ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
        "This server does not host this topic-partition.",
    )
