"""Decides leader elections: those that a client requests (ElectLeaders; KIP-183, KIP-460) and the controller's periodic ones.

Invariants:
- The preferred replica, the first in the replica list, becomes leader if it is in the ISR. A replica outside the ISR becomes leader only
  of a partition without a leader.
- A preferred election succeeds with any new leader: a partition without a leader may get another one than the preferred replica.
- A periodic run makes a bounded number of elections and returns whether there may be more.

Source: Kafka's ReplicationControlManager.electLeaders, maybeBalancePartitionLeaders, maybeElectUncleanLeaders.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from ottla.broker.cluster.image import PartitionRegistration
from ottla.broker.cluster.metadata_records import NO_LEADER, MetadataRecord, PartitionChangeRecord
from ottla.broker.controller.batches import check_size
from ottla.broker.controller.partition_change import ElectionKind
from ottla.broker.controller.state import ControllerState
from ottla.broker.controller.topic_rules import TopicRules
from ottla.broker.core.effects import Effects
from ottla.broker.core.rejected import Rejected
from ottla.protocol.error_codes import ErrorCode
from ottla.protocol.messages.k43_elect_leaders import (
    ElectLeadersRequest,
    ElectLeadersResponse,
    PartitionResult,
    ReplicaElectionResult,
)

ELECTIONS_AT_ONCE_MAX: Final = 1_000
"""The most elections in one periodic run (Kafka's `MAX_ELECTIONS_PER_IMBALANCE`). They take some 50 ms."""

_KINDS: Final = {0: ElectionKind.PREFERRED, 1: ElectionKind.UNCLEAN}
_NOT_POSSIBLE: Final = {
    ElectionKind.PREFERRED: (ErrorCode.PREFERRED_LEADER_NOT_AVAILABLE, "The preferred leader was not available."),
    ElectionKind.UNCLEAN: (ErrorCode.ELIGIBLE_LEADERS_NOT_AVAILABLE, "Eligible topic partition leaders are not available."),
}


def elect_leaders(state: ControllerState, request: ElectLeadersRequest) -> Effects[MetadataRecord, ElectLeadersResponse]:
    """Decide an ElectLeaders request: return the metadata records to write, and the response. If the request's list of partitions is null,
    all partitions are requested, and those that need no election are not in the response.

    If the list is empty, so is the response, whatever the election type. Raises Rejected: INVALID_REQUEST for an unknown election type,
    POLICY_VIOLATION for too many elections.
    """
    if request.topic_partitions == []:
        return Effects([], ElectLeadersResponse())
    kind = _KINDS.get(request.election_type)
    if kind is None:
        raise Rejected(ErrorCode.INVALID_REQUEST, f"Unknown election type {request.election_type}")
    records: list[MetadataRecord] = []
    results = []
    if request.topic_partitions is None:
        for topic in state.image.topics.values():
            answers = [_answer(state, topic.name, index, kind, records) for index in topic.partitions]
            needed = [answer for answer in answers if answer.error_code != ErrorCode.ELECTION_NOT_NEEDED]
            if needed or not state.settings.release_behaviour.has_zookeeper:
                results.append(ReplicaElectionResult(topic.name, needed))
    else:
        for topic_partitions in request.topic_partitions:
            answers = [_answer(state, topic_partitions.topic, index, kind, records) for index in topic_partitions.partitions]
            results.append(ReplicaElectionResult(topic_partitions.topic, answers))
    check_size(records)
    return Effects(records, ElectLeadersResponse(replica_election_results=results))


def balance_leaders(state: ControllerState) -> Effects[MetadataRecord, bool]:
    """Return the records that make the preferred replica the leader of partitions that another replica leads, and whether there may be more
    such partitions: one call makes at most ELECTIONS_AT_ONCE_MAX records.
    """
    return _some(_preferred_leaders(state))


def elect_unclean_leaders(state: ControllerState) -> Effects[MetadataRecord, bool]:
    """Return the records that make live replicas leaders of partitions that have no leader and whose topics allow unclean elections. Also
    return whether there may be more such partitions: one call makes at most ELECTIONS_AT_ONCE_MAX records.
    """
    return _some(_unclean_leaders(state))


def has_preferred_leader(partition: PartitionRegistration) -> bool:
    """Return whether the partition's leader is its preferred replica, the first in the replica list."""
    return partition.leader == next(iter(partition.replicas), NO_LEADER)


def _some(found: Iterator[PartitionChangeRecord]) -> Effects[MetadataRecord, bool]:
    records = [record for record, _ in zip(found, range(ELECTIONS_AT_ONCE_MAX), strict=False)]
    return Effects(records, len(records) >= ELECTIONS_AT_ONCE_MAX)


def _preferred_leaders(state: ControllerState) -> Iterator[PartitionChangeRecord]:
    for topic in state.image.topics.values():
        rules = None
        for index, partition in topic.partitions.items():
            if not has_preferred_leader(partition):
                rules = rules or TopicRules(state, topic)
                if (record := rules.change(index, election=ElectionKind.PREFERRED)) is not None:
                    yield record


def _unclean_leaders(state: ControllerState) -> Iterator[PartitionChangeRecord]:
    for topic in state.image.topics.values():
        leaderless = [index for index, partition in topic.partitions.items() if partition.leader == NO_LEADER]
        if leaderless and state.may_elect_uncleanly(topic.name):
            rules = TopicRules(state, topic)
            for index in leaderless:
                if (record := rules.change(index, election=ElectionKind.UNCLEAN)) is not None:
                    yield record


def _answer(state: ControllerState, name: str, index: int, kind: ElectionKind, records: list[MetadataRecord]) -> PartitionResult:
    try:
        records.append(_election(state, name, index, kind))
    except Rejected as error:
        return PartitionResult(index, error.code, error.message)
    return PartitionResult(index, ErrorCode.NONE, None)


def _election(state: ControllerState, name: str, index: int, kind: ElectionKind) -> PartitionChangeRecord:
    topic = state.catalog.topic(name)
    if topic is None:
        raise Rejected(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, f"No such topic as {name}")
    partition = topic.partitions.get(index)
    if partition is None:
        raise Rejected(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, f"No such partition as {name}-{index}")
    if has_preferred_leader(partition) if kind is ElectionKind.PREFERRED else partition.leader != NO_LEADER:
        raise Rejected(ErrorCode.ELECTION_NOT_NEEDED, "Leader election not needed for topic partition.")
    record = TopicRules(state, topic).change(index, election=kind)
    if record is None:
        raise Rejected(*_NOT_POSSIBLE[kind])
    return record
