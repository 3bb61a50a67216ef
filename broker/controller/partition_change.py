"""What becomes of one partition when its in-sync set, its replicas or those that may lead it change (Kafka's `PartitionChangeBuilder`).

Rules that hold inside:
- Pure: from the partition as it is, what is wanted of it, and the rules of the moment to the record that says the difference, or None.
- The steps come in Kafka's order: a reassignment that can end does; eligible leader replicas (KIP-966); the election; epochs; fields.
- Without eligible leader replicas an in-sync set is never written empty: its last member stays, and only it may lead again.
- The last known leader (KIP-966's balanced recovery) is who led last. It is kept from when nobody leads until somebody does.
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
"""The level of metadata.version, 3.6-IV0, from which on an in-sync set that shrinks begins no leader epoch (KAFKA-15021)."""


class ElectionKind(Enum):
    """Who may be elected."""

    ONLINE = auto()
    """The leader stays if it may; else the first in-sync replica."""
    PREFERRED = auto()
    """The first replica leads, if it is in sync."""
    UNCLEAN = auto()
    """As online; where nobody is in sync, any replica: what only others had is lost."""


@dataclass(frozen=True, slots=True)
class PartitionRules:
    """What holds for the partition at the moment. `default_directory` is where a new replica of a broker lies."""

    metadata_level: int
    has_elr: bool
    min_isr: int
    may_lead: Callable[[int], bool]
    default_directory: Callable[[int], bytes]
    election: ElectionKind = ElectionKind.ONLINE


@dataclass(frozen=True, slots=True)
class PartitionTarget:
    """What is wanted; None: as it is. `directories` are of the brokers that are named; `lost` are brokers that may lack what they had."""

    isr: Sequence[int] | None = None
    replicas: Sequence[int] | None = None
    removing: Sequence[int] | None = None
    adding: Sequence[int] | None = None
    recovery_state: int | None = None
    directories: Mapping[int, bytes] = field(default_factory=dict)
    lost: Collection[int] = ()


class _Sets(NamedTuple):
    """The sets of replicas that the partition is to have."""

    isr: Sequence[int]
    replicas: Sequence[int]
    removing: Sequence[int]
    adding: Sequence[int]
    elr: Sequence[int]


def partition_change(
    topic_id: bytes, index: int, before: PartitionRegistration, target: PartitionTarget, rules: PartitionRules
) -> PartitionChangeRecord | None:
    """The record that makes the partition what it is to be; None where it is so already."""
    sets = _Sets(
        before.isr if target.isr is None else target.isr,
        before.replicas if target.replicas is None else target.replicas,
        before.removing_replicas if target.removing is None else target.removing,
        before.adding_replicas if target.adding is None else target.adding,
        before.elr,
    )
    sets = _with_elr(_reassigned(sets), before, target.lost, rules)
    record = PartitionChangeRecord(index, topic_id)
    sets = _elect(record, sets, before, rules)
    if record.leader == LEADER_UNCHANGED and not set(before.replicas) <= set(sets.replicas):
        record.leader = before.leader  # who was removed must see that its leader epoch is over
    _set_in_sync(record, sets, before, rules)
    _set_last_known_leader(record, before, rules)
    _set_replicas(record, sets, before, target, rules)
    if target.recovery_state is not None and target.recovery_state != before.leader_recovery_state:
        record.leader_recovery_state = target.recovery_state
    return None if record == PartitionChangeRecord(index, topic_id) else record


def _reassigned(sets: _Sets) -> _Sets:
    """The sets after the reassignment, where it can end (`PartitionReassignmentReplicas.maybeCompleteReassignment`)."""
    if not sets.removing and not sets.adding:
        return sets
    isr = [replica for replica in sets.isr if replica not in sets.removing]
    replicas = [replica for replica in sets.replicas if replica not in sets.removing]
    if sets.removing and not (isr and replicas):
        return sets
    if not set(sets.adding) <= set(isr):
        return sets
    if len(sets.adding) < len(sets.removing) and not set(replicas) <= set(isr):
        return sets  # fewer replicas than before, and not all in sync: to end it would leave a smaller in-sync set than there is
    return sets._replace(isr=isr, replicas=replicas, removing=(), adding=())


def _with_elr(sets: _Sets, before: PartitionRegistration, lost: Collection[int], rules: PartitionRules) -> _Sets:
    """Who left an in-sync set that is below its minimum stays eligible: the high watermark cannot have passed what it has."""
    if not rules.has_elr:
        return sets
    if len(sets.isr) >= rules.min_isr:
        return sets._replace(elr=())
    candidates = in_hash_order([*sets.elr, *before.isr], int)
    return sets._replace(elr=[replica for replica in candidates if replica not in sets.isr and replica not in lost])


def _elect(record: PartitionChangeRecord, sets: _Sets, before: PartitionRegistration, rules: PartitionRules) -> _Sets:
    leader, unclean = _elected(sets, before, rules)
    if leader == before.leader:
        return sets
    if leader in sets.elr:
        sets = sets._replace(isr=[leader], elr=[replica for replica in sets.elr if replica != leader])
    record.leader = leader
    if unclean:
        record.isr = [leader]
        if before.leader_recovery_state != RECOVERING:
            record.leader_recovery_state = RECOVERING
    return sets


def _elected(sets: _Sets, before: PartitionRegistration, rules: PartitionRules) -> tuple[int, bool]:
    """Who leads, and whether it may lack acknowledged records."""
    valid = sets.isr or sets.elr

    def first_of(replicas: Sequence[int]) -> int | None:
        return next((replica for replica in replicas if replica in valid and rules.may_lead(replica)), None)

    preferred = sets.replicas[:1] if rules.election is ElectionKind.PREFERRED else ()
    leader = first_of([*preferred, before.leader, *sets.replicas])
    if leader is not None:
        return leader, False
    if rules.has_elr and not valid and len(before.last_known_elr) == 1 and rules.may_lead(before.last_known_elr[0]):
        return before.last_known_elr[0], True
    if rules.election is ElectionKind.UNCLEAN:
        leader = next((replica for replica in sets.replicas if rules.may_lead(replica)), None)
    return (NO_LEADER, False) if leader is None else (leader, True)


def _set_in_sync(record: PartitionChangeRecord, sets: _Sets, before: PartitionRegistration, rules: PartitionRules) -> None:
    elr = sets.elr if rules.has_elr and record.isr is None else ()
    if tuple(elr) != before.elr:
        record.eligible_leader_replicas = list(elr)
    if record.isr is None and (sets.isr or rules.has_elr) and tuple(sets.isr) != before.isr:
        record.isr = list(sets.isr)
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
    record: PartitionChangeRecord, sets: _Sets, before: PartitionRegistration, target: PartitionTarget, rules: PartitionRules
) -> None:
    if rules.metadata_level >= DIRECTORIES and sets.replicas:
        placed = {**dict(zip(before.replicas, before.directories, strict=True)), **target.directories}
        directories = [placed[replica] if replica in placed else rules.default_directory(replica) for replica in sets.replicas]
        if tuple(directories) != before.directories:
            record.directories = directories
    if sets.replicas and tuple(sets.replicas) != before.replicas:
        record.replicas = list(sets.replicas)
    if tuple(sets.removing) != before.removing_replicas:
        record.removing_replicas = list(sets.removing)
    if tuple(sets.adding) != before.adding_replicas:
        record.adding_replicas = list(sets.adding)
