"""Converts metadata records to the registrations in an image, and back, and applies change records to registrations.

Source: Kafka's `PartitionRegistration`, `BrokerRegistration` and `ControllerRegistration`.
"""

from __future__ import annotations

import struct
from collections.abc import Sequence
from typing import Final

from ottla.broker.cluster.image import MIGRATING, BrokerRegistration, ControllerRegistration, PartitionRegistration
from ottla.broker.cluster.metadata_records import (
    LEADER_UNCHANGED,
    RECOVERY_STATE_UNCHANGED,
    BrokerRegistrationChangeRecord,
    Endpoint,
    FeatureRange,
    PartitionChangeRecord,
    PartitionRecord,
    RegisterBrokerRecord,
    RegisterControllerRecord,
)

_SIGNED: Final = struct.Struct(">qq")
_RECOVERY_STATES: Final = (0, 1)
_FENCED: Final = {0: None, 1: True, -1: False}
_IN_CONTROLLED_SHUTDOWN: Final = {0: None, 1: True}


class InconsistentRecord(Exception):
    """Raised for a record that contradicts earlier ones: the log is corrupt, or is replayed wrongly. No later record can be trusted."""


def partition_of(record: PartitionRecord) -> PartitionRegistration:
    """Return the partition's state that the record describes. Raises `InconsistentRecord` for a wrong number of directories or an undefined
    recovery state.
    """
    return PartitionRegistration(
        replicas=tuple(record.replicas),
        directories=_directories(record.directories, len(record.replicas)),
        isr=tuple(record.isr),
        removing_replicas=tuple(record.removing_replicas),
        adding_replicas=tuple(record.adding_replicas),
        elr=tuple(record.eligible_leader_replicas or ()),
        last_known_elr=tuple(record.last_known_elr or ()),
        leader=record.leader,
        leader_recovery_state=_recovery_state(record.leader_recovery_state),
        leader_epoch=record.leader_epoch,
        partition_epoch=record.partition_epoch,
    )


def changed_partition(before: PartitionRegistration, record: PartitionChangeRecord) -> PartitionRegistration:
    """Return the partition after the change. A record that names a leader, even the same one, begins a new leader epoch. Raises
    `InconsistentRecord` for a wrong number of directories or an undefined recovery state."""
    replicas = _or(record.replicas, before.replicas)
    elected = record.leader != LEADER_UNCHANGED
    unchanged_state = record.leader_recovery_state == RECOVERY_STATE_UNCHANGED
    return PartitionRegistration(
        replicas=replicas,
        directories=_directories(before.directories if record.directories is None else record.directories, len(replicas)),
        isr=_or(record.isr, before.isr),
        removing_replicas=_or(record.removing_replicas, before.removing_replicas),
        adding_replicas=_or(record.adding_replicas, before.adding_replicas),
        elr=_or(record.eligible_leader_replicas, before.elr),
        last_known_elr=_or(record.last_known_elr, before.last_known_elr),
        leader=record.leader if elected else before.leader,
        leader_recovery_state=before.leader_recovery_state if unchanged_state else _recovery_state(record.leader_recovery_state),
        leader_epoch=before.leader_epoch + elected,
        partition_epoch=before.partition_epoch + 1,
    )


def without_elr(before: PartitionRegistration) -> PartitionRegistration:
    """Return the partition without eligible and last known leader replicas; if there are none, return `before` itself."""
    if not before.elr and not before.last_known_elr:
        return before
    return before._replace(elr=(), last_known_elr=(), partition_epoch=before.partition_epoch + 1)


def broker_of(record: RegisterBrokerRecord) -> BrokerRegistration:
    """Return the broker registration that the record describes."""
    return BrokerRegistration(
        broker_id=record.broker_id,
        epoch=record.broker_epoch,
        incarnation_id=record.incarnation_id,
        listeners=_listeners(record.end_points),
        features=_features(record.features),
        rack=record.rack,
        fenced=record.fenced,
        in_controlled_shutdown=record.in_controlled_shutdown,
        is_migrating_zk_broker=record.is_migrating_zk_broker,
        directories=in_order_of_ids(record.log_dirs),
        cordoned_directories=None if record.cordoned_log_dirs is None else tuple(record.cordoned_log_dirs),
    )


def changed_broker(before: BrokerRegistration, record: BrokerRegistrationChangeRecord) -> BrokerRegistration:
    """Return a broker's registration after the change that `record` describes. Raises `InconsistentRecord` for undefined values."""
    if record.fenced not in _FENCED or record.in_controlled_shutdown not in _IN_CONTROLLED_SHUTDOWN:
        raise InconsistentRecord(f"a registration change with undefined values: {record}")
    fenced, in_shutdown = _FENCED[record.fenced], _IN_CONTROLLED_SHUTDOWN[record.in_controlled_shutdown]
    return before._replace(
        fenced=before.fenced if fenced is None else fenced,
        in_controlled_shutdown=before.in_controlled_shutdown if in_shutdown is None else in_shutdown,
        directories=in_order_of_ids(record.log_dirs) if record.log_dirs else before.directories,
        cordoned_directories=before.cordoned_directories if record.cordoned_log_dirs is None else tuple(record.cordoned_log_dirs),
    )


def controller_of(record: RegisterControllerRecord) -> ControllerRegistration:
    """Return the controller registration that the record describes."""
    return ControllerRegistration(
        record.controller_id, record.incarnation_id, record.zk_migration_ready, _listeners(record.end_points), _features(record.features)
    )


def partition_record(topic_id: bytes, index: int, partition: PartitionRegistration, *, with_elr: bool) -> PartitionRecord:
    """Return the record that describes the partition. It has eligible leader replicas only if the cluster uses them (`with_elr`) and the
    partition has any.
    """
    return PartitionRecord(
        partition_id=index,
        topic_id=topic_id,
        replicas=list(partition.replicas),
        isr=list(partition.isr),
        removing_replicas=list(partition.removing_replicas),
        adding_replicas=list(partition.adding_replicas),
        leader=partition.leader,
        leader_recovery_state=partition.leader_recovery_state,
        leader_epoch=partition.leader_epoch,
        partition_epoch=partition.partition_epoch,
        directories=list(partition.directories),
        eligible_leader_replicas=list(partition.elr) if with_elr and partition.elr else None,
        last_known_elr=list(partition.last_known_elr) if with_elr and partition.last_known_elr else None,
    )


def broker_record(broker: BrokerRegistration) -> RegisterBrokerRecord:
    """Return the record that describes a broker's registration."""
    return RegisterBrokerRecord(
        broker_id=broker.broker_id,
        is_migrating_zk_broker=broker.is_migrating_zk_broker,
        incarnation_id=broker.incarnation_id,
        broker_epoch=broker.epoch,
        end_points=[broker.listeners[name] for name in sorted(broker.listeners)],
        features=[broker.features[name] for name in sorted(broker.features)],
        rack=broker.rack,
        fenced=broker.fenced,
        in_controlled_shutdown=broker.in_controlled_shutdown,
        log_dirs=list(broker.directories),
        cordoned_log_dirs=None if broker.cordoned_directories is None else list(broker.cordoned_directories),
    )


def controller_record(controller: ControllerRegistration) -> RegisterControllerRecord:
    """Return the record that describes a controller's registration."""
    return RegisterControllerRecord(
        controller_id=controller.controller_id,
        incarnation_id=controller.incarnation_id,
        zk_migration_ready=controller.zk_migration_ready,
        end_points=[controller.listeners[name] for name in sorted(controller.listeners)],
        features=[controller.features[name] for name in sorted(controller.features)],
    )


def in_order_of_ids(directories: Sequence[bytes]) -> tuple[bytes, ...]:
    """Return the directory ids sorted as Kafka sorts its `Uuid`s, whose halves are signed numbers."""
    return tuple(sorted(directories, key=_SIGNED.unpack))


def _or(changed: Sequence[int] | None, before: tuple[int, ...]) -> tuple[int, ...]:
    return before if changed is None else tuple(changed)


def _directories(directories: Sequence[bytes], replicas: int) -> tuple[bytes, ...]:
    """Return one directory per replica. An empty list, or only unknown ones, means that all are unknown. Raises `InconsistentRecord` for
    another number of directories.
    """
    if all(directory == MIGRATING for directory in directories):
        return (MIGRATING,) * replicas
    if len(directories) != replicas:
        raise InconsistentRecord(f"{len(directories)} directories for {replicas} replicas")
    return tuple(directories)


def _recovery_state(state: int) -> int:
    if state not in _RECOVERY_STATES:
        raise InconsistentRecord(f"unknown leader recovery state {state}")
    return state


def _listeners(endpoints: Sequence[Endpoint]) -> dict[str, Endpoint]:
    return {endpoint.name: endpoint for endpoint in endpoints}


def _features(features: Sequence[FeatureRange]) -> dict[str, FeatureRange]:
    return {feature.name: feature for feature in features}
