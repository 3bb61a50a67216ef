from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ottla.broker.core.rejected import Rejected
from ottla.broker.replication.brokers import BrokerLiveness, Brokers
from ottla.broker.replication.in_sync import Accepted, InSyncMember, Proposal
from ottla.broker.replication.leadership import Registration, sole_replica_registration
from ottla.broker.replication.progress import UNKNOWN_END, FollowerFetch
from ottla.broker.replication.replica import COMMITTED, FETCH, LOW_WATERMARK, NOTHING, PROPOSE, SYNC, Replica
from ottla.protocol.error_codes import ErrorCode

LAG_MS = 30
LATER = 10**6


def brokers() -> Brokers:
    """Return the registered brokers: broker n has the broker epoch 70 + n, and this broker is 1."""
    made = Brokers(own_epoch=71)
    made.liveness = {node: BrokerLiveness(70 + node) for node in (1, 2, 3)}
    return made


def registration(
    *isr: int, epoch: int = 3, partition_epoch: int = 5, leader: int = 1, replicas: tuple[int, ...] = (1, 2, 3)
) -> Registration:
    return Registration(leader, replicas, isr, epoch, partition_epoch)


def leader(*isr: int, log_end: int = 10, high_watermark: int = 10, replicas: tuple[int, ...] = (1, 2, 3)) -> Replica:
    """Return broker 1's replica, which leads since time 0 in leader epoch 3 and partition epoch 5."""
    replica = Replica(log_end=log_end, synced=log_end, high_watermark=high_watermark, brokers=brokers(), lag_max_ms=LAG_MS)
    replica.lead(registration(*isr, replicas=replicas), 0)
    return replica


def lonely() -> Replica:
    replica = Replica(log_end=10, synced=10, high_watermark=10)
    replica.lead(sole_replica_registration(3), 0)
    return replica


def fetch(replica: Replica, node: int, offset: int, *, now_ms: int = LATER, **rest: int) -> int:
    return replica.fetched(FollowerFetch(node, offset, **({"broker_epoch": 70 + node} | rest)), replica.log_end, now_ms)


# --- who leads -----------------------------------------------------------------------------------------------------------------------


def test_leader_alone_in_the_isr_commits_its_appends() -> None:
    replica = lonely()
    assert replica.appended(12, 0) == COMMITTED
    assert replica.high_watermark == 12


def test_new_leader_commits_nothing_before_every_in_sync_follower_fetched() -> None:
    replica = leader(1, 2, 3, high_watermark=7)
    assert replica.high_watermark == 7
    fetch(replica, 2, 10)
    assert replica.high_watermark == 7
    assert fetch(replica, 3, 9) & COMMITTED
    assert replica.high_watermark == 9


def test_reelected_leader_keeps_its_followers_progress() -> None:
    replica = leader(1, 2)
    fetch(replica, 2, 9)
    replica.lead(registration(1, 2, epoch=4, partition_epoch=6), LATER)
    assert replica.leadership.followers[2].log_end == 9
    assert replica.leadership.epoch_start == 10


def test_leader_elected_after_another_broker_led_has_no_follower_progress() -> None:
    replica = leader(1, 2)
    fetch(replica, 2, 9)
    assert replica.follow(registration(1, 2, epoch=4, partition_epoch=6, leader=2)) == FETCH
    replica.lead(registration(1, 2, epoch=5, partition_epoch=7), LATER)
    assert replica.leadership.followers[2].log_end == UNKNOWN_END


def test_leader_that_missed_an_epoch_has_no_follower_progress() -> None:
    """KAFKA-13790, scenario 30: another broker may have led in a skipped leader epoch, and followers may have truncated their logs
    for it."""
    replica = leader(1, 2)
    fetch(replica, 2, 9)
    replica.lead(registration(1, 2, epoch=5, partition_epoch=7), LATER)
    assert replica.leadership.followers[2].log_end == UNKNOWN_END


def test_changed_replicas_in_the_same_leader_epoch_are_no_election() -> None:
    replica = leader(1, 2)
    replica.appended(15, 0)
    replica.lead(registration(1, 2, partition_epoch=6, replicas=(1, 2)), LATER)
    assert (replica.leadership.epoch_start, list(replica.leadership.followers)) == (10, [2])


@pytest.mark.parametrize("leads", [True, False])
def test_older_partition_epoch_is_ignored(leads: bool) -> None:
    replica = leader(1, 2)
    old = registration(1, epoch=9, partition_epoch=4, leader=1 if leads else 2)
    assert (replica.lead(old, LATER) if leads else replica.follow(old)) == NOTHING
    assert (replica.leads, replica.leader_epoch, replica.partition_epoch, replica.leadership.in_sync.committed) == (True, 3, 5, {1, 2})


def test_follower_restarts_fetching_only_for_a_new_leader_epoch() -> None:
    replica = leader(1, 2)
    assert replica.follow(registration(2, epoch=4, partition_epoch=6, leader=2)) == FETCH
    assert replica.follow(registration(2, epoch=4, partition_epoch=7, leader=2)) == NOTHING
    assert replica.follow(registration(2, epoch=5, partition_epoch=8, leader=2)) == FETCH


def test_follower_rejects_client_appends() -> None:
    replica = lonely()
    replica.check_leads()
    replica.follow(registration(2, epoch=4, leader=2))
    with pytest.raises(Rejected) as caught:
        replica.check_leads()
    assert caught.value.code is ErrorCode.NOT_LEADER_OR_FOLLOWER


# --- followers' fetches --------------------------------------------------------------------------------------------------------------


def test_records_not_fetched_by_an_in_sync_follower_are_not_committed() -> None:
    replica = leader(1, 2, 3)
    assert replica.appended(12, LATER) == NOTHING
    assert fetch(replica, 2, 12) == NOTHING
    assert fetch(replica, 3, 11) & COMMITTED
    assert replica.high_watermark == 11


@pytest.mark.parametrize(
    ("node", "leader_epoch", "leads", "code"),
    [
        (2, 3, True, None),
        (2, -1, True, None),
        (2, 2, True, ErrorCode.FENCED_LEADER_EPOCH),
        (2, 4, True, ErrorCode.UNKNOWN_LEADER_EPOCH),
        (9, 2, True, ErrorCode.FENCED_LEADER_EPOCH),
        (9, 3, True, ErrorCode.UNKNOWN_LEADER_EPOCH),
        (9, -1, True, ErrorCode.NOT_LEADER_OR_FOLLOWER),
        (9, 4, False, ErrorCode.NOT_LEADER_OR_FOLLOWER),
        (2, 3, False, ErrorCode.FENCED_LEADER_EPOCH),
    ],
)
def test_fetch_checks_epoch_then_leadership_then_replica(node: int, leader_epoch: int, leads: bool, code: ErrorCode | None) -> None:
    replica = leader(1, 2)
    if not leads:
        replica.follow(registration(2, epoch=4, partition_epoch=6, leader=2))
    if code is None:
        fetch(replica, node, 10, leader_epoch=leader_epoch)
        return
    with pytest.raises(Rejected) as caught:
        fetch(replica, node, 10, leader_epoch=leader_epoch)
    assert caught.value.code is code


def test_fetch_of_a_replaced_incarnation_is_rejected_and_is_no_progress() -> None:
    replica = leader(1, 2)
    replica.appended(12, LATER)
    with pytest.raises(Rejected) as caught:
        fetch(replica, 2, 12, broker_epoch=71)
    assert (caught.value.code, replica.high_watermark) == (ErrorCode.NOT_LEADER_OR_FOLLOWER, 10)
    assert replica.leadership.followers[2].log_end == UNKNOWN_END


def test_joining_replica_holds_back_commits_and_joins_with_its_broker_epoch() -> None:
    replica = leader(1, 2)
    fetch(replica, 2, 10)
    assert fetch(replica, 3, 10) & PROPOSE
    assert replica.proposal == Proposal(3, 5, (InSyncMember(1, 71), InSyncMember(2, 72), InSyncMember(3, 73)))
    replica.appended(12, LATER)
    fetch(replica, 2, 12)
    assert replica.high_watermark == 10
    assert fetch(replica, 3, 11) == COMMITTED
    assert replica.high_watermark == 11


def test_low_watermark_is_the_lowest_log_start_of_alive_replicas() -> None:
    replica = leader(1, 2, 3)
    fetch(replica, 2, 10, log_start=4)
    assert fetch(replica, 3, 10, log_start=2) & LOW_WATERMARK
    assert replica.low_watermark(6) == 2
    assert not fetch(replica, 2, 10, log_start=5) & LOW_WATERMARK
    assert fetch(replica, 3, 10, log_start=7) & LOW_WATERMARK
    assert (replica.low_watermark(6), replica.low_watermark(3)) == (5, 3)
    assert lonely().low_watermark(8) == 8


# --- the in-sync set -----------------------------------------------------------------------------------------------------------------


def shrinking() -> tuple[Replica, Proposal]:
    """Return a leader with its pending proposal to remove lagging replica 3 from the ISR, which holds back records that 1 and 2 have."""
    replica = leader(1, 2, 3)
    fetch(replica, 3, 10, now_ms=0)
    replica.appended(12, LATER)
    fetch(replica, 2, 12)
    assert replica.maybe_shrink_isr(LATER) == PROPOSE
    assert replica.proposal is not None
    assert [member.node for member in replica.proposal.members] == [1, 2]
    return replica, replica.proposal


def test_high_watermark_advances_only_when_the_isr_shrinkage_is_accepted() -> None:
    replica, proposal = shrinking()
    assert (replica.high_watermark, replica.maybe_shrink_isr(LATER)) == (10, NOTHING)
    assert replica.proposal_completed(proposal, Accepted(3, 6, frozenset({1, 2})), LATER) == COMMITTED
    assert (replica.high_watermark, replica.partition_epoch, replica.proposal) == (12, 6, None)


def test_accepted_isr_of_the_same_partition_epoch_settles_the_proposal() -> None:
    replica, proposal = shrinking()
    assert replica.proposal_completed(proposal, Accepted(3, 5, frozenset({1, 2, 3})), LATER) == NOTHING
    assert (replica.leadership.in_sync.committed, replica.proposal) == ({1, 2, 3}, None)


@pytest.mark.parametrize("answer", [Accepted(4, 6, frozenset({1})), Accepted(2, 6, frozenset({1})), Accepted(3, 4, frozenset({1}))])
def test_response_for_another_leader_epoch_or_older_partition_epoch_is_ignored(answer: Accepted) -> None:
    replica, proposal = shrinking()
    assert replica.proposal_completed(proposal, answer, LATER) == NOTHING
    assert (replica.leadership.in_sync.committed, replica.proposal, replica.partition_epoch) == ({1, 2, 3}, proposal, 5)


@pytest.mark.parametrize(
    ("code", "effects", "still_pending"),
    [
        (ErrorCode.OPERATION_NOT_ATTEMPTED, NOTHING, False),
        (ErrorCode.INELIGIBLE_REPLICA, NOTHING, False),
        (ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, NOTHING, True),
        (ErrorCode.UNKNOWN_TOPIC_ID, NOTHING, True),
        (ErrorCode.FENCED_LEADER_EPOCH, NOTHING, True),
        (ErrorCode.INVALID_UPDATE_VERSION, NOTHING, True),
        (ErrorCode.INVALID_REQUEST, NOTHING, True),
        (ErrorCode.NEW_LEADER_ELECTED, NOTHING, True),
        (ErrorCode.UNKNOWN_SERVER_ERROR, PROPOSE, True),
        (ErrorCode.NOT_CONTROLLER, PROPOSE, True),
        (ErrorCode.REQUEST_TIMED_OUT, PROPOSE, True),
    ],
)
def test_rejected_proposal_is_reverted_kept_or_retried_according_to_the_error(code: ErrorCode, effects: int, still_pending: bool) -> None:
    replica, proposal = shrinking()
    assert replica.proposal_completed(proposal, code, LATER) == effects
    assert replica.proposal is (proposal if still_pending else None)
    assert (replica.leadership.in_sync.committed, replica.high_watermark) == ({1, 2, 3}, 10)


def test_rejected_joining_replica_no_longer_holds_back_commits() -> None:
    replica = leader(1, 2)
    fetch(replica, 2, 10)
    fetch(replica, 3, 10, now_ms=0)
    proposal = replica.proposal
    assert proposal is not None
    replica.appended(12, LATER)
    fetch(replica, 2, 12)
    assert replica.high_watermark == 10
    assert replica.proposal_completed(proposal, ErrorCode.INELIGIBLE_REPLICA, LATER) == COMMITTED
    assert replica.high_watermark == 12


def test_newer_metadata_overrides_a_proposal_and_its_response() -> None:
    replica, proposal = shrinking()
    replica.lead(registration(1, 2, 3, partition_epoch=6), LATER)
    assert replica.proposal is None
    assert replica.proposal_completed(proposal, Accepted(3, 7, frozenset({1})), LATER) == NOTHING
    assert replica.proposal_completed(proposal, ErrorCode.UNKNOWN_SERVER_ERROR, LATER) == NOTHING
    assert (replica.leadership.in_sync.committed, replica.partition_epoch) == ({1, 2, 3}, 6)


def test_metadata_record_after_the_response_keeps_a_later_proposal_pending() -> None:
    replica = leader(1, 2)
    fetch(replica, 2, 10)
    fetch(replica, 3, 10, now_ms=0)
    replica.appended(12, LATER)
    fetch(replica, 2, 12)
    proposal = replica.proposal
    replica.lead(registration(1, 2, partition_epoch=5, replicas=(1, 2, 3, 4)), LATER)
    assert replica.proposal is proposal is not None
    assert (replica.high_watermark, list(replica.leadership.followers)) == (10, [2, 3, 4]), "3 may be in sync already"
    assert replica.proposal_completed(proposal, Accepted(3, 6, frozenset({1, 2, 3})), LATER) == NOTHING
    assert replica.leadership.in_sync.committed == {1, 2, 3}


def test_former_leader_makes_no_proposal() -> None:
    replica, proposal = shrinking()
    replica.follow(registration(1, 2, epoch=4, partition_epoch=6, leader=2))
    assert replica.maybe_shrink_isr(LATER) == NOTHING
    assert replica.proposal_completed(proposal, Accepted(4, 7, frozenset({1})), LATER) == NOTHING


# --- acks=all ------------------------------------------------------------------------------------------------------------------------


def refusal(check: object) -> ErrorCode | None:
    assert callable(check)
    try:
        check()
    except Rejected as error:
        return error.code
    return None


@pytest.mark.parametrize(
    ("isr", "entry", "exit_"),
    [
        ((1, 2, 3), None, None),
        ((1, 2), None, None),
        ((1,), ErrorCode.NOT_ENOUGH_REPLICAS, ErrorCode.NOT_ENOUGH_REPLICAS_AFTER_APPEND),
    ],
)
def test_acks_all_requires_min_insync_replicas(isr: tuple[int, ...], entry: ErrorCode | None, exit_: ErrorCode | None) -> None:
    replica = leader(*isr)
    replica.min_in_sync_changed(2, 0)
    assert refusal(replica.check_enough_in_sync) is entry
    assert refusal(replica.check_enough_in_sync_after_append) is exit_


def test_acks_all_is_accepted_by_the_committed_isr_and_completed_by_the_maximal_isr() -> None:
    replica = leader(1, 2)
    replica.min_in_sync_changed(3, 0)
    fetch(replica, 2, 10)
    fetch(replica, 3, 10)
    assert replica.proposal is not None
    assert refusal(replica.check_enough_in_sync) is ErrorCode.NOT_ENOUGH_REPLICAS
    assert refusal(replica.check_enough_in_sync_after_append) is None


def test_lowered_min_insync_replicas_commits_pending_records() -> None:
    replica = leader(1, 2)
    replica.min_in_sync_changed(3, 0)
    replica.appended(12, LATER)
    assert fetch(replica, 2, 12) == NOTHING
    assert replica.min_in_sync_changed(2, LATER) == COMMITTED
    assert replica.high_watermark == 12


def test_partition_with_one_replica_requires_only_one_in_sync_replica() -> None:
    replica = lonely()
    replica.min_in_sync_changed(2, 0)
    assert refusal(replica.check_enough_in_sync) is None
    assert replica.appended(12, 0) == COMMITTED


# --- a follower's own log, and syncs -------------------------------------------------------------------------------------------------


def test_followers_high_watermark_is_the_leaders_limited_to_its_log_end() -> None:
    replica = lonely()
    replica.follow(registration(2, epoch=4, leader=2))
    assert replica.update_high_watermark(20) == NOTHING, "it had committed all of its log as a leader"
    assert replica.appended(15, 0) == NOTHING
    assert replica.update_high_watermark(20) == COMMITTED
    assert replica.high_watermark == 15
    assert replica.update_high_watermark(12) == COMMITTED
    assert replica.high_watermark == 12, "of a follower it may go back"


def test_truncated_followers_high_watermark_is_at_most_its_log_end() -> None:
    replica = lonely()
    replica.follow(registration(2, epoch=4, leader=2))
    assert replica.truncated(6) == COMMITTED
    assert (replica.log_end, replica.synced, replica.high_watermark) == (6, 6, 6)
    assert replica.truncated(6) == NOTHING


def test_due_sync_holds_back_the_high_watermark_until_it_ends() -> None:
    replica = lonely()
    assert replica.appended(12, 0, flush_messages=2) == SYNC
    replica.sync_began()
    assert replica.appended(13, 0, flush_messages=2) == SYNC
    assert (replica.high_watermark, replica.own_end) == (10, 10)
    assert replica.sync_ended(12, 0, flush_messages=2) == COMMITTED
    assert replica.high_watermark == 13, "one record may be without its sync"


def test_sync_that_leaves_too_many_unsynced_records_commits_synced_ones_and_requests_another() -> None:
    replica = lonely()
    replica.appended(11, 0, flush_messages=1)
    replica.sync_began()
    replica.appended(15, 0, flush_messages=1)
    assert replica.sync_ended(11, 0, flush_messages=1) == SYNC | COMMITTED
    assert replica.high_watermark == 11
    assert replica.sync_may_begin


def test_removed_flush_messages_no_longer_holds_back_the_high_watermark() -> None:
    replica = lonely()
    replica.appended(11, 0, flush_messages=1)
    assert replica.appended(12, 0) == COMMITTED
    assert replica.high_watermark == 12


def test_one_sync_runs_at_a_time() -> None:
    replica = lonely()
    assert not replica.sync_may_begin
    replica.appended(11, 0)
    assert replica.sync_may_begin
    replica.sync_began()
    assert not replica.sync_may_begin


STEPS = st.tuples(st.sampled_from(["append", "fetch 2", "fetch 3", "shrink", "expand", "elect", "lag", "answer"]), st.integers(0, 30))


@given(st.lists(STEPS, max_size=40))
def test_leaders_high_watermark_never_decreases_or_passes_an_in_sync_replica(steps: list[tuple[str, int]]) -> None:
    replica = leader(1, 2, 3)
    for now_ms, (what, number) in enumerate(steps):
        before, epochs = replica.high_watermark, (replica.leader_epoch, replica.partition_epoch + 1)
        if what == "append":
            effects = replica.appended(replica.log_end + number, now_ms)
        elif what.startswith("fetch"):
            effects = fetch(replica, int(what[-1]), min(number, replica.log_end), now_ms=now_ms)
        elif what == "lag":
            effects = replica.maybe_shrink_isr(now_ms + number * LAG_MS)
        elif what == "answer":
            proposal = replica.proposal
            if proposal is None:
                continue
            effects = replica.proposal_completed(proposal, Accepted(*epochs, frozenset(m.node for m in proposal.members)), now_ms)
        elif what == "elect":
            effects = replica.lead(registration(1, 2, 3, epoch=epochs[0] + 1, partition_epoch=epochs[1]), now_ms)
        else:
            effects = replica.lead(registration(*((1, 2) if what == "shrink" else (1, 2, 3)), partition_epoch=epochs[1]), now_ms)
        assert replica.high_watermark >= before
        assert bool(effects & COMMITTED) == (replica.high_watermark > before)
        assert bool(effects & PROPOSE) <= (replica.proposal is not None)
        if effects & COMMITTED:
            members = replica.leadership.in_sync.maximal - {1}
            assert replica.high_watermark <= min([replica.log_end, *(replica.leadership.followers[node].log_end for node in members)])
