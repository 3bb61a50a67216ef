"""The effect of a change record on a partition or a broker (Kafka's `PartitionRegistration.merge`, `BrokerRegistration.cloneWith`)."""

from __future__ import annotations

import pytest

from ottla.broker.cluster.image import MIGRATING, PartitionRegistration
from ottla.broker.cluster.metadata_records import (
    NO_LEADER,
    BrokerRegistrationChangeRecord,
    Endpoint,
    PartitionChangeRecord,
    PartitionRecord,
    RegisterBrokerRecord,
    RegisterControllerRecord,
)
from ottla.broker.cluster.registrations import (
    InconsistentRecord,
    broker_of,
    broker_record,
    changed_broker,
    changed_partition,
    controller_of,
    controller_record,
    partition_of,
    partition_record,
    without_elr,
)

DIRS = [bytes([n]) * 16 for n in (1, 2, 3)]
PARTITION = PartitionRegistration((1, 2), (DIRS[0], DIRS[1]), (1, 2), leader=1, leader_epoch=5, partition_epoch=9, elr=(2,))


def test_a_change_with_a_leader_starts_a_leader_epoch_even_if_equal() -> None:
    same = changed_partition(PARTITION, PartitionChangeRecord(leader=1))
    assert (same.leader, same.leader_epoch, same.partition_epoch) == (1, 6, 10)
    none = changed_partition(PARTITION, PartitionChangeRecord(leader=NO_LEADER))
    assert (none.leader, none.leader_epoch) == (-1, 6)


def test_a_change_without_a_leader_keeps_the_leader_epoch() -> None:
    changed = changed_partition(PARTITION, PartitionChangeRecord(isr=[1], eligible_leader_replicas=[], last_known_elr=[2]))
    assert changed == PartitionRegistration(
        (1, 2), (DIRS[0], DIRS[1]), (1,), leader=1, leader_epoch=5, partition_epoch=10, elr=(), last_known_elr=(2,)
    )


def test_a_recovery_state_is_kept_until_it_is_changed() -> None:
    recovering = changed_partition(PARTITION, PartitionChangeRecord(leader_recovery_state=1))
    assert recovering.leader_recovery_state == 1
    assert changed_partition(recovering, PartitionChangeRecord(isr=[1])).leader_recovery_state == 1
    assert changed_partition(recovering, PartitionChangeRecord(leader_recovery_state=0)).leader_recovery_state == 0


def test_missing_directories_are_unassigned_for_each_replica() -> None:
    assert partition_of(PartitionRecord(replicas=[1, 2])).directories == (MIGRATING, MIGRATING)
    unknown = partition_of(PartitionRecord(replicas=[1], directories=[MIGRATING]))
    assert changed_partition(unknown, PartitionChangeRecord(replicas=[1, 2, 3])).directories == (MIGRATING,) * 3


@pytest.mark.parametrize("change", [PartitionChangeRecord(replicas=[1, 2, 3]), PartitionChangeRecord(directories=DIRS)])
def test_a_directory_count_other_than_the_replica_count_is_refused(change: PartitionChangeRecord) -> None:
    with pytest.raises(InconsistentRecord, match=r"directories for . replicas"):
        changed_partition(PARTITION, change)


def test_an_unknown_recovery_state_is_refused() -> None:
    with pytest.raises(InconsistentRecord):
        partition_of(PartitionRecord(leader_recovery_state=2))


def test_clearing_eligible_leader_replicas_changes_only_partitions_with_some() -> None:
    cleared = without_elr(PARTITION)
    assert (cleared.elr, cleared.partition_epoch) == ((), 10)
    assert without_elr(cleared) is cleared


def test_eligible_leader_replicas_are_written_only_if_the_feature_is_on() -> None:
    assert partition_record(b"t" * 16, 0, PARTITION, with_elr=True).eligible_leader_replicas == [2]
    assert partition_record(b"t" * 16, 0, PARTITION, with_elr=False).eligible_leader_replicas is None
    assert partition_of(partition_record(b"t" * 16, 0, PARTITION, with_elr=True)) == PARTITION


def test_a_brokers_directories_are_sorted_by_signed_ids() -> None:
    low, high = b"\x01" * 16, b"\xff" * 16
    assert broker_of(RegisterBrokerRecord(log_dirs=[low, high])).directories == (high, low)


def test_a_registration_change_changes_only_its_fields() -> None:
    before = broker_of(RegisterBrokerRecord(1, log_dirs=[DIRS[0]], rack="r"))
    assert changed_broker(before, BrokerRegistrationChangeRecord(1)) == before
    assert not changed_broker(before, BrokerRegistrationChangeRecord(1, fenced=-1)).fenced
    assert changed_broker(before, BrokerRegistrationChangeRecord(1, in_controlled_shutdown=1)).in_controlled_shutdown
    cordoned = changed_broker(before, BrokerRegistrationChangeRecord(1, log_dirs=[DIRS[1]], cordoned_log_dirs=[]))
    assert (cordoned.directories, cordoned.cordoned_directories) == ((DIRS[1],), ())


@pytest.mark.parametrize(
    "change", [BrokerRegistrationChangeRecord(1, fenced=2), BrokerRegistrationChangeRecord(1, in_controlled_shutdown=-1)]
)
def test_an_invalid_registration_change_is_refused(change: BrokerRegistrationChangeRecord) -> None:
    with pytest.raises(InconsistentRecord):
        changed_broker(broker_of(RegisterBrokerRecord(1)), change)


def test_registrations_round_trip_through_records() -> None:
    endpoints = [Endpoint("A", "h", 1, 0), Endpoint("B", "h", 2, 1)]
    broker = RegisterBrokerRecord(1, end_points=endpoints, log_dirs=[DIRS[0]], cordoned_log_dirs=[DIRS[0]])
    controller = RegisterControllerRecord(3, b"c" * 16, end_points=endpoints)
    assert broker_record(broker_of(broker)) == broker
    assert controller_record(controller_of(controller)) == controller
