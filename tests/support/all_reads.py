"""About forty read requests for a broker with the topics TOPICS, and the broker's responses, to compare two states of a broker."""

from __future__ import annotations

from typing import Any, Final

from ottla.protocol.client import Client
from ottla.protocol.messages import k75_describe_topic_partitions as k75
from ottla.protocol.messages.k01_fetch import FetchPartition, FetchRequest, FetchTopic
from ottla.protocol.messages.k02_list_offsets import ListOffsetsPartition, ListOffsetsRequest, ListOffsetsTopic
from ottla.protocol.messages.k03_metadata import MetadataRequest
from ottla.protocol.messages.k09_offset_fetch import OffsetFetchRequest, OffsetFetchRequestGroup
from ottla.protocol.messages.k15_describe_groups import DescribeGroupsRequest
from ottla.protocol.messages.k16_list_groups import ListGroupsRequest
from ottla.protocol.messages.k23_offset_for_leader_epoch import (
    OffsetForLeaderEpochRequest,
    OffsetForLeaderPartition,
    OffsetForLeaderTopic,
)
from ottla.protocol.messages.k29_describe_acls import DescribeAclsRequest
from ottla.protocol.messages.k32_describe_configs import DescribeConfigsRequest, DescribeConfigsResource
from ottla.protocol.messages.k35_describe_log_dirs import DescribeLogDirsRequest
from ottla.protocol.messages.k41_describe_delegation_token import DescribeDelegationTokenRequest
from ottla.protocol.messages.k46_list_partition_reassignments import ListPartitionReassignmentsRequest
from ottla.protocol.messages.k48_describe_client_quotas import DescribeClientQuotasRequest
from ottla.protocol.messages.k50_describe_user_scram_credentials import DescribeUserScramCredentialsRequest
from ottla.protocol.messages.k60_describe_cluster import DescribeClusterRequest
from ottla.protocol.messages.k61_describe_producers import DescribeProducersRequest, TopicRequest
from ottla.protocol.messages.k65_describe_transactions import DescribeTransactionsRequest
from ottla.protocol.messages.k66_list_transactions import ListTransactionsRequest
from ottla.protocol.messages.k74_list_config_resources import ListConfigResourcesRequest
from ottla.protocol.schema import Message

TOPICS: Final = ("t", "u")
PARTITIONS: Final = (0, 1, 2)
_EARLIEST, _LATEST, _MAX_TIMESTAMP, _ANY = -2, -1, -3, 1


def requests() -> list[tuple[Message, int]]:
    """Return the (request, version) pairs of all reads."""
    made: list[tuple[Message, int]] = [
        (MetadataRequest(None), 12),
        (DescribeClusterRequest(), 1),
        (ListGroupsRequest(), 5),
        (DescribeGroupsRequest(["g", "h"]), 6),
        (OffsetFetchRequest(groups=[OffsetFetchRequestGroup(group, topics=None) for group in ("g", "h")]), 8),
        (DescribeAclsRequest(_ANY, None, _ANY, None, None, _ANY, _ANY), 3),
        (DescribeClientQuotasRequest(), 1),
        (DescribeUserScramCredentialsRequest(None), 0),
        (DescribeDelegationTokenRequest(None), 3),
        (ListPartitionReassignmentsRequest(1_000, None), 0),
        (ListTransactionsRequest(), 1),
        (DescribeTransactionsRequest(["tx"]), 0),
        (ListConfigResourcesRequest([]), 1),
        (DescribeConfigsRequest([DescribeConfigsResource(4, "1"), DescribeConfigsResource(4, "")]), 4),
        (DescribeLogDirsRequest(None), 4),
    ]
    for topic in TOPICS:
        made += [
            (k75.DescribeTopicPartitionsRequest([k75.TopicRequest(topic)]), 0),
            (DescribeConfigsRequest([DescribeConfigsResource(2, topic)]), 4),
            (DescribeProducersRequest([TopicRequest(topic, list(PARTITIONS))]), 0),
            (
                OffsetForLeaderEpochRequest(topics=[OffsetForLeaderTopic(topic, [OffsetForLeaderPartition(p, -1, 0) for p in PARTITIONS])]),
                4,
            ),
        ]
        for timestamp in (_EARLIEST, _LATEST, _MAX_TIMESTAMP, 0):
            for isolation in (0, 1):
                partitions = [ListOffsetsPartition(index, -1, timestamp) for index in PARTITIONS]
                made.append((ListOffsetsRequest(-1, isolation, [ListOffsetsTopic(topic, partitions)]), 9))
        for isolation in (0, 1):
            read = [FetchPartition(index, fetch_offset=0, partition_max_bytes=1 << 20) for index in PARTITIONS]
            made.append((FetchRequest(isolation_level=isolation, topics=[FetchTopic(topic, partitions=read)]), 11))
    return made


def answers(client: Client) -> list[tuple[str, Any]]:
    """Send every read; return each request as text with its response. Sizes of directories and free disk space are set to 0."""
    found = []
    for request, version in requests():
        answer = client.call(request, version)
        for directory in getattr(answer, "results", []):
            if hasattr(directory, "usable_bytes"):
                directory.usable_bytes = directory.total_bytes = 0
                directory.topics = [topic for topic in directory.topics if topic.name != "__cluster_metadata"]
        found.append((repr(request), answer))
    return found
