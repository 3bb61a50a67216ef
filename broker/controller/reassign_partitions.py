"""Decides AlterPartitionReassignments and ListPartitionReassignments: moves partitions to other brokers (KIP-455, KIP-860).

Invariants:
- A reassignment first adds the new replicas, and removes the old ones when the new ones are in the ISR. It completes with the partition's
  first change after that (`partition_change`), or at once if the new replicas are in the ISR already.
- A second reassignment of the same partition starts from its current replicas: a replica that is being added, and is not in the second
  request, is removed.
- Cancelling a reassignment keeps the old replicas. If the ISR has only added replicas, this requires an unclean election.

Source: Kafka's ReplicationControlManager.alterPartitionReassignment, PartitionReassignmentReplicas, PartitionReassignmentRevert.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from ottla.broker.cluster.image import PartitionRegistration, TopicImage
from ottla.broker.cluster.metadata_records import MetadataRecord, PartitionChangeRecord
from ottla.broker.controller.batches import check_size
from ottla.broker.controller.partition_change import ElectionKind, PartitionTarget
from ottla.broker.controller.placement import check_assignment
from ottla.broker.controller.state import ControllerState
from ottla.broker.controller.topic_rules import TopicRules
from ottla.broker.core.effects import Effects
from ottla.broker.core.rejected import Rejected
from ottla.protocol.error_codes import ErrorCode
from ottla.protocol.messages.k45_alter_partition_reassignments import (
    AlterPartitionReassignmentsRequest,
    AlterPartitionReassignmentsResponse,
    ReassignablePartition,
    ReassignablePartitionResponse,
    ReassignableTopicResponse,
)
from ottla.protocol.messages.k46_list_partition_reassignments import (
    ListPartitionReassignmentsRequest,
    ListPartitionReassignmentsResponse,
    OngoingPartitionReassignment,
    OngoingTopicReassignment,
)


def alter_partition_reassignments(
    state: ControllerState, request: AlterPartitionReassignmentsRequest
) -> Effects[MetadataRecord, AlterPartitionReassignmentsResponse]:
    """Decide an AlterPartitionReassignments request: return the metadata records to write, and the response with one result per partition.
    Raises Rejected (POLICY_VIOLATION) for too many partitions."""
    may_resize = request.allow_replication_factor_change
    records: list[MetadataRecord] = []
    responses = []
    for topic in request.topics:
        answers = []
        for wanted in topic.partitions:
            answer = ReassignablePartitionResponse(wanted.partition_index, ErrorCode.NONE, None)
            try:
                records.extend(_altered(state, topic.name, wanted, may_resize=may_resize))
            except Rejected as error:
                answer.error_code, answer.error_message = error.code, error.message or None
            answers.append(answer)
        responses.append(ReassignableTopicResponse(topic.name, answers))
    check_size(records)
    response = AlterPartitionReassignmentsResponse(error_message=None, allow_replication_factor_change=may_resize, responses=responses)
    return Effects(records, response)


def list_partition_reassignments(state: ControllerState, request: ListPartitionReassignmentsRequest) -> ListPartitionReassignmentsResponse:
    """Return the reassignments under way, of all or of the requested partitions. Topics without a reassignment are left out."""
    image = state.image
    if request.topics is None:
        found = [_under_way(topic, topic.partitions) for topic in image.topics.values()]
    else:
        requested = [(image.topic(each.name), each.partition_indexes) for each in request.topics]
        found = [_under_way(topic, indexes) for topic, indexes in requested if topic is not None]
    return ListPartitionReassignmentsResponse(error_message=None, topics=[topic for topic in found if topic.partitions])


def _under_way(topic: TopicImage, indexes: Iterable[int]) -> OngoingTopicReassignment:
    chosen = [(index, topic.partitions[index]) for index in indexes if index in topic.partitions]
    return OngoingTopicReassignment(
        topic.name,
        [
            OngoingPartitionReassignment(index, list(now.replicas), list(now.adding_replicas), list(now.removing_replicas))
            for index, now in chosen
            if _moves(now)
        ],
    )


def _moves(partition: PartitionRegistration) -> bool:
    return bool(partition.removing_replicas or partition.adding_replicas)


def _altered(state: ControllerState, name: str, wanted: ReassignablePartition, *, may_resize: bool) -> Iterable[PartitionChangeRecord]:
    topic = state.catalog.topic(name)
    index = wanted.partition_index
    if state.settings.release_behaviour.has_zookeeper:
        if wanted.replicas is not None:
            check_assignment(state.image.brokers, wanted.replicas)
        elif topic is None or index not in topic.partitions:
            raise Rejected(ErrorCode.NO_REASSIGNMENT_IN_PROGRESS, "No partition reassignment is in progress.")
    if topic is None:
        raise Rejected(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, f"Unable to find a topic named {name}.")
    if index not in topic.partitions:
        raise Rejected(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, f"Unable to find partition {name}:{index}.")
    rules = TopicRules(state, topic)
    if wanted.replicas is None:
        record = _called_off(state, rules, index)
    else:
        check_assignment(state.image.brokers, wanted.replicas)
        if not may_resize:
            _check_same_size(topic.partitions[index], wanted.replicas)
        record = _moved(rules, index, wanted.replicas)
    return () if record is None else (record,)


def _moved(rules: TopicRules, index: int, wanted: Sequence[int]) -> PartitionChangeRecord | None:
    now = rules.topic.partitions[index]
    removing = sorted(set(now.replicas) - set(wanted))
    adding = sorted(set(wanted) - set(now.replicas))
    target = PartitionTarget(
        replicas=[*wanted, *removing],
        removing=removing or None,  # as in Kafka, None keeps the set of an earlier reassignment
        adding=adding or None,
    )
    return rules.change(index, target, ElectionKind.ONLINE)


def _called_off(state: ControllerState, rules: TopicRules, index: int) -> PartitionChangeRecord | None:
    now = rules.topic.partitions[index]
    if not _moves(now):
        raise Rejected(ErrorCode.NO_REASSIGNMENT_IN_PROGRESS)
    code = ErrorCode.INVALID_REPLICA_ASSIGNMENT
    replicas = [replica for replica in now.replicas if replica not in now.adding_replicas]
    isr = [replica for replica in now.isr if replica not in now.adding_replicas]
    if not isr:
        if not replicas:
            raise Rejected(code, "Invalid replica assignment: addingReplicas contains all replicas.")
        name = rules.topic.name
        if not state.may_elect_uncleanly(name):
            text = f"Unable to revert partition assignment for {name}:{index} because it would require an unclean leader election."
            raise Rejected(code, text)
        isr = replicas[:1]
    return rules.change(index, PartitionTarget(isr=isr, replicas=replicas, removing=(), adding=()))


def _check_same_size(now: PartitionRegistration, wanted: Sequence[int]) -> None:
    size = len({*now.replicas, *now.adding_replicas} - set(now.removing_replicas))
    if size != len(wanted):
        raise Rejected(ErrorCode.INVALID_REPLICATION_FACTOR, f"The replication factor is changed from {size} to {len(wanted)}")
