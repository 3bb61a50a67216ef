from __future__ import annotations

import pytest

from ottla.broker.replication.progress import NEVER, UNKNOWN_END, FollowerFetch, Progress, SessionFetchTime


def after(*fetches: tuple[int, int, int]) -> Progress:
    """Return the follower's progress after fetches of (follower's log end, leader's log end, time in ms)."""
    progress = Progress()
    for offset, leader_end, now_ms in fetches:
        progress.fetched(FollowerFetch(2, offset, log_start=1, broker_epoch=9), leader_end, now_ms)
    return progress


@pytest.mark.parametrize(
    ("fetches", "caught_up_ms"),
    [
        ([(10, 10, 100)], 100),
        ([(9, 10, 100)], NEVER),
        ([(9, 10, 100), (10, 12, 200)], 100),
        ([(9, 10, 100), (9, 12, 200), (11, 15, 300)], NEVER),
        ([(9, 10, 100), (9, 12, 200), (12, 15, 300)], 200),
        ([(10, 10, 100), (10, 12, 200), (11, 14, 300)], 100),
    ],
)
def test_follower_with_the_leaders_end_of_its_previous_fetch_caught_up_at_that_fetch(
    fetches: list[tuple[int, int, int]], caught_up_ms: int
) -> None:
    assert after(*fetches).caught_up_ms == caught_up_ms


def test_fetch_records_log_start_log_end_and_broker_epoch() -> None:
    progress = after((8, 10, 100))
    assert (progress.log_start, progress.log_end, progress.leader_end, progress.fetched_ms, progress.broker_epoch) == (1, 8, 10, 100, 9)


@pytest.mark.parametrize(
    ("leader_end", "now_ms", "expected"), [(10, 10**9, True), (11, 130, True), (11, 131, False), (9, 130, True), (9, 131, False)]
)
def test_follower_is_caught_up_if_it_has_everything_or_had_it_within_the_lag_time(leader_end: int, now_ms: int, expected: bool) -> None:
    assert after((10, 10, 100)).is_caught_up(leader_end, now_ms, 30) is expected


def test_follower_that_never_fetched_is_not_caught_up_even_at_clock_zero() -> None:
    assert not Progress().is_caught_up(10, 0, 30_000)


@pytest.mark.parametrize(
    ("again", "in_sync", "known", "times"),
    [
        (True, True, (1, 8, 20, 9), (500, 500)),
        (True, False, (1, 8, 20, 9), (NEVER, NEVER)),
        (False, True, (UNKNOWN_END, UNKNOWN_END, UNKNOWN_END, None), (NEVER, 500)),
        (False, False, (UNKNOWN_END, UNKNOWN_END, UNKNOWN_END, None), (NEVER, NEVER)),
    ],
)
def test_only_a_reelected_leader_keeps_follower_progress(
    again: bool, in_sync: bool, known: tuple[int, int, int, int | None], times: tuple[int, int]
) -> None:
    progress = after((8, 10, 100))
    progress.new_leadership(20, 500, in_sync=in_sync, again=again)
    assert (progress.log_start, progress.log_end, progress.leader_end, progress.broker_epoch) == known
    assert (progress.fetched_ms, progress.caught_up_ms) == times


def test_idle_follower_caught_up_at_the_last_request_of_its_session() -> None:
    progress, fetch_time = after((10, 10, 100)), SessionFetchTime(100)
    progress.follow_session(fetch_time)
    fetch_time.ms = 5_000
    progress.refresh()
    assert (progress.caught_up_ms, progress.fetched_ms) == (5_000, 5_000)
    fetch_time.ms = 6_000
    progress.leave_session(fetch_time)
    fetch_time.ms = 9_000
    progress.refresh()
    assert (progress.caught_up_ms, progress.fetched_ms) == (6_000, 6_000)


def test_fetch_after_idle_session_requests_counts_as_if_each_had_named_the_partition() -> None:
    progress, fetch_time = after((10, 10, 100)), SessionFetchTime(100)
    progress.follow_session(fetch_time)
    fetch_time.ms = 5_000
    progress.fetched(FollowerFetch(2, 10, log_start=1, broker_epoch=9), 12, 5_500)
    assert (progress.caught_up_ms, progress.fetched_ms) == (5_000, 5_500)


def test_new_leadership_ends_following_the_sessions_fetch_times() -> None:
    progress, fetch_time = after((10, 10, 100)), SessionFetchTime(7_000)
    progress.follow_session(fetch_time)
    progress.new_leadership(20, 500, in_sync=False, again=True)
    progress.refresh()
    assert (progress.caught_up_ms, progress.fetched_ms) == (NEVER, NEVER)


def test_outdated_session_does_not_end_following_the_next_sessions_fetch_times() -> None:
    progress, old, new = after((10, 10, 100)), SessionFetchTime(200), SessionFetchTime(300)
    progress.follow_session(new)
    progress.follow_session(old)
    progress.leave_session(old)
    progress.leave_session(old)
    new.ms = 400
    progress.refresh()
    assert (progress.caught_up_ms, progress.fetch_times) == (400, (new,))
