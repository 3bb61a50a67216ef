from __future__ import annotations

import pytest

from ottla.broker.core.log_config import INT64_MAX
from ottla.broker.replication.brokers import BrokerLiveness, Brokers
from ottla.broker.replication.in_sync import InSyncMember, Proposal
from ottla.broker.replication.leadership import BLOCKED, Leadership, Registration, sole_replica_registration
from ottla.broker.replication.progress import UNKNOWN_END, FollowerFetch

LAG_MS = 30


def leadership(*isr: int, replicas: tuple[int, ...] = (1, 2, 3), epoch_start: int = 10) -> Leadership:
    """Return broker 1's leadership, which began at time 0; broker n has the broker epoch 70 + n."""
    brokers = Brokers(own_epoch=71)
    brokers.liveness = {node: BrokerLiveness(70 + node) for node in (1, 2, 3)}
    made = Leadership(brokers, LAG_MS)
    made.assigned(Registration(1, replicas, isr, 3, 5), news=True)
    made.began(epoch_start, 0, again=False)
    return made


def fetch(made: Leadership, node: int, offset: int, *, leader_end: int = 100, now_ms: int = 0, broker_epoch: int | None = None) -> None:
    epoch = 70 + node if broker_epoch is None else broker_epoch
    made.followers[node].fetched(FollowerFetch(node, offset, 0, epoch), leader_end, now_ms)


@pytest.mark.parametrize(
    ("offset", "high_watermark", "joins"), [(9, 5, False), (10, 5, True), (10, 11, False), (11, 11, True), (50, 11, True)]
)
def test_replica_joins_the_isr_with_all_committed_records_and_the_epoch_start(offset: int, high_watermark: int, joins: bool) -> None:
    made = leadership(1, 2)
    fetch(made, 3, offset, leader_end=offset)
    assert made.expansion(3, high_watermark, offset, 0) == ({1, 2, 3} if joins else None)


@pytest.mark.parametrize(("leader_end", "now_ms", "joins"), [(50, LAG_MS, True), (50, LAG_MS + 1, False), (51, 0, False)])
def test_replica_that_would_leave_the_isr_at_once_does_not_join(leader_end: int, now_ms: int, joins: bool) -> None:
    """KAFKA-19996, scenario 27: below min.insync.replicas the high watermark stands still, so a replica that reaches it may still lag."""
    made = leadership(1, 2)
    fetch(made, 3, 50, leader_end=leader_end)
    assert (made.expansion(3, 10, 100, now_ms) is not None) == joins


@pytest.mark.parametrize("liveness", [BrokerLiveness(73, fenced=True), BrokerLiveness(73, shutting_down=True), BrokerLiveness(74), None])
def test_ineligible_replica_does_not_join_the_isr_and_does_not_hold_back_commits(liveness: BrokerLiveness | None) -> None:
    made = leadership(1, 2)
    fetch(made, 2, 100)
    fetch(made, 3, 50)
    assert made.committable(100, 100, 0) == 100, "it has not been seen with all that there was"
    fetch(made, 3, 60, leader_end=60)
    assert made.committable(100, 100, 0) == 60
    brokers = Brokers(own_epoch=71)
    brokers.liveness = {2: BrokerLiveness(72)} | ({} if liveness is None else {3: liveness})
    other = Leadership(brokers, LAG_MS)
    other.assigned(Registration(1, (1, 2, 3), (1, 2), 3, 5), news=True)
    other.began(10, 0, again=False)
    fetch(other, 2, 100)
    fetch(other, 3, 60, leader_end=60)
    assert other.expansion(3, 10, 100, 0) is None
    assert other.committable(100, 100, 0) == 100


def test_no_replica_joins_the_isr_twice_or_during_another_change() -> None:
    made = leadership(1, 2)
    fetch(made, 2, 50)
    fetch(made, 3, 50)
    assert made.expansion(2, 10, 50, 0) is None
    made.propose(Proposal(3, 5, made.members({1, 2, 3})))
    assert made.expansion(3, 10, 50, 0) is None
    assert made.shrinkage(100, 10**9) is None


@pytest.mark.parametrize(
    ("offset", "log_end", "now_ms", "left"),
    [(100, 100, 10**9, None), (100, 101, 30, None), (100, 101, 31, {1, 3}), (99, 100, 30, None), (99, 100, 31, {1, 3})],
)
def test_lagging_replica_leaves_the_isr_and_an_idle_partition_keeps_its_isr(
    offset: int, log_end: int, now_ms: int, left: set[int] | None
) -> None:
    made = leadership(1, 2, 3)
    fetch(made, 2, offset)
    fetch(made, 3, log_end, leader_end=log_end, now_ms=now_ms)
    assert made.shrinkage(log_end, now_ms) == left


def test_isr_member_that_never_fetches_leaves_when_the_lag_time_since_the_election_is_over() -> None:
    made = leadership(1, 2, 3)
    assert made.shrinkage(10, LAG_MS) is None
    assert made.shrinkage(10, LAG_MS + 1) == {1}


def test_isr_members_have_the_broker_epoch_that_fetched() -> None:
    made = leadership(1, 2)
    fetch(made, 3, 50)
    assert made.members({3, 2, 1}) == (InSyncMember(1, 71), InSyncMember(2, -1), InSyncMember(3, 73))


@pytest.mark.parametrize(
    ("isr", "ends", "expected"),
    [
        ((1, 2, 3), {2: 40, 3: 60}, 40),
        ((1, 2, 3), {2: 40}, UNKNOWN_END),
        ((1, 2), {2: 40}, 40),
        ((1, 2), {2: 40, 3: 20}, 40),
        ((1,), {}, 100),
        ((1, 2, 3), {2: 100, 3: 100}, 100),
    ],
)
def test_committable_offset_is_the_smallest_of_the_isr(isr: tuple[int, ...], ends: dict[int, int], expected: int) -> None:
    made = leadership(*isr)
    for node, end in ends.items():
        fetch(made, node, end)
    assert made.committable(100, 100, 0) == expected


def test_recently_caught_up_replica_outside_the_isr_holds_back_commits_and_an_older_one_does_not() -> None:
    """KAFKA-4485, scenario 22: the high watermark waits for a follower outside the ISR that was caught up within the lag limit."""
    made = leadership(1)
    fetch(made, 2, 50, leader_end=50)
    assert made.committable(100, 100, LAG_MS) == 50
    assert made.committable(100, 100, LAG_MS + 1) == 100


@pytest.mark.parametrize("members", [{1, 2, 3}, {1}])
def test_pending_isr_change_never_raises_the_committable_offset(members: set[int]) -> None:
    made = leadership(1, 2)
    fetch(made, 2, 40)
    fetch(made, 3, 30)
    made.propose(Proposal(3, 5, made.members(members)))
    assert made.committable(100, 100, 0) == (30 if 3 in members else 40)


@pytest.mark.parametrize(
    ("isr", "replicas", "wanted", "below"),
    [
        ((1, 2), (1, 2, 3), 2, False),
        ((1,), (1, 2, 3), 2, True),
        ((1,), (1,), 2, False),
        ((1, 2), (1, 2), 3, False),
        ((1,), (1, 2), 3, True),
    ],
)
def test_nothing_is_committable_below_min_insync_replicas_limited_to_the_replica_count(
    isr: tuple[int, ...], replicas: tuple[int, ...], wanted: int, below: bool
) -> None:
    made = leadership(*isr, replicas=replicas)
    for node in made.followers:
        fetch(made, node, 100)
    made.min_in_sync = wanted
    assert made.below_min_in_sync is below
    assert made.committable(100, 100, 0) == (BLOCKED if below else 100)


def test_lowest_log_start_is_of_the_alive_replicas() -> None:
    made = leadership(1, 2, replicas=(1, 2, 9))
    assert made.lowest_start() == UNKNOWN_END, "broker 2 has not said"
    made.followers[2].log_start = 6
    made.followers[9].log_start = 1
    assert made.lowest_start() == 6
    assert leadership(1, replicas=(1,)).lowest_start() == INT64_MAX


def test_new_assignment_keeps_the_progress_of_remaining_replicas() -> None:
    made = leadership(1, 2)
    fetch(made, 2, 50)
    fetch(made, 3, 50)
    made.assigned(Registration(1, (1, 2, 4), (1, 2), 3, 6, adding=(4,)), news=True)
    assert {node: progress.log_end for node, progress in made.followers.items()} == {2: 50, 4: UNKNOWN_END}


def test_follower_has_no_progress_of_other_replicas() -> None:
    made = leadership(1, 2)
    made.ended(Registration(2, (1, 2), (1, 2), 4, 6))
    assert (made.followers, made.in_sync.maximal) == ({}, frozenset())


def test_single_replica_registration_is_older_than_any_metadata() -> None:
    assert sole_replica_registration(4, node=7) == Registration(7, (7,), (7,), 4, -1)
