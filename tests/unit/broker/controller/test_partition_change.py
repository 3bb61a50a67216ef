from __future__ import annotations

from collections.abc import Collection

import pytest

from ottla.broker.cluster.image import MIGRATING, RECOVERED, RECOVERING, PartitionRegistration
from ottla.broker.cluster.metadata_records import LEADER_UNCHANGED, NO_LEADER, PartitionChangeRecord
from ottla.broker.controller.partition_change import ElectionKind, PartitionRules, PartitionTarget, partition_change

ID = b"i" * 16
NEW_PLACE = b"n" * 16
ALL = range(1, 10)


def place(broker: int) -> bytes:
    return bytes([broker]) * 16


def partition(*replicas: int, isr: Collection[int] | None = None, leader: int | None = None, **fields: object) -> PartitionRegistration:
    """Return a partition in leader epoch and partition epoch 7, led by the first ISR member."""
    in_sync = replicas if isr is None else tuple(isr)
    leads = (in_sync[0] if in_sync else NO_LEADER) if leader is None else leader
    made = PartitionRegistration(replicas, tuple(map(place, replicas)), in_sync, leads, 7, 20)
    return made._replace(**fields)


def change(
    before: PartitionRegistration,
    target: PartitionTarget = PartitionTarget(),  # noqa: B008 - frozen
    *,
    alive: Collection[int] = ALL,
    election: ElectionKind = ElectionKind.ONLINE,
    min_isr: int = 1,
    elr: bool = False,
    level: int = 30,
) -> PartitionChangeRecord | None:
    rules = PartitionRules(level, elr, min_isr, alive.__contains__, lambda _: NEW_PLACE, election)
    return partition_change(ID, 3, before, target, rules)


def record(**fields: object) -> PartitionChangeRecord:
    made = PartitionChangeRecord(3, ID)
    for name, value in fields.items():
        setattr(made, name, value)
    return made


# --- in-sync sets and elections ---------------------------------------------------------------------------------------------------


def test_an_empty_change_makes_no_record() -> None:
    assert change(partition(1, 2, 3)) is None
    assert change(partition(1, 2, 3), PartitionTarget(isr=[1, 2, 3])) is None


def test_an_in_sync_set_in_another_order_is_a_change() -> None:
    assert change(partition(1, 2, 3), PartitionTarget(isr=[1, 3, 2])) == record(isr=[1, 3, 2])


def test_a_follower_leaving_the_isr_starts_no_leader_epoch() -> None:
    assert change(partition(1, 2, 3), PartitionTarget(isr=[1, 3])) == record(isr=[1, 3])


@pytest.mark.parametrize(("level", "leader"), [(11, 1), (12, LEADER_UNCHANGED)])
def test_shrinking_the_isr_starts_a_leader_epoch_below_metadata_version_12(level: int, leader: int) -> None:
    found = change(partition(1, 2, directories=(MIGRATING,) * 2), PartitionTarget(isr=[1]), level=level)
    assert found == record(isr=[1], leader=leader)


def test_growing_the_isr_starts_no_leader_epoch() -> None:
    found = change(partition(1, 2, isr=[1], directories=(MIGRATING,) * 2), PartitionTarget(isr=[1, 2]), level=7)
    assert found == record(isr=[1, 2])


def test_the_first_alive_in_sync_replica_is_elected() -> None:
    before = partition(1, 2, 3, 4, isr=[4, 3, 1])
    assert change(before, PartitionTarget(isr=[4, 3]), alive={2, 3, 4}) == record(isr=[4, 3])  # 4 leads still
    assert change(before._replace(leader=1), PartitionTarget(isr=[4, 3]), alive={2, 3, 4}) == record(isr=[4, 3], leader=3)


def test_no_leader_is_elected_without_an_alive_in_sync_replica() -> None:
    assert change(partition(1, 2, isr=[1]), alive={2}) == record(leader=NO_LEADER)


def test_the_last_in_sync_replica_stays_in_the_set() -> None:
    assert change(partition(1, 2, isr=[1]), PartitionTarget(isr=[]), alive={2}) == record(leader=NO_LEADER)


def test_the_last_in_sync_replica_is_elected_again() -> None:
    assert change(partition(1, 2, isr=[1], leader=NO_LEADER)) == record(leader=1)


def test_an_unclean_election_makes_a_recovering_leader_alone_in_the_isr() -> None:
    found = change(partition(1, 2, 3, isr=[1]), alive={2, 3}, election=ElectionKind.UNCLEAN)
    assert found == record(leader=2, isr=[2], leader_recovery_state=RECOVERING)


def test_a_recovering_leaders_state_is_not_repeated() -> None:
    before = partition(1, 2, 3, isr=[1], leader_recovery_state=RECOVERING)
    assert change(before, alive={2, 3}, election=ElectionKind.UNCLEAN) == record(leader=2, isr=[2])


def test_an_unclean_election_prefers_in_sync_replicas() -> None:
    assert change(partition(1, 2, 3, isr=[1, 3]), alive={2, 3}, election=ElectionKind.UNCLEAN) == record(leader=3)


def test_only_a_preferred_election_replaces_a_valid_leader() -> None:
    before = partition(1, 2, 3, leader=2)
    assert change(before) is None
    assert change(before, election=ElectionKind.UNCLEAN) is None
    assert change(before, election=ElectionKind.PREFERRED) == record(leader=1)


def test_a_preferred_replica_that_is_not_in_sync_is_not_elected() -> None:
    assert change(partition(1, 2, 3, isr=[3, 2], leader=3), election=ElectionKind.PREFERRED) is None
    assert change(partition(1, 2, 3, isr=[2, 3], leader=NO_LEADER), election=ElectionKind.PREFERRED) == record(leader=2)


def test_a_recovered_leader_resets_the_recovery_state() -> None:
    before = partition(1, 2, isr=[1], leader_recovery_state=RECOVERING)
    assert change(before, PartitionTarget(recovery_state=RECOVERED)) == record(leader_recovery_state=RECOVERED)


# --- replicas ---------------------------------------------------------------------------------------------------------------------


def test_a_reassignment_waits_for_its_new_replicas() -> None:
    found = change(partition(1, 2, 3), PartitionTarget(replicas=[4, 1, 2, 3], removing=[3], adding=[4]))
    assert found == record(
        replicas=[4, 1, 2, 3], directories=[NEW_PLACE, place(1), place(2), place(3)], removing_replicas=[3], adding_replicas=[4]
    )


def test_a_reassignment_completes_when_all_added_replicas_are_in_sync() -> None:
    before = partition(4, 1, 2, 3, isr=[1, 2, 3], removing_replicas=(3,), adding_replicas=(4,))
    assert change(before, PartitionTarget(isr=[1, 2, 3])) is None
    assert change(before, PartitionTarget(isr=[1, 2, 3, 4])) == record(
        isr=[1, 2, 4],
        replicas=[4, 1, 2],
        directories=[place(4), place(1), place(2)],
        removing_replicas=[],
        adding_replicas=[],
        leader=1,
    )


def test_a_removed_leader_is_replaced_by_the_first_in_sync_replica() -> None:
    before = partition(3, 2, 1, isr=[1, 2], removing_replicas=(1,), adding_replicas=(3,))
    found = change(before, PartitionTarget(isr=[1, 2, 3]))
    assert found is not None
    assert (found.leader, found.isr, found.replicas) == (3, [2, 3], [3, 2])


def test_added_replicas_start_no_leader_epoch() -> None:
    before = partition(1, 2, isr=[1], adding_replicas=(2,))
    assert change(before, PartitionTarget(isr=[1, 2])) == record(isr=[1, 2], adding_replicas=[])


def test_a_reduced_replica_set_waits_until_all_are_in_sync() -> None:
    """[1, 2, 3, 4] becomes [3, 4] while only 1 and 3 are in sync: if completed now, the ISR would be 3 alone."""
    before = partition(3, 4, 1, 2, isr=[1, 3], removing_replicas=(1, 2))
    assert change(before) is None
    found = change(before, PartitionTarget(isr=[1, 3, 4]))
    assert found is not None
    assert (found.isr, found.replicas, found.leader) == ([3, 4], [3, 4], 3)


def test_a_reassignment_that_would_empty_the_isr_waits() -> None:
    assert change(partition(2, 1, isr=[1], removing_replicas=(1,), adding_replicas=(2,))) is None


def test_removing_a_replica_starts_a_leader_epoch_even_without_a_leader() -> None:
    before = partition(1, 2, isr=[1], leader=NO_LEADER)
    found = change(before, PartitionTarget(replicas=[1]), alive={2})
    assert found == record(replicas=[1], directories=[place(1)], leader=NO_LEADER)


def test_a_directory_change_keeps_the_other_replicas_directories() -> None:
    assert change(partition(1, 2), PartitionTarget(directories={2: NEW_PLACE})) == record(directories=[place(1), NEW_PLACE])


def test_directories_are_omitted_below_metadata_version_17() -> None:
    before = partition(1, 2, directories=(MIGRATING,) * 2)
    assert change(before, PartitionTarget(replicas=[1, 2, 3], adding=[3]), level=16) == record(replicas=[1, 2, 3], adding_replicas=[3])


# --- eligible leader replicas -----------------------------------------------------------------------------------------------------


def test_a_replica_leaving_an_isr_below_its_minimum_enters_the_elr() -> None:
    assert change(partition(1, 2, 3), PartitionTarget(isr=[1, 2]), min_isr=2, elr=True) == record(isr=[1, 2])
    found = change(partition(1, 2, 3, isr=[1, 2]), PartitionTarget(isr=[1]), min_isr=2, elr=True)
    assert found == record(isr=[1], eligible_leader_replicas=[2])


def test_an_isr_at_its_minimum_has_an_empty_elr() -> None:
    before = partition(1, 2, 3, isr=[1], elr=(2,))
    assert change(before, PartitionTarget(isr=[1, 3]), min_isr=2, elr=True) == record(isr=[1, 3], eligible_leader_replicas=[])


def test_the_elr_is_kept_while_the_isr_is_below_its_minimum() -> None:
    before = partition(1, 2, 3, isr=[1], elr=(2,))
    found = change(before, PartitionTarget(isr=[]), alive={2, 3}, min_isr=3, elr=True)
    assert found == record(isr=[2], eligible_leader_replicas=[1], leader=2)


def test_with_elr_the_isr_may_be_empty_and_the_last_leader_is_stored() -> None:
    found = change(partition(1, 2, isr=[1]), PartitionTarget(isr=[]), alive={2}, min_isr=2, elr=True)
    assert found == record(isr=[], eligible_leader_replicas=[1], leader=NO_LEADER, last_known_elr=[1])


def test_an_alive_elr_member_is_elected_cleanly() -> None:
    before = partition(1, 2, 3, isr=[], elr=(1, 2), last_known_elr=(1,))
    found = change(before, alive={2}, min_isr=2, elr=True)
    assert found == record(isr=[2], eligible_leader_replicas=[1], leader=2, last_known_elr=[])


def test_an_uncleanly_stopped_broker_is_not_in_the_elr() -> None:
    before = partition(1, 2, 3, isr=[1], elr=(2,))
    assert change(before, PartitionTarget(lost={2}), min_isr=2, elr=True) == record(eligible_leader_replicas=[])
    found = change(before, PartitionTarget(isr=[], lost={1}), alive={3}, min_isr=2, elr=True)
    assert found == record(isr=[], leader=NO_LEADER, last_known_elr=[1])


def test_the_last_known_leader_is_elected_uncleanly_if_the_elr_is_empty() -> None:
    before = partition(1, 2, 3, isr=[], last_known_elr=(2,))
    found = change(before, min_isr=2, elr=True)
    assert found == record(leader=2, isr=[2], leader_recovery_state=RECOVERING, last_known_elr=[])
    assert change(before, alive={1, 3}, min_isr=2, elr=True) is None


def test_an_unclean_election_clears_the_elr() -> None:
    before = partition(1, 2, 3, isr=[1], elr=(2,))
    found = change(before, alive={3}, election=ElectionKind.UNCLEAN, min_isr=2, elr=True)
    assert found == record(leader=3, isr=[3], leader_recovery_state=RECOVERING, eligible_leader_replicas=[])


def test_the_elr_is_cleared_at_the_next_change_if_the_feature_is_off() -> None:
    before = partition(1, 2, 3, isr=[1], elr=(2,))
    assert change(before, PartitionTarget(isr=[1, 3])) == record(isr=[1, 3], eligible_leader_replicas=[])


def test_the_elr_is_ordered_like_a_java_hash_set() -> None:
    before = partition(14, 15, 16, 17, isr=[14, 15, 16, 17])
    found = change(before, PartitionTarget(isr=[14]), alive=range(20), min_isr=4, elr=True)
    assert found == record(isr=[14], eligible_leader_replicas=[16, 17, 15])
