from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from broker.core.rejected import Rejected
from broker.replication.replica import COMMITTED, NOTHING, SYNC, UNKNOWN_END, Replica, ReplicaRole
from protocol.error_codes import ErrorCode


def leader(*followers: int, log_end: int = 10, high_watermark: int = 10, epoch: int = 3) -> Replica:
    replica = Replica(log_end=log_end, synced=log_end, high_watermark=high_watermark, leader_epoch=epoch)
    replica.lead(epoch, followers)
    return replica


def test_alone_in_the_in_sync_set_a_leader_commits_what_it_appends() -> None:
    replica = leader()
    assert replica.appended(12) == COMMITTED
    assert replica.high_watermark == 12


def test_what_an_in_sync_follower_has_not_fetched_is_not_committed() -> None:
    replica = leader(2, 3)
    assert replica.appended(12) == NOTHING
    assert replica.follower_reached(2, 12) == NOTHING
    assert replica.follower_reached(3, 11) == COMMITTED
    assert replica.high_watermark == 11


def test_at_an_election_nothing_is_committed_before_every_in_sync_follower_has_fetched() -> None:
    replica = Replica(log_end=10, synced=10, high_watermark=7, leader_epoch=3)
    assert replica.lead(4, {2, 3}) == NOTHING
    assert replica.followers == {2: UNKNOWN_END, 3: UNKNOWN_END}
    replica.follower_reached(2, 10)
    assert replica.high_watermark == 7
    assert replica.follower_reached(3, 9) == COMMITTED
    assert replica.high_watermark == 9


def test_a_replica_outside_of_the_in_sync_set_neither_commits_nor_holds_back() -> None:
    replica = leader(2)
    replica.appended(12)
    assert replica.follower_reached(9, 12) == NOTHING
    assert replica.follower_reached(2, 12) == COMMITTED


def test_a_follower_that_leaves_the_in_sync_set_holds_nothing_back_any_more() -> None:
    replica = leader(2, 3)
    replica.appended(12)
    replica.follower_reached(2, 12)
    assert replica.in_sync_changed({2}) == COMMITTED
    assert replica.high_watermark == 12


def test_a_follower_that_joins_the_in_sync_set_never_takes_back_what_is_committed() -> None:
    replica = leader(2)
    replica.follower_reached(2, 10)
    assert replica.in_sync_changed({2, 3}) == NOTHING
    replica.follower_reached(3, 4)
    assert replica.high_watermark == 10


def test_leading_on_in_a_new_epoch_keeps_what_followers_are_known_to_have() -> None:
    replica = leader(2)
    replica.follower_reached(2, 9)
    replica.lead(4, {2, 3})
    assert replica.followers == {2: 9, 3: UNKNOWN_END}


def test_a_leadership_after_another_brokers_knows_nothing_of_its_followers() -> None:
    replica = leader(2)
    replica.follower_reached(2, 9)
    replica.follow(4)
    replica.lead(5, {2})
    assert replica.followers == {2: UNKNOWN_END}


@pytest.mark.parametrize("change", [lambda replica: replica.lead(2), lambda replica: replica.follow(2)])
def test_an_epoch_of_the_past_is_refused_and_changes_nothing(change: object) -> None:
    replica = leader(2)
    assert callable(change)
    with pytest.raises(Rejected) as caught:
        change(replica)
    assert caught.value.code is ErrorCode.FENCED_LEADER_EPOCH
    assert (replica.role, replica.leader_epoch, list(replica.followers)) == (ReplicaRole.LEADER, 3, [2])


def test_a_follower_takes_no_appends_of_clients() -> None:
    replica = leader()
    replica.check_leads()
    replica.follow(4)
    with pytest.raises(Rejected) as caught:
        replica.check_leads()
    assert caught.value.code is ErrorCode.NOT_LEADER_OR_FOLLOWER


def test_a_followers_high_watermark_is_its_leaders_as_far_as_its_own_log_reaches() -> None:
    replica = leader(high_watermark=8)
    replica.follow(4)
    assert replica.leader_said(20) == NOTHING, "it had committed all of its log as a leader"
    assert replica.appended(15) == NOTHING
    assert replica.leader_said(20) == COMMITTED
    assert replica.high_watermark == 15
    assert replica.leader_said(12) == COMMITTED
    assert replica.high_watermark == 12, "of a follower it may go back"


def test_a_truncated_follower_has_committed_no_more_than_it_has() -> None:
    replica = leader()
    replica.follow(4)
    assert replica.truncated(6) == COMMITTED
    assert (replica.log_end, replica.synced, replica.high_watermark) == (6, 6, 6)
    assert replica.truncated(6) == NOTHING


def test_a_sync_that_is_due_holds_the_high_watermark_until_it_has_ended() -> None:
    replica = leader()
    assert replica.appended(12, flush_messages=2) == SYNC
    replica.sync_began()
    assert replica.appended(13, flush_messages=2) == SYNC
    assert (replica.high_watermark, replica.own_end) == (10, 10)
    assert replica.sync_ended(12, flush_messages=2) == COMMITTED
    assert replica.high_watermark == 13, "one record may be without its sync"


def test_a_sync_that_leaves_too_much_behind_commits_what_is_on_disk_and_asks_for_another() -> None:
    replica = leader()
    replica.appended(11, flush_messages=1)
    replica.sync_began()
    replica.appended(15, flush_messages=1)
    assert replica.sync_ended(11, flush_messages=1) == SYNC | COMMITTED
    assert replica.high_watermark == 11
    assert replica.sync_may_begin


def test_a_topic_that_no_longer_asks_for_syncs_is_held_back_by_none() -> None:
    replica = leader()
    replica.appended(11, flush_messages=1)
    assert replica.appended(12) == COMMITTED
    assert replica.high_watermark == 12


def test_one_sync_is_under_way_at_a_time() -> None:
    replica = leader()
    assert not replica.sync_may_begin
    replica.appended(11)
    assert replica.sync_may_begin
    replica.sync_began()
    assert not replica.sync_may_begin


@given(st.lists(st.tuples(st.sampled_from(["append", "fetch 2", "fetch 3", "shrink", "expand", "elect"]), st.integers(0, 30)), max_size=40))
def test_a_leaders_high_watermark_never_goes_back_and_never_passes_an_in_sync_replica_that_it_waited_for(
    steps: list[tuple[str, int]],
) -> None:
    replica = leader(2, 3)
    for what, number in steps:
        before = replica.high_watermark
        if what == "append":
            effects = replica.appended(replica.log_end + number)
        elif what.startswith("fetch"):
            effects = replica.follower_reached(int(what[-1]), min(number, replica.log_end))
        elif what == "elect":
            effects = replica.lead(replica.leader_epoch + 1, replica.followers)
        else:
            effects = replica.in_sync_changed({2} if what == "shrink" else {2, 3})
        assert replica.high_watermark >= before
        assert bool(effects & COMMITTED) == (replica.high_watermark > before)
        if effects & COMMITTED:
            assert replica.high_watermark == min([replica.log_end, *replica.followers.values()])
