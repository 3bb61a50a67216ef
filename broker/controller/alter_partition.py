"""Decides AlterPartition: a leader proposes a new ISR (Kafka's `ReplicationControlManager.alterPartition`; KIP-497, KIP-903).

Invariants:
- The checks have Kafka's order, because the leader acts on the error: NOT_CONTROLLER makes it look for another controller, an old epoch
  makes it wait for newer metadata, and INELIGIBLE_REPLICA lets it propose again later.
- A broker that joins the ISR must be registered, unfenced, not shutting down, and the same process that caught up: its broker epoch must
  match, unless it is -1.
- If the change completes a reassignment and thereby moves the leadership away from the proposing broker, the change is made, and the
  response has the error NEW_LEADER_ELECTED.
"""

from __future__ import annotations

from collections.abc import Sequence

from ottla.broker.cluster.image import RECOVERED, RECOVERING, PartitionRegistration, TopicImage
from ottla.broker.cluster.metadata_records import LEADER_UNCHANGED, MetadataRecord
from ottla.broker.cluster.registrations import changed_partition
from ottla.broker.controller.partition_change import PartitionTarget
from ottla.broker.controller.state import ControllerState
from ottla.broker.controller.topic_rules import TopicRules
from ottla.broker.core.effects import Effects
from ottla.protocol.error_codes import ErrorCode
from ottla.protocol.messages.k56_alter_partition import (
    AlterPartitionRequest,
    AlterPartitionResponse,
    BrokerState,
    PartitionData,
    PartitionResult,
    TopicResult,
)


def alter_partition(state: ControllerState, request: AlterPartitionRequest) -> Effects[MetadataRecord, AlterPartitionResponse]:
    """Decide an AlterPartition request: return the metadata records to write, and a response with one result per partition. Raises Rejected
    (STALE_BROKER_EPOCH) if the request does not have the broker's current epoch."""
    state.broker(request.broker_id, request.broker_epoch)
    records: list[MetadataRecord] = []
    results = []
    for topic_data in request.topics:
        topic = state.image.topics.get(topic_data.topic_id)
        if topic is None:
            partitions = [PartitionResult(each.partition_index, ErrorCode.UNKNOWN_TOPIC_ID) for each in topic_data.partitions]
        else:
            rules = TopicRules(state, topic)
            partitions = [_alter(state, rules, request.broker_id, each, records) for each in topic_data.partitions]
        results.append(TopicResult(topic_data.topic_id, partitions))
    return Effects(records, AlterPartitionResponse(topics=results))


def _alter(
    state: ControllerState, rules: TopicRules, broker_id: int, partition_data: PartitionData, records: list[MetadataRecord]
) -> PartitionResult:
    members = partition_data.new_isr_with_epochs or [BrokerState(member) for member in partition_data.new_isr]
    error = _problem(state, rules.topic, broker_id, partition_data, members)
    if error is not ErrorCode.NONE:
        return PartitionResult(partition_data.partition_index, error)
    now = rules.topic.partitions[partition_data.partition_index]
    target = PartitionTarget(isr=[member.broker_id for member in members], recovery_state=partition_data.leader_recovery_state)
    record = rules.change(partition_data.partition_index, target)
    if record is not None:
        records.append(record)
        now = changed_partition(now, record)
        if record.leader not in (broker_id, LEADER_UNCHANGED):
            return PartitionResult(partition_data.partition_index, ErrorCode.NEW_LEADER_ELECTED)
    return PartitionResult(
        partition_data.partition_index,
        ErrorCode.NONE,
        now.leader,
        now.leader_epoch,
        list(now.isr),
        now.leader_recovery_state,
        now.partition_epoch,
    )


def _problem(
    state: ControllerState, topic: TopicImage, broker_id: int, partition_data: PartitionData, members: Sequence[BrokerState]
) -> ErrorCode:
    """Return the error code for which the partition's change is rejected, NONE if it can be made (`validateAlterPartitionData`). `members`
    are the brokers of the proposed ISR.
    """
    now = topic.partitions.get(partition_data.partition_index)
    if now is None:
        return ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    if partition_data.leader_epoch > now.leader_epoch or partition_data.partition_epoch > now.partition_epoch:
        return ErrorCode.NOT_CONTROLLER  # the leader has newer metadata, so another controller is active
    if partition_data.leader_epoch < now.leader_epoch:
        return ErrorCode.FENCED_LEADER_EPOCH
    if broker_id != now.leader:
        return ErrorCode.INVALID_REQUEST
    if partition_data.partition_epoch < now.partition_epoch:
        return ErrorCode.INVALID_UPDATE_VERSION
    if not _is_possible(now, partition_data.leader_recovery_state, [member.broker_id for member in members]):
        return ErrorCode.INVALID_REQUEST
    return ErrorCode.NONE if all(_is_eligible(state, member) for member in members) else ErrorCode.INELIGIBLE_REPLICA


def _is_possible(now: PartitionRegistration, recovery_state: int, isr: Sequence[int]) -> bool:
    if len(set(isr)) != len(isr) or not set(isr) <= set(now.replicas) or now.leader not in isr:
        return False
    if recovery_state == RECOVERING:
        return len(isr) == 1 and now.leader_recovery_state == RECOVERING
    return recovery_state == RECOVERED


def _is_eligible(state: ControllerState, member: BrokerState) -> bool:
    return state.is_active(member.broker_id) and member.broker_epoch in (-1, state.image.brokers[member.broker_id].epoch)
