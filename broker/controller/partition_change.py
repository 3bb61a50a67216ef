"""Decides how one partition changes with its ISR, its replicas or the brokers that may lead it (Kafka's `PartitionChangeBuilder`).

Invariants:
- The code is pure: the change record, or None, depends only on the partition, its target and the current rules.
- The steps have Kafka's order: complete a reassignment, eligible leader replicas (KIP-966), election, epochs, other fields.
- Without eligible leader replicas an ISR is never written empty: its last replica stays, and only that one may lead again.
- The last known leader (KIP-966's balanced recovery) is recorded when a partition loses its leader, and cleared at the next election.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field
from enum import Enum, auto
from typing import Final, NamedTuple

from ottla.broker.cluster.image import RECOVERING, PartitionRegistration
from ottla.broker.cluster.metadata_records import (
    LEADER_UNCHANGED,
    NO_LEADER,
    PartitionChangeRecord,
)
from ottla.broker.cluster.record_versions import DIRECTORIES
from ottla.broker.core.java_hash import in_hash_order

EPOCH_KEPT_BY_SHRINKING: Final = 12
"""The metadata.version, 3.6-IV0, from which a shrinking ISR begins no leader epoch (KAFKA-15021)."""


class ElectionKind(Enum):
    """The kind of a leader election: which replicas may become leader."""

    ONLINE = auto()
    """The current leader stays if it may still lead. Otherwise the first replica that may lead becomes leader, of those in the ISR or, if
    the ISR is empty, of the eligible leader replicas (ELR)."""
    PREFERRED = auto()
    """The preferred replica, the first in the replica list, becomes leader if it is in the ISR (or ELR) and may lead; otherwise the
    election is like ONLINE."""
    UNCLEAN = auto()
    """The election is like ONLINE, but if no replica of the ISR or ELR may lead, any live replica may become leader. Records that it lacks
    are lost."""


@dataclass(frozen=True, slots=True)
class PartitionRules:
    """The current rules for one partition. `may_lead` returns whether a broker may lead it, `default_directory` the id of the log directory
    for a new replica on a broker.
    """

    metadata_level: int
    has_elr: bool
    min_isr: int
    may_lead: Callable[[int], bool]
    default_directory: Callable[[int], bytes]
    election: ElectionKind = ElectionKind.ONLINE


@dataclass(frozen=True, slots=True)
class PartitionTarget:
    """The wanted state of a partition; None leaves a field unchanged. `directories` has the log directory ids by broker. Brokers in `lost`
    may lack records that they had acknowledged (after an unclean shutdown).
    """

    isr: Sequence[int] | None = None
    replicas: Sequence[int] | None = None
    removing: Sequence[int] | None = None
    adding: Sequence[int] | None = None
    recovery_state: int | None = None
    directories: Mapping[int, bytes] = field(default_factory=dict)
    lost: Collection[int] = ()


class _ReplicaLists(NamedTuple):
    """The partition's replica lists (broker ids) while a change is computed. `elr` has the eligible leader replicas (KIP-966)."""

    isr: Sequence[int]
    replicas: Sequence[int]
    removing: Sequence[int]
    adding: Sequence[int]
    elr: Sequence[int]


def partition_change(
    topic_id: bytes, index: int, before: PartitionRegistration, target: PartitionTarget, rules: PartitionRules
) -> PartitionChangeRecord | None:
    """Return the record that changes the partition from `before` to `target`; None if the partition has that state already."""
    lists = _ReplicaLists(
        before.isr if target.isr is None else target.isr,
        before.replicas if target.replicas is None else target.replicas,
        before.removing_replicas if target.removing is None else target.removing,
        before.adding_replicas if target.adding is None else target.adding,
        before.elr,
    )
    lists = _with_elr(_reassigned(lists), before, target.lost, rules)
    record = PartitionChangeRecord(index, topic_id)
    lists = _elect(record, lists, before, rules)
    if record.leader == LEADER_UNCHANGED and not set(before.replicas) <= set(lists.replicas):
        record.leader = before.leader  # naming the same leader begins a new leader epoch, which fences the removed replica
    _set_in_sync(record, lists, before, rules)
    _set_last_known_leader(record, before, rules)
    _set_replicas(record, lists, before, target, rules)
    if target.recovery_state is not None and target.recovery_state != before.leader_recovery_state:
        record.leader_recovery_state = target.recovery_state
    return None if record == PartitionChangeRecord(index, topic_id) else record


def _reassigned(lists: _ReplicaLists) -> _ReplicaLists:
    """Return the replica lists after the partition's reassignment, if it can complete; otherwise, or without a reassignment, return them
    unchanged (`PartitionReassignmentReplicas.maybeCompleteReassignment`).
    """
    if not lists.removing and not lists.adding:
        return lists
    isr = [replica for replica in lists.isr if replica not in lists.removing]
    replicas = [replica for replica in lists.replicas if replica not in lists.removing]
    if lists.removing and not (isr and replicas):
        return lists
    if not set(lists.adding) <= set(isr):
        return lists
    if len(lists.adding) < len(lists.removing) and not set(replicas) <= set(isr):
        return lists  # fewer replicas than before, and not all of them in the ISR: completing would shrink the ISR
    return lists._replace(isr=isr, replicas=replicas, removing=(), adding=())


def _with_elr(lists: _ReplicaLists, before: PartitionRegistration, lost: Collection[int], rules: PartitionRules) -> _ReplicaLists:
    """Return the replica lists after the update of the eligible leader replicas (ELR). Without `rules.has_elr` nothing changes.

    While the ISR is smaller than min.insync.replicas, the high watermark does not advance. A replica that leaves the ISR then still has
    every committed record, so it joins the ELR, except if it is in `lost` (its broker may have lost records). Otherwise the ELR is empty.
    """
    if not rules.has_elr:
        return lists
    if len(lists.isr) >= rules.min_isr:
        return lists._replace(elr=())
    candidates = in_hash_order([*lists.elr, *before.isr], int)
    return lists._replace(elr=[replica for replica in candidates if replica not in lists.isr and replica not in lost])


def _elect(record: PartitionChangeRecord, lists: _ReplicaLists, before: PartitionRegistration, rules: PartitionRules) -> _ReplicaLists:
    leader, unclean = _elected(lists, before, rules)
    if leader == before.leader:
        return lists
    if leader in lists.elr:
        lists = lists._replace(isr=[leader], elr=[replica for replica in lists.elr if replica != leader])
    record.leader = leader
    if unclean:
        record.isr = [leader]
        if before.leader_recovery_state != RECOVERING:
            record.leader_recovery_state = RECOVERING
    return lists


def _elected(lists: _ReplicaLists, before: PartitionRegistration, rules: PartitionRules) -> tuple[int, bool]:
    """Return the leader after the change (NO_LEADER if no replica may lead), and whether its election is unclean: the leader may then lack
    acknowledged records.
    """
    valid = lists.isr or lists.elr

    def first_of(replicas: Sequence[int]) -> int | None:
        return next((replica for replica in replicas if replica in valid and rules.may_lead(replica)), None)

    preferred = lists.replicas[:1] if rules.election is ElectionKind.PREFERRED else ()
    leader = first_of([*preferred, before.leader, *lists.replicas])
    if leader is not None:
        return leader, False
    if rules.has_elr and not valid and len(before.last_known_elr) == 1 and rules.may_lead(before.last_known_elr[0]):
        return before.last_known_elr[0], True
    if rules.election is ElectionKind.UNCLEAN:
        leader = next((replica for replica in lists.replicas if rules.may_lead(replica)), None)
    return (NO_LEADER, False) if leader is None else (leader, True)


def _set_in_sync(record: PartitionChangeRecord, lists: _ReplicaLists, before: PartitionRegistration, rules: PartitionRules) -> None:
    elr = lists.elr if rules.has_elr and record.isr is None else ()
    if tuple(elr) != before.elr:
        record.eligible_leader_replicas = list(elr)
    if record.isr is None and (lists.isr or rules.has_elr) and tuple(lists.isr) != before.isr:
        record.isr = list(lists.isr)
    shrinks = record.isr is not None and not set(before.isr) <= set(record.isr)
    if shrinks and record.leader == LEADER_UNCHANGED and rules.metadata_level < EPOCH_KEPT_BY_SHRINKING:
        record.leader = before.leader


def _set_last_known_leader(record: PartitionChangeRecord, before: PartitionRegistration, rules: PartitionRules) -> None:
    if not rules.has_elr:
        return
    if record.leader == NO_LEADER and not before.last_known_elr:
        record.last_known_elr = [before.leader]
    elif record.leader >= 0 and before.last_known_elr:
        record.last_known_elr = []


def _set_replicas(
    record: PartitionChangeRecord, lists: _ReplicaLists, before: PartitionRegistration, target: PartitionTarget, rules: PartitionRules
) -> None:
    if rules.metadata_level >= DIRECTORIES and lists.replicas:
        placed = {**dict(zip(before.replicas, before.directories, strict=True)), **target.directories}
        directories = [placed[replica] if replica in placed else rules.default_directory(replica) for replica in lists.replicas]
        if tuple(directories) != before.directories:
            record.directories = directories
    if lists.replicas and tuple(lists.replicas) != before.replicas:
        record.replicas = list(lists.replicas)
    if tuple(lists.removing) != before.removing_replicas:
        record.removing_replicas = list(lists.removing)
    if tuple(lists.adding) != before.adding_replicas:
        record.adding_replicas = list(lists.adding)
