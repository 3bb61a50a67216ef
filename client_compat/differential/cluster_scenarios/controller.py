"""Compare Ottla's cluster with Apache Kafka's by controller operations that brokers forward: elections, reassignments, the quorum,
features, registrations."""

from __future__ import annotations

from collections.abc import Sequence

from client_compat.differential.cluster_scenarios.common import create, partitions_at, wait_until_in_sync
from client_compat.differential.nodes import Nodes
from client_compat.differential.scenarios.common import until
from ottla.protocol.api_keys import ApiKey
from ottla.protocol.messages.k03_metadata import MetadataRequest, MetadataRequestTopic
from ottla.protocol.messages.k43_elect_leaders import ElectLeadersRequest, TopicPartitions
from ottla.protocol.messages.k45_alter_partition_reassignments import (
    AlterPartitionReassignmentsRequest,
    ReassignablePartition,
    ReassignableTopic,
)
from ottla.protocol.messages.k46_list_partition_reassignments import (
    ListPartitionReassignmentsRequest,
    ListPartitionReassignmentsTopics,
)
from ottla.protocol.messages.k55_describe_quorum import DescribeQuorumRequest, PartitionData, TopicData
from ottla.protocol.messages.k57_update_features import FeatureUpdateKey, UpdateFeaturesRequest
from ottla.protocol.messages.k64_unregister_broker import UnregisterBrokerRequest
from ottla.protocol.messages.k67_allocate_producer_ids import AllocateProducerIdsRequest
from ottla.protocol.schema import Message

PREFERRED, UNCLEAN = 0, 1


def elections(nodes: Nodes) -> None:
    """Send ElectLeaders for partitions that their preferred replica already leads, and for unknown partitions."""
    create(nodes, "elected", [(1, 2, 3), (2, 3, 1)])
    for version in nodes.range(ApiKey.ELECT_LEADERS):
        for kind in (PREFERRED, UNCLEAN, 7) if version >= 1 else (PREFERRED,):
            some = [TopicPartitions("elected", [0, 1, 9]), TopicPartitions("nowhere", [0])]
            nodes.everywhere(f"of kind {kind}", ElectLeadersRequest(kind, some), version)
            nodes.everywhere(f"of kind {kind}, of nothing", ElectLeadersRequest(kind, []), version)
    nodes.ask(2, "of all", ElectLeadersRequest(PREFERRED, None))


def moved(name: str, replicas: list[int] | None, partition: int = 0, **fields: bool) -> AlterPartitionReassignmentsRequest:
    """Return an AlterPartitionReassignments request for one partition; `replicas` None cancels the reassignment."""
    topic = ReassignableTopic(name, [ReassignablePartition(partition, replicas)])
    return AlterPartitionReassignmentsRequest(topics=[topic], **fields)


def moves(nodes: Nodes) -> None:
    """Reassign partitions to other brokers, change their leaders, and send invalid reassignments."""
    create(nodes, "moved", [(1, 2)])
    for version in nodes.range(ApiKey.ALTER_PARTITION_REASSIGNMENTS):
        for label, request in {
            "an unknown broker": moved("moved", [1, 9]),
            "a broker twice": moved("moved", [1, 1]),
            "no broker": moved("moved", []),
            "a negative broker": moved("moved", [-1]),
            "an unknown partition": moved("moved", [1, 2], 9),
            "an unknown topic": moved("nowhere", [1, 2]),
            "no move to call off": moved("moved", None),
            "nothing": AlterPartitionReassignmentsRequest(),
            "as it is": moved("moved", [1, 2]),
            "more replicas than allowed": moved("moved", [1, 2, 3], allow_replication_factor_change=version == 0),
        }.items():
            nodes.ask(3, label, request, version)
        if version == 0:  # version 0 always permits another number of replicas
            wait_until_moved(nodes, [1, 2, 3])
            continue
        for to in ([2, 3], [3, 1], [1, 2, 3], [1, 2]):
            nodes.ask(1 + to[0] % 3, f"to {to}", moved("moved", to), version)
            wait_until_moved(nodes, to)
            nodes.everywhere(f"moved to {to}", MetadataRequest([MetadataRequestTopic(name="moved")], False), 6)
    for label, topics in {
        "all": None,
        "none": [],
        "one": [ListPartitionReassignmentsTopics("moved", [0, 9])],
        "unknown": [ListPartitionReassignmentsTopics("nowhere", [0])],
    }.items():
        nodes.everywhere(f"moves under way: {label}", ListPartitionReassignmentsRequest(topics=topics))


def wait_until_moved(nodes: Nodes, to: Sequence[int]) -> None:
    """Wait until every broker reports that the topic `moved` has the replicas `to`, and all of them are in sync."""
    for node_id in nodes.living:
        for _ in until(f"moved to {to}"):
            (found,) = partitions_at(nodes, node_id, "moved")
            if sorted(found.replica_nodes) == sorted(to):
                break
    wait_until_in_sync(nodes, "moved")


def quorum(nodes: Nodes) -> None:
    """Send DescribeQuorum to every broker, for the partition of the metadata log and for others."""
    for version in nodes.range(ApiKey.DESCRIBE_QUORUM):
        for label, topics in {
            "of metadata": [TopicData("__cluster_metadata", [PartitionData(0)])],
            "of another partition": [TopicData("__cluster_metadata", [PartitionData(1)])],
            "of another topic": [TopicData("nowhere", [PartitionData(0)])],
            "of nothing": [],
        }.items():
            nodes.everywhere(label, DescribeQuorumRequest(topics), version)


def features(nodes: Nodes) -> None:
    """Send UpdateFeatures requests with validate_only to every broker: valid and invalid levels, and unknown features."""
    for version in nodes.range(ApiKey.UPDATE_FEATURES):
        if version == 0:
            continue
        for label, key in {
            "as it is": FeatureUpdateKey("transaction.version", 2),
            "lower": FeatureUpdateKey("transaction.version", 1, upgrade_type=2),
            "lower, called an upgrade": FeatureUpdateKey("transaction.version", 1),
            "too high": FeatureUpdateKey("group.version", 77),
            "negative": FeatureUpdateKey("group.version", -1),
            "unknown": FeatureUpdateKey("no.such", 1),
            "a bad kind": FeatureUpdateKey("group.version", 1, upgrade_type=9),
        }.items():
            nodes.everywhere(label, UpdateFeaturesRequest(feature_updates=[key], validate_only=True), version)
        nodes.everywhere("nothing", UpdateFeaturesRequest(validate_only=True), version)


def registrations(nodes: Nodes) -> None:
    """Unregister unknown brokers, and send broker-to-controller requests, which brokers reject."""
    for broker_id in (9, -1):
        nodes.everywhere(f"unregister {broker_id}", UnregisterBrokerRequest(broker_id))
    for key, request in not_for_clients().items():
        for node_id in nodes.living:
            nodes.ask(node_id, key, request, request.MAX_VERSION)


def not_for_clients() -> dict[str, Message]:
    """Return a request of each API that only a controller accepts, by a label for the report of differences."""
    return {"a block of producer ids": AllocateProducerIdsRequest(1, 1)}
