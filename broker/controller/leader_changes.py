"""What becomes of leaders and in-sync sets when a broker comes, goes or loses a directory (Kafka's `ReplicationControlManager.handle…`).

Rules that hold inside:
- Who is fenced, unregistered, shut down or restarted leaves the in-sync sets, and leads nothing more.
- Who comes back leads what nobody leads, if it may. That it is back counts before there is a record of it.
- All is decided of the state as it is: of two decisions for one batch of records neither sees what the other decided.
- Partitions come in the order in which their topics came into the metadata, and by index. Kafka's own order is that of hash tables that
  remember how large they were once; records of different partitions do not depend on each other.
- All partitions are looked at: a few milliseconds for 10,000, which is less than what an index costs to keep at every change.
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
"""What a `BrokerRegistrationChangeRecord` says."""

_NOBODY: Final = -1
Holds = Callable[[PartitionRegistration], bool]


class _Who(NamedTuple):
    """Who leaves, who comes, and who may lack what it had."""

    removed: int = _NOBODY
    added: int = _NOBODY
    lost: int = _NOBODY


def broker_fenced(state: ControllerState, broker_id: int) -> list[MetadataRecord]:
    """The broker may not serve any more: its session is over, or it stops."""
    epoch = state.image.brokers[broker_id].epoch
    return [*broker_gone(state, broker_id), BrokerRegistrationChangeRecord(broker_id, epoch, fenced=FENCE)]


def broker_unfenced(state: ControllerState, broker_id: int) -> list[MetadataRecord]:
    """The broker has read what it missed, and serves."""
    epoch = state.image.brokers[broker_id].epoch
    return [
        BrokerRegistrationChangeRecord(broker_id, epoch, fenced=UNFENCE),
        *_changes(state, lambda partition: partition.leader == NO_LEADER, _Who(added=broker_id)),
    ]


def broker_unregistered(state: ControllerState, broker_id: int) -> list[MetadataRecord]:
    """The broker is no more."""
    return [
        *broker_gone(state, broker_id),
        *_changes(state, lambda partition: broker_id in partition.elr, _Who(removed=broker_id)),
        UnregisterBrokerRecord(broker_id, state.image.brokers[broker_id].epoch),
    ]


def broker_shutting_down(state: ControllerState, broker_id: int) -> list[MetadataRecord]:
    """The broker hands over what it leads before it stops."""
    broker = state.image.brokers[broker_id]
    told = [BrokerRegistrationChangeRecord(broker_id, broker.epoch, in_controlled_shutdown=IN_CONTROLLED_SHUTDOWN)]
    return [*(told if not broker.in_controlled_shutdown else ()), *broker_gone(state, broker_id)]


def broker_restarted(state: ControllerState, broker_id: int, *, cleanly: bool) -> list[MetadataRecord]:
    """Another process registers as the broker: before its registration the partitions are told that the one before is gone.

    After an unclean stop it may lack what it had, and is not eligible any more (KIP-966).
    """
    if cleanly or not state.has_elr:
        return broker_gone(state, broker_id)
    return [
        *_changes(state, lambda partition: broker_id in partition.isr, _Who(lost=broker_id)),
        *_changes(state, lambda partition: broker_id in partition.elr, _Who(lost=broker_id)),
    ]


def broker_gone(state: ControllerState, broker_id: int) -> list[MetadataRecord]:
    """The broker leaves the in-sync sets."""
    return _changes(state, lambda partition: broker_id in partition.isr, _Who(removed=broker_id))


def directories_failed(state: ControllerState, broker_id: int, failed: Collection[bytes]) -> list[MetadataRecord]:
    """Of the broker's directories these are offline: its replicas there are out of sync and lead nothing. Nothing, where that was known."""
    broker = state.image.brokers[broker_id]
    records: list[MetadataRecord] = []
    for directory in broker.directories:
        if directory in failed:
            records += _changes(state, _lies_in(directory), _Who(removed=broker_id))
    left = [directory for directory in broker.directories if directory not in failed]
    if len(left) < len(broker.directories):
        records.append(BrokerRegistrationChangeRecord(broker_id, broker.epoch, log_dirs=left))
    return records


def replicas_lost(state: ControllerState, broker_id: int, places: Collection[tuple[bytes, int]]) -> list[MetadataRecord]:
    """The broker has the partitions, by topic id and index, in a directory that is offline."""
    records: list[MetadataRecord] = []
    for topic in state.image.topics.values():
        chosen = [index for index in topic.partitions if (topic.topic_id, index) in places]
        records += _of_topic(state, topic, chosen, _Who(removed=broker_id))
    return records


def leads_something(state: ControllerState, broker_id: int) -> bool:
    """Whether the broker leads a partition."""
    return any(partition.leader == broker_id for topic in state.image.topics.values() for partition in topic.partitions.values())


def _lies_in(directory: bytes) -> Holds:
    return lambda partition: directory in partition.directories


def _changes(state: ControllerState, holds: Holds, who: _Who) -> list[MetadataRecord]:
    """For the partitions of which it holds (`generateLeaderAndIsrUpdates`)."""
    records: list[MetadataRecord] = []
    for topic in state.image.topics.values():
        records += _of_topic(state, topic, [index for index, partition in topic.partitions.items() if holds(partition)], who)
    return records


def _of_topic(state: ControllerState, topic: TopicImage, chosen: Collection[int], who: _Who) -> Iterator[PartitionChangeRecord]:
    def is_active(broker_id: int) -> bool:
        return broker_id not in (who.removed, who.lost) and (broker_id == who.added or state.is_active(broker_id))

    if not chosen:
        return
    rules = TopicRules(state, topic, is_active)
    for index in chosen:
        isr = [replica for replica in topic.partitions[index].isr if replica not in (who.removed, who.lost)]
        record = rules.change(index, PartitionTarget(isr=isr, lost=() if who.lost == _NOBODY else (who.lost,)))
        if record is not None:
            yield record
