"""The status that follows from a cluster's responses. With real clusters: tests/scenario/test_serve_brokers.py."""

from __future__ import annotations

from pathlib import Path

import pytest
from typer.testing import CliRunner

from ottla.broker.cli.cluster_status import BrokerStatus, ControllerStatus, PartitionStatus, app, status_of
from ottla.broker.cli.common import CliError
from ottla.protocol.error_codes import ErrorCode
from ottla.protocol.messages.k03_metadata import MetadataResponsePartition, MetadataResponseTopic
from ottla.protocol.messages.k55_describe_quorum import (
    DescribeQuorumResponse,
    Listener,
    Node,
    PartitionResult,
    ReplicaState,
    TopicResult,
)
from ottla.protocol.messages.k60_describe_cluster import DescribeClusterBroker, DescribeClusterResponse
from tests.support.running_broker import RunningBroker

BROKERS = [DescribeClusterBroker(2, "h2", 9092, "east", is_fenced=True), DescribeClusterBroker(1, "h1", 9092)]
CLUSTER = DescribeClusterResponse(cluster_id="id", controller_id=1, brokers=BROKERS)


def quorum(*observers: ReplicaState, error: int = 0) -> DescribeQuorumResponse:
    voters = [ReplicaState(101, bytes(16), 50), ReplicaState(100, bytes(16), 48), ReplicaState(102, bytes(16), -1)]
    found = PartitionResult(0, error, None, 101, 7, 50, voters, list(observers))
    nodes = [Node(100, [Listener("C", "c0", 9093)]), Node(101, [Listener("C", "c1", 9093)])]
    return DescribeQuorumResponse(topics=[TopicResult("__cluster_metadata", [found])], nodes=nodes)


def topic(name: str, *partitions: tuple[int, list[int], list[int]]) -> MetadataResponseTopic:
    """Return a topic's metadata; each partition is (leader, replicas, ISR)."""
    made = [
        MetadataResponsePartition(partition_index=index, leader_id=leader, replica_nodes=replicas, isr_nodes=in_sync)
        for index, (leader, replicas, in_sync) in enumerate(partitions)
    ]
    return MetadataResponseTopic(name=name, partitions=made)


def test_controllers_are_listed_with_their_lag_and_the_leader() -> None:
    found = status_of(CLUSTER, quorum(), [])
    assert (found.cluster_id, found.epoch, found.metadata_offset) == ("id", 7, 50)
    assert found.controllers == [
        ControllerStatus(100, "c0:9093", False, 2),
        ControllerStatus(101, "c1:9093", True, 0),
        ControllerStatus(102, None, False, None),
    ]


def test_brokers_are_listed_with_leaderships_replicas_and_lag() -> None:
    topics = [topic("t", (1, [1, 2], [1]), (1, [2, 1], [1, 2])), topic("u", (-1, [2], [2]))]
    found = status_of(CLUSTER, quorum(ReplicaState(2, bytes(16), 40)), topics)
    assert found.brokers == [
        BrokerStatus(1, "h1:9092", None, "serves", leads=2, replicas=2, out_of_sync=0, lag=None),
        BrokerStatus(2, "h2:9092", "east", "fenced", leads=0, replicas=3, out_of_sync=1, lag=10),
    ]
    assert found.under_replicated == [PartitionStatus("t", 0, 1, [1, 2], [1]), PartitionStatus("u", 0, None, [2], [2])]


def test_a_quorum_that_cannot_be_described_is_an_error() -> None:
    with pytest.raises(CliError, match="describing the quorum: NOT_LEADER_OR_FOLLOWER"):
        status_of(CLUSTER, quorum(error=ErrorCode.NOT_LEADER_OR_FOLLOWER), [])


def test_standalone_node_is_listed_as_its_own_controller(tmp_path: Path) -> None:
    with RunningBroker(tmp_path / "data") as running:
        done = CliRunner().invoke(app, ["status", "--bootstrap-server", f"127.0.0.1:{running.port}"])
    assert done.exit_code == 0
    assert "Controllers, in epoch 1" in done.output
    assert "Every partition has a leader, and all its replicas are in sync." in done.output
