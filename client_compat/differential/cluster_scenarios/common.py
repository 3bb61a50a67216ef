"""Helpers of the cluster scenarios: topics on given brokers, and waiting until every broker has applied a change.

Rule: replicas are assigned explicitly, because the controller's own placement is random.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence

from client_compat.differential.nodes import Nodes
from client_compat.differential.scenarios.common import until
from ottla.protocol.error_codes import ErrorCode
from ottla.protocol.errors import ProtocolError
from ottla.protocol.messages.k01_fetch import FetchPartition, FetchRequest, FetchTopic
from ottla.protocol.messages.k02_list_offsets import ListOffsetsPartition, ListOffsetsRequest, ListOffsetsTopic
from ottla.protocol.messages.k03_metadata import MetadataRequest, MetadataRequestTopic, MetadataResponsePartition
from ottla.protocol.messages.k12_heartbeat import HeartbeatRequest
from ottla.protocol.messages.k19_create_topics import CreatableReplicaAssignment, CreatableTopic, CreatableTopicConfig, CreateTopicsRequest
from ottla.protocol.messages.k65_describe_transactions import DescribeTransactionsRequest

Placement = Sequence[Sequence[int]]
"""The replicas of each partition, the preferred leader first."""

FIRST: Placement = ((1, 2, 3),)
OLD_RECORDS = {"retention.ms": "-1", "message.timestamp.after.max.ms": str(2**63 - 1)}
COORDINATORS: Placement = ((1, 2, 3), (2, 3, 1), (3, 1, 2), (1, 3, 2))
SHARE_COORDINATORS: Placement = [COORDINATORS[n % 3] for n in range(50)]
"""The replicas of each partition of `__share_group_state`. It has as many partitions as the default of
share.coordinator.state.topic.num.partitions, because Apache Kafka uses this setting even if the existing topic has another number."""
COMPACTED = {"cleanup.policy": "compact", "segment.bytes": "104857600"}
DEBUGGING = -2
"""The replica id of a debugging consumer, which reads beyond the high watermark."""


class UnexpectedResponse(Exception):
    """Raised when a scenario cannot continue because of a broker's response."""


def creatable(name: str, placement: Placement, configs: Mapping[str, str] | None = None) -> CreatableTopic:
    """Return a topic for CreateTopics with explicit replica assignments."""
    assigned = [CreatableReplicaAssignment(index, list(replicas)) for index, replicas in enumerate(placement)]
    given = [CreatableTopicConfig(key, value) for key, value in {**OLD_RECORDS, **(configs or {})}.items()]
    return CreatableTopic(name, -1, -1, assigned, given)


def create(nodes: Nodes, name: str, placement: Placement = FIRST, configs: Mapping[str, str] | None = None) -> bytes:
    """Create a topic and return its id, once every running broker knows the topic and all its replicas are in sync. `placement`: the
    replicas of each partition. Raises UnexpectedResponse if the topic is not created, TimeoutError if that takes too long."""
    response = nodes.at(nodes.living[0]).ask_unrecorded(CreateTopicsRequest([creatable(name, placement, configs)]), 7)
    if response.topics[0].error_code:
        raise UnexpectedResponse(f"{name} was not created: {response.topics[0]}")
    topic_id = bytes(response.topics[0].topic_id)
    nodes.names.learn(topic_id, f"id of {name}")
    wait_until_in_sync(nodes, name, len(placement))
    return topic_id


def wait_until_in_sync(nodes: Nodes, name: str, partitions: int = 0) -> None:
    """Wait until every running broker reports and applies the same state of each partition of the topic `name`.

    In this state, the leader is the first running replica, and every running replica is in sync. If `partitions` is given, the topic also
    has to have that many.
    """
    for _ in until(f"{name} is in sync"):
        if all(_is_in_sync(nodes, node_id, name, partitions) for node_id in nodes.living):
            return


def _is_in_sync(nodes: Nodes, node_id: int, name: str, partitions: int) -> bool:
    found = partitions_at(nodes, node_id, name)
    if len(found) != (partitions or max(len(found), 1)) or not all(_as_wanted(nodes.living, each) for each in found):
        return False
    answers = list_offsets(nodes, node_id, name, [each.partition_index for each in found])
    return all(answers[each.partition_index][0] == _role(node_id, each) for each in found)


def _as_wanted(living: Collection[int], found: MetadataResponsePartition) -> bool:
    wanted = [node_id for node_id in found.replica_nodes if node_id in living]
    if not wanted:
        return found.leader_id == -1
    return found.leader_id == wanted[0] and sorted(found.isr_nodes) == sorted(wanted)


def _role(node_id: int, found: MetadataResponsePartition) -> ErrorCode:
    """Return the error code with which broker `node_id` answers ListOffsets for a partition after it has applied the partition's state
    `found`: NONE from the leader, NOT_LEADER_OR_FOLLOWER from every other broker."""
    return ErrorCode.NONE if found.leader_id == node_id else ErrorCode.NOT_LEADER_OR_FOLLOWER


def partitions_at(nodes: Nodes, node_id: int, name: str) -> list[MetadataResponsePartition]:
    """Return the partitions of a topic, by index, as one broker's Metadata response has them; none if the broker does not answer."""
    try:
        (topic,) = nodes.at(node_id).ask_unrecorded(MetadataRequest([MetadataRequestTopic(name=name)], False), 12).topics
    except (OSError, ProtocolError):
        nodes.at(node_id).hang_up()
        return []
    return sorted(topic.partitions, key=lambda partition: partition.partition_index)


def list_offsets(nodes: Nodes, node_id: int, name: str, indexes: Sequence[int], replica_id: int = -1) -> dict[int, tuple[int, int]]:
    """Return the error code and the end offset of each partition, as one broker answers ListOffsets; -1 is the offset of an error."""
    wanted = [ListOffsetsTopic(name, [ListOffsetsPartition(index, -1, -1) for index in indexes])]
    (topic,) = nodes.at(node_id).ask_unrecorded(ListOffsetsRequest(replica_id, 0, wanted, 5_000), 7).topics
    return {each.partition_index: (each.error_code, each.offset) for each in topic.partitions}


def wait_until_replicated(nodes: Nodes, name: str, partition: int = 0) -> None:
    """Wait until every running replica has the leader's whole log and a high watermark at its end. Return at once if the partition has no
    leader."""
    for _ in until(f"{name} is replicated"):
        (found,) = [each for each in partitions_at(nodes, nodes.living[0], name) if each.partition_index == partition]
        if found.leader_id == -1:
            return
        end = list_offsets(nodes, found.leader_id, name, [partition], DEBUGGING)[partition][1]
        if all(_high_watermark(nodes, node_id, name, partition, end) == end for node_id in found.replica_nodes if node_id in nodes.living):
            return


def _high_watermark(nodes: Nodes, node_id: int, name: str, partition: int, end: int) -> int:
    part = FetchPartition(partition, fetch_offset=end, partition_max_bytes=1)
    answer = nodes.at(node_id).ask_unrecorded(FetchRequest(max_wait_ms=0, min_bytes=0, topics=[FetchTopic(name, partitions=[part])]), 12)
    found = answer.responses[0].partitions[0]
    return -1 if found.error_code else int(found.high_watermark)


def wait_until_known(nodes: Nodes, living: Collection[int]) -> None:
    """Wait until the Metadata response of every running broker has exactly the brokers `living`."""
    for _ in until(f"the brokers that live are {living}"):
        seen = [nodes.at(node_id).ask_unrecorded(MetadataRequest([], False), 12).brokers for node_id in nodes.living]
        if all({broker.node_id for broker in brokers} == set(living) for brokers in seen):
            return


def make_coordinators_topics(nodes: Nodes) -> None:
    """Create the coordinators' topics with the same assignment in every cluster, and wait until groups and transactions are loaded."""
    for name in ("__consumer_offsets", "__transaction_state"):
        create(nodes, name, COORDINATORS, COMPACTED)
    create(nodes, "__share_group_state", SHARE_COORDINATORS, {"cleanup.policy": "delete"})
    wait_until_coordinated(nodes)


def wait_until_coordinated(nodes: Nodes) -> None:
    """Wait until each running broker serves as the coordinator of some groups and some transactional ids."""
    for node_id in nodes.living:
        for _ in until(f"{node_id} coordinates"):
            heartbeats = [nodes.at(node_id).ask_unrecorded(HeartbeatRequest(f"any-{n}", 1, "nobody"), 4).error_code for n in range(12)]
            request = DescribeTransactionsRequest([f"any-{n}" for n in range(12)])
            described = [one.error_code for one in nodes.at(node_id).ask_unrecorded(request, 0).transaction_states]
            if set(heartbeats) == {ErrorCode.UNKNOWN_MEMBER_ID, ErrorCode.NOT_COORDINATOR} and set(described) == {
                ErrorCode.TRANSACTIONAL_ID_NOT_FOUND,
                ErrorCode.NOT_COORDINATOR,
            }:
                break
    nodes.close()
