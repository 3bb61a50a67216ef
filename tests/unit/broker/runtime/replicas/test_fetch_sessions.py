from __future__ import annotations

from collections.abc import Iterator
from itertools import count
from pathlib import Path

import pytest

from ottla.broker.core import limits
from ottla.broker.core.clock import VirtualClock
from ottla.broker.core.rejected import Rejected
from ottla.broker.runtime.replicas.fetch_sessions import CachedPartition, FetchContext, FetchSession, FetchSessions
from ottla.protocol.error_codes import ErrorCode
from ottla.protocol.messages.k01_fetch import EpochEndOffset, FetchPartition, PartitionData
from tests.support.partition_logs import PartitionHarness, one_batch

INT32_MAX = 2**31 - 1


def cached(partition: int, topic: str | bytes = "t", offset: int = 0) -> CachedPartition:
    return CachedPartition(topic, FetchPartition(partition, fetch_offset=offset))


def data(partition: int, records: bytes = b"", high_watermark: int = 0, error: ErrorCode = ErrorCode.NONE) -> PartitionData:
    return PartitionData(partition, error, high_watermark, 0, 0, records=records)


@pytest.fixture
def sessions() -> Iterator[FetchSessions]:
    ids = count(1)
    return FetchSessions(2, lambda: next(ids))


def begin(
    sessions: FetchSessions, session_id: int, epoch: int, *partitions: CachedPartition, forgotten: list[int] | None = None, now: int = 0
) -> FetchContext:
    gone = [("t", index) for index in forgotten or []]
    return sessions.begin(session_id, epoch, list(partitions), gone, by_id=False, now_ms=now)


def answer(fetch: FetchContext, now: int = 0, **records: bytes) -> tuple[int, list[int]]:
    """Finish a fetch with these records by partition (`p0`, `p1`, …); return the session id and the partitions in the response."""
    results = [(t, data(t.requested.partition, records.get(f"p{t.requested.partition}", b""))) for t in fetch.partitions]
    session_id, sent = fetch.finish(results, now)
    return session_id, [found.partition_index for _, found in sent]


def open_session(sessions: FetchSessions, partitions: int = 3, now: int = 0) -> int:
    return answer(begin(sessions, 0, 0, *[cached(index) for index in range(partitions)], now=now), now)[0]


def test_full_fetch_with_the_final_epoch_opens_no_session(sessions: FetchSessions) -> None:
    assert answer(begin(sessions, 0, -1, cached(0), cached(1))) == (0, [0, 1])
    assert len(sessions) == 0


def test_full_fetch_with_the_initial_epoch_opens_a_session(sessions: FetchSessions) -> None:
    assert answer(begin(sessions, 0, 0, cached(0), cached(1))) == (1, [0, 1])
    assert len(sessions) == 1


def test_fetch_without_partitions_opens_no_session(sessions: FetchSessions) -> None:
    assert answer(begin(sessions, 0, 0)) == (0, [])


def test_incremental_response_omits_unchanged_partitions(sessions: FetchSessions) -> None:
    session_id = open_session(sessions)
    fetch = begin(sessions, session_id, 1)
    assert [t.requested.partition for t in fetch.partitions] == [0, 1, 2]
    assert answer(fetch, p1=b"records") == (session_id, [1])
    assert answer(begin(sessions, session_id, 2)) == (session_id, [])


def test_changed_high_watermark_or_log_start_offset_is_sent_once(sessions: FetchSessions) -> None:
    session_id = open_session(sessions, 1)
    for epoch, (high_watermark, expected) in enumerate([(5, [0]), (5, []), (6, [0])], 1):
        fetch = begin(sessions, session_id, epoch)
        sent = fetch.finish([(fetch.partitions[0], data(0, high_watermark=high_watermark))], 0)[1]
        assert [found.partition_index for _, found in sent] == expected


def test_error_is_sent_every_time_and_its_recovery_once(sessions: FetchSessions) -> None:
    session_id = open_session(sessions, 1)
    errors = [ErrorCode.OFFSET_OUT_OF_RANGE, ErrorCode.OFFSET_OUT_OF_RANGE, ErrorCode.NONE, ErrorCode.NONE]
    sent = []
    for epoch, error in enumerate(errors, 1):
        fetch = begin(sessions, session_id, epoch)
        sent.append(len(list(fetch.finish([(fetch.partitions[0], data(0, error=error))], 0)[1])))
    assert sent == [1, 1, 1, 0]


def test_high_watermark_is_sent_again_after_a_diverging_epoch(sessions: FetchSessions) -> None:
    session_id = open_session(sessions, 1)
    for epoch, (diverging, expected) in enumerate([(EpochEndOffset(1, 3), [0]), (EpochEndOffset(), [0]), (EpochEndOffset(), [])], 1):
        fetch = begin(sessions, session_id, epoch)
        found = data(0, high_watermark=3)
        found.diverging_epoch = diverging
        assert [each.partition_index for _, each in fetch.finish([(fetch.partitions[0], found)], 0)[1]] == expected


def test_partition_with_records_is_read_last_next_time(sessions: FetchSessions) -> None:
    session_id = open_session(sessions)
    answer(begin(sessions, session_id, 1), p0=b"x")
    assert [t.requested.partition for t in begin(sessions, session_id, 2).partitions] == [1, 2, 0]


def test_an_incremental_request_changes_adds_and_forgets_partitions(sessions: FetchSessions) -> None:
    session_id = open_session(sessions)
    fetch = begin(sessions, session_id, 1, cached(1, offset=50), cached(7), forgotten=[0])
    assert [(t.requested.partition, t.requested.fetch_offset) for t in fetch.partitions] == [(1, 50), (2, 0), (7, 0)]
    assert sessions.partitions == 3


def test_a_session_without_partitions_is_closed(sessions: FetchSessions) -> None:
    session_id = open_session(sessions, 1)
    assert answer(begin(sessions, session_id, 1, forgotten=[0])) == (0, [])
    assert (len(sessions), sessions.partitions) == (0, 0)


@pytest.mark.parametrize("epoch", [-1, 0])
def test_epoch_0_or_minus_1_closes_the_named_session(sessions: FetchSessions, epoch: int) -> None:
    session_id = open_session(sessions)
    begin(sessions, session_id, epoch, cached(0))
    assert len(sessions) == 0


def test_an_unknown_session_is_refused(sessions: FetchSessions) -> None:
    with pytest.raises(Rejected) as caught:
        begin(sessions, 99, 1)
    assert caught.value.code is ErrorCode.FETCH_SESSION_ID_NOT_FOUND


@pytest.mark.parametrize("epoch", [2, 3])
def test_a_wrong_epoch_is_refused_and_the_right_one_still_works(sessions: FetchSessions, epoch: int) -> None:
    session_id = open_session(sessions)
    with pytest.raises(Rejected) as caught:
        begin(sessions, session_id, epoch)
    assert caught.value.code is ErrorCode.INVALID_FETCH_SESSION_EPOCH
    assert answer(begin(sessions, session_id, 1), p0=b"x") == (session_id, [0])


def test_the_epoch_wraps_to_one(sessions: FetchSessions) -> None:
    session = begin(sessions, 0, 0, cached(0)).session
    assert sessions.keep(session, 0)
    session.epoch = INT32_MAX  # two thousand million requests are too many for a test
    begin(sessions, session.session_id, INT32_MAX)
    begin(sessions, session.session_id, 1)


def test_session_by_names_cannot_be_used_with_topic_ids(sessions: FetchSessions) -> None:
    session_id = open_session(sessions)
    with pytest.raises(Rejected) as caught:
        sessions.begin(session_id, 1, [], [], by_id=True, now_ms=0)
    assert caught.value.code is ErrorCode.FETCH_SESSION_TOPIC_ID_ERROR


def test_late_response_of_a_session_is_rejected(sessions: FetchSessions) -> None:
    session_id = open_session(sessions)
    late = begin(sessions, session_id, 1)
    begin(sessions, session_id, 2)
    with pytest.raises(Rejected) as caught:
        answer(late)
    assert caught.value.code is ErrorCode.INVALID_FETCH_SESSION_EPOCH


def test_full_cache_creates_no_session(sessions: FetchSessions) -> None:
    open_session(sessions)
    open_session(sessions)
    assert open_session(sessions, partitions=10) == 0
    assert len(sessions) == 2


def test_full_cache_evicts_the_longest_unused_session(sessions: FetchSessions) -> None:
    first, second = open_session(sessions), open_session(sessions)
    later = limits.FETCH_SESSION_IDLE_MS + 1
    begin(sessions, first, 1, now=later - 5)
    assert open_session(sessions, now=later) == 3
    begin(sessions, first, 2)
    with pytest.raises(Rejected):
        begin(sessions, second, 1)


def test_full_cache_evicts_an_old_small_session_only_for_a_larger_one(sessions: FetchSessions) -> None:
    small, big = open_session(sessions, 1), open_session(sessions, 3)
    later = limits.FETCH_SESSION_IDLE_MS + 1
    begin(sessions, small, 1, now=later)
    begin(sessions, big, 1, now=later)
    assert open_session(sessions, 1, now=later) == 0
    assert open_session(sessions, 2, now=later) == 3
    with pytest.raises(Rejected):
        begin(sessions, small, 2)


def test_small_session_not_used_since_it_became_old_is_not_evicted_for_a_larger_one(sessions: FetchSessions) -> None:
    small, big = open_session(sessions, 1), open_session(sessions, 3)
    later = limits.FETCH_SESSION_IDLE_MS + 1
    begin(sessions, small, 1, now=later - 1)
    begin(sessions, big, 1, now=later - 1)
    assert open_session(sessions, 4, now=later) == 0


def test_lowest_id_is_evicted_among_the_smallest_sessions(sessions: FetchSessions) -> None:
    first, second = open_session(sessions, 1), open_session(sessions, 1)
    later = limits.FETCH_SESSION_IDLE_MS + 1
    begin(sessions, second, 1, now=later)
    begin(sessions, first, 1, now=later)
    assert open_session(sessions, 2, now=later) == 3
    begin(sessions, second, 2)
    with pytest.raises(Rejected):
        begin(sessions, first, 2)


def test_total_partitions_of_all_sessions_are_limited(sessions: FetchSessions, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(limits, "FETCH_SESSION_PARTITIONS", 5)
    session_id = open_session(sessions, 4)
    assert open_session(sessions, 2) == 0
    with pytest.raises(Rejected):
        begin(sessions, session_id, 1, cached(8), cached(9))
    assert sessions.partitions == 0


def test_followers_session_evicts_a_consumers_and_is_never_evicted_for_one(sessions: FetchSessions) -> None:
    consumer, young = open_session(sessions, 5), open_session(sessions, 5)
    follower = sessions.begin(0, 0, [cached(0)], (), by_id=False, now_ms=0, follower=2)
    session_id, _ = answer(follower)
    assert session_id != 0
    assert len(sessions) == 2
    with pytest.raises(Rejected):
        begin(sessions, consumer, 1)
    begin(sessions, young, 1)
    late = limits.FETCH_SESSION_IDLE_MS + 1
    begin(sessions, session_id, 1, now=late)
    begin(sessions, young, 2, now=late)
    assert open_session(sessions, 6, late) != 0, "the old consumer's goes"
    begin(sessions, session_id, 2, now=late)


# --- what is dirty ---------------------------------------------------------------------------------------------------------------


@pytest.fixture
def harness(tmp_path: Path) -> Iterator[PartitionHarness]:
    opened = PartitionHarness(tmp_path / "data", VirtualClock(), partitions=4)
    yield opened
    opened.close()


def read(fetch: FetchContext, harness: PartitionHarness, now: int = 0) -> list[int]:
    """Read the fetch's partitions to their ends, and finish it; return the partitions that were read."""
    results = []
    for each in fetch.partitions:
        partition = harness.partitions.get("t", each.requested.partition)
        each.watch(partition, quiet=True)
        results.append((each, data(each.requested.partition, high_watermark=partition.log.high_watermark)))
    fetch.finish(results, now)
    return [each.requested.partition for each, _ in results]


def begun(sessions: FetchSessions, harness: PartitionHarness) -> FetchSession:
    fetch = begin(sessions, 0, 0, *[cached(index) for index in range(4)])
    assert read(fetch, harness) == [0, 1, 2, 3]
    return fetch.session


def watched(harness: PartitionHarness) -> list[int]:
    return [partition.index for partition in harness.partitions if partition.watchers]


def test_incremental_fetch_reads_changed_and_named_partitions_in_session_order(sessions: FetchSessions, harness: PartitionHarness) -> None:
    session = begun(sessions, harness)
    assert watched(harness) == [0, 1, 2, 3]
    for index in (3, 1):
        harness.partitions.get("t", index).append(one_batch())
    assert watched(harness) == [0, 2]
    assert read(begin(sessions, session.session_id, 1, cached(2, offset=5)), harness) == [1, 2, 3]
    assert read(begin(sessions, session.session_id, 2), harness) == []
    assert watched(harness) == [0, 1, 2, 3]


def test_partition_changed_between_read_and_response_is_read_again(sessions: FetchSessions, harness: PartitionHarness) -> None:
    session = begun(sessions, harness)
    fetch = begin(sessions, session.session_id, 1, cached(0))
    (only,) = fetch.partitions
    only.watch(harness.partitions.get("t", 0), quiet=True)
    harness.partitions.get("t", 0).append(one_batch())
    fetch.finish([(only, data(0))], 0)
    assert read(begin(sessions, session.session_id, 2), harness) == [0]


def test_partition_with_possibly_more_records_is_read_again(sessions: FetchSessions, harness: PartitionHarness) -> None:
    session = begun(sessions, harness)
    fetch = begin(sessions, session.session_id, 1, cached(0))
    (only,) = fetch.partitions
    only.quiet = False
    fetch.finish([(only, data(0))], 0)
    assert read(begin(sessions, session.session_id, 2), harness) == [0]


def test_changed_terms_read_every_partition(sessions: FetchSessions, harness: PartitionHarness) -> None:
    session = begun(sessions, harness)
    fetch = sessions.begin(session.session_id, 1, [], [], by_id=False, now_ms=0, result_inputs="other rights")
    assert read(fetch, harness) == [0, 1, 2, 3]
    assert read(sessions.begin(session.session_id, 2, [], [], by_id=False, now_ms=0, result_inputs="other rights"), harness) == []


def test_unsent_response_is_repeated_by_the_next_one(sessions: FetchSessions, harness: PartitionHarness) -> None:
    session = begun(sessions, harness)
    harness.partitions.get("t", 1).append(one_batch())
    assert read(begin(sessions, session.session_id, 1), harness) == [1]
    assert sessions.unsent(session.session_id)
    fetch = begin(sessions, session.session_id, 2)
    assert [each.requested.partition for each in fetch.partitions] == [1]
    found = [(fetch.partitions[0], data(1, high_watermark=1))]
    assert list(fetch.finish(found, 0)[1]) == found, "although the client was told the same before"


def test_unsent_response_keeps_a_session_with_a_wrapped_epoch_and_ends_a_new_session(sessions: FetchSessions) -> None:
    session_id = open_session(sessions)
    (session,) = sessions
    session.epoch = INT32_MAX  # two thousand million requests are too many for a test
    answer(begin(sessions, session_id, INT32_MAX), p1=b"x")
    assert sessions.unsent(session_id)
    assert answer(begin(sessions, session_id, 1)) == (session_id, [1])
    assert not sessions.unsent(open_session(sessions))


@pytest.mark.parametrize("how", ["forgotten", "closed", "evicted"])
def test_forgotten_closed_or_evicted_target_watches_no_partition(sessions: FetchSessions, harness: PartitionHarness, how: str) -> None:
    session = begun(sessions, harness)
    match how:
        case "forgotten":
            begin(sessions, session.session_id, 1, forgotten=[0, 1, 2, 3])
        case "closed":
            begin(sessions, session.session_id, -1)
        case "evicted":
            open_session(sessions, now=limits.FETCH_SESSION_IDLE_MS + 1)
            open_session(sessions, now=limits.FETCH_SESSION_IDLE_MS + 1)
    assert watched(harness) == []


def test_session_evicted_during_a_read_watches_no_partition_after_the_response(sessions: FetchSessions, harness: PartitionHarness) -> None:
    session = begun(sessions, harness)
    fetch = begin(sessions, session.session_id, 1, cached(0))
    sessions.remove(session.session_id)
    assert read(fetch, harness) == [0]
    assert watched(harness) == []


def test_sessionless_fetch_watches_no_partition_after_its_response(sessions: FetchSessions, harness: PartitionHarness) -> None:
    fetch = begin(sessions, 0, -1, cached(0), cached(1))
    assert fetch.session.partitions, "it waits, so its partitions have a session to notify"
    assert read(fetch, harness) == [0, 1]
    assert watched(harness) == []


def test_abandoned_sessionless_fetch_watches_no_partition(sessions: FetchSessions, harness: PartitionHarness) -> None:
    fetch = begin(sessions, 0, -1, cached(0))
    _ = fetch.session
    fetch.partitions[0].watch(harness.partitions.get("t", 0), quiet=False)
    assert watched(harness) == [0]
    fetch.abandon()
    assert watched(harness) == []


def test_sessionless_fetch_has_no_session_unless_it_waits(sessions: FetchSessions) -> None:
    fetch = begin(sessions, 0, -1, cached(0))
    fetch.finish([(fetch.partitions[0], data(0))], 0)
    assert fetch.partitions[0].session is None
