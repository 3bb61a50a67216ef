"""Decides leader and ISR changes when a broker registers, leaves or loses a directory (Kafka's `ReplicationControlManager.handle…`).

Invariants:
- A broker that is fenced, unregistered, shut down or restarted leaves all ISRs and leads nothing.
- A broker that becomes unfenced is elected leader of partitions without a leader, if it may lead them. The elections treat it as unfenced
  already, although the record that unfences it is written together with theirs.
- Every decision is made on the current state: if two decisions are written as one batch of records, neither sees the other's changes.
- Partitions are ordered by their topics' creation, and by index. Kafka's order is that of hash tables whose size depends on history;
  records of different partitions are independent.
- All partitions are scanned: a few ms for 10,000, which is cheaper than maintaining an index at every change.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator
from typing import Final, NamedTuple

from ottla.broker.cluster.image import PartitionRegistration, TopicImage
from ottla.broker.cluster.metadata_records import (
    NO_LEADER,
    BrokerRegistrationChangeRecord,
    MetadataRecord,
    PartitionChangeRecord,
    UnregisterBrokerRecord,
)
from ottla.broker.controller.partition_change import PartitionTarget
from ottla.broker.controller.state import ControllerState
from ottla.broker.controller.topic_rules import TopicRules

FENCE: Final = 1
UNFENCE: Final = -1
IN_CONTROLLED_SHUTDOWN: Final = 1
"""The `in_controlled_shutdown` value of a `BrokerRegistrationChangeRecord` that begins a broker's controlled shutdown. 0 is "unchanged"."""

_NOBODY: Final = -1
Holds = Callable[[PartitionRegistration], bool]


class _AffectedBrokers(NamedTuple):
    """The ids of the brokers that a change affects, `_NOBODY` (-1) for none. `removed` leaves all ISRs and leads nothing, `added` may lead
    again, and `lost` may lack records that it had acknowledged.
    """

    removed: int = _NOBODY
    added: int = _NOBODY
    lost: int = _NOBODY


def broker_fenced(state: ControllerState, broker_id: int) -> list[MetadataRecord]:
    """Return the records that remove a broker from all ISRs and from leadership, and fence it, because its session has timed out or it
    stops.
    """
    epoch = state.image.brokers[broker_id].epoch
    return [*broker_shut_down(state, broker_id), BrokerRegistrationChangeRecord(broker_id, epoch, fenced=FENCE)]


def broker_unfenced(state: ControllerState, broker_id: int) -> list[MetadataRecord]:
    """Return the records that unfence a broker, because it has caught up with the metadata, and make it leader of partitions without a
    leader if it may lead them.
    """
    epoch = state.image.brokers[broker_id].epoch
    return [
        BrokerRegistrationChangeRecord(broker_id, epoch, fenced=UNFENCE),
        *_changes(state, lambda partition: partition.leader == NO_LEADER, _AffectedBrokers(added=broker_id)),
    ]


def broker_unregistered(state: ControllerState, broker_id: int) -> list[MetadataRecord]:
    """Return the records that remove a broker from all ISRs, ELRs and leadership, and unregister it."""
    return [
        *broker_shut_down(state, broker_id),
        *_changes(state, lambda partition: broker_id in partition.elr, _AffectedBrokers(removed=broker_id)),
        UnregisterBrokerRecord(broker_id, state.image.brokers[broker_id].epoch),
    ]


def broker_shutting_down(state: ControllerState, broker_id: int) -> list[MetadataRecord]:
    """Return the records that start a broker's controlled shutdown: its leaderships move to other brokers before it stops."""
    broker = state.image.brokers[broker_id]
    shutdown = [BrokerRegistrationChangeRecord(broker_id, broker.epoch, in_controlled_shutdown=IN_CONTROLLED_SHUTDOWN)]
    return [*(shutdown if not broker.in_controlled_shutdown else ()), *broker_shut_down(state, broker_id)]


def broker_restarted(state: ControllerState, broker_id: int, *, cleanly: bool) -> list[MetadataRecord]:
    """Return the records that remove the broker's former incarnation from all ISRs and from leadership. They precede the registration of
    the new incarnation.

    After an unclean shutdown the broker may lack records, and is not an eligible leader any more (KIP-966).
    """
    if cleanly or not state.has_elr:
        return broker_shut_down(state, broker_id)
    return [
        *_changes(state, lambda partition: broker_id in partition.isr, _AffectedBrokers(lost=broker_id)),
        *_changes(state, lambda partition: broker_id in partition.elr, _AffectedBrokers(lost=broker_id)),
    ]


def broker_shut_down(state: ControllerState, broker_id: int) -> list[MetadataRecord]:
    """Return the records that remove a broker from all ISRs and from leadership, because it stops or has stopped. Its registration is
    unchanged.
    """
    return _changes(state, lambda partition: broker_id in partition.isr, _AffectedBrokers(removed=broker_id))


def directories_failed(state: ControllerState, broker_id: int, failed: Collection[bytes]) -> list[MetadataRecord]:
    """Return the records that remove the replicas in a broker's failed directories from ISRs and leadership, and these directories from its
    registration; none for directories that are no longer registered.
    """
    broker = state.image.brokers[broker_id]
    records: list[MetadataRecord] = []
    for directory in broker.directories:
        if directory in failed:
            records += _changes(state, _lies_in(directory), _AffectedBrokers(removed=broker_id))
    left = [directory for directory in broker.directories if directory not in failed]
    if len(left) < len(broker.directories):
        records.append(BrokerRegistrationChangeRecord(broker_id, broker.epoch, log_dirs=left))
    return records


def replicas_lost(state: ControllerState, broker_id: int, places: Collection[tuple[bytes, int]]) -> list[MetadataRecord]:
    """Return the records that remove the broker's replicas of these partitions (topic id, index) from ISRs and leadership, because their
    directory is offline.
    """
    records: list[MetadataRecord] = []
    for topic in state.image.topics.values():
        chosen = [index for index in topic.partitions if (topic.topic_id, index) in places]
        records += _of_topic(state, topic, chosen, _AffectedBrokers(removed=broker_id))
    return records


def leads_any_partition(state: ControllerState, broker_id: int) -> bool:
    """Return whether the broker is the leader of any partition."""
    return any(partition.leader == broker_id for topic in state.image.topics.values() for partition in topic.partitions.values())


def _lies_in(directory: bytes) -> Holds:
    return lambda partition: directory in partition.directories


def _changes(state: ControllerState, holds: Holds, affected: _AffectedBrokers) -> list[MetadataRecord]:
    """Return the records that change the leader or ISR of partitions because of the `affected` brokers (`generateLeaderAndIsrUpdates`).
    Only partitions for which `holds` returns true are examined, for instance those with a replica on the broker.
    """
    records: list[MetadataRecord] = []
    for topic in state.image.topics.values():
        records += _of_topic(state, topic, [index for index, partition in topic.partitions.items() if holds(partition)], affected)
    return records


def _of_topic(
    state: ControllerState, topic: TopicImage, chosen: Collection[int], affected: _AffectedBrokers
) -> Iterator[PartitionChangeRecord]:
    def is_active(broker_id: int) -> bool:
        return broker_id not in (affected.removed, affected.lost) and (broker_id == affected.added or state.is_active(broker_id))

    if not chosen:
        return
    rules = TopicRules(state, topic, is_active)
    for index in chosen:
        isr = [replica for replica in topic.partitions[index].isr if replica not in (affected.removed, affected.lost)]
        record = rules.change(index, PartitionTarget(isr=isr, lost=() if affected.lost == _NOBODY else (affected.lost,)))
        if record is not None:
            yield record
