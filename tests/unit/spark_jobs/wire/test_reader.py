"""Reading ranges of offsets with Fetch: each batch once, whatever the responses' sizes, and continuing behind batches that cannot be
read."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from ottla.protocol.error_codes import ErrorCode
from ottla.spark_jobs.wire.find import WireSegment
from ottla.spark_jobs.wire.reader import Chunk, Gap, RangeReader
from ottla.spark_jobs.wire.throttle import Throttle
from tests.support.wire_logs import FakeLeader, batch, ranges, run_of_batches, segment

SHAPES = st.lists(st.tuples(st.integers(0, 3), st.integers(1, 5), st.integers(0, 200)), min_size=1, max_size=20)


def read(one: WireSegment, leader: FakeLeader, fetch_bytes: int = 1 << 20) -> tuple[bytes, list[Gap]]:
    items = list(RangeReader(one, leader, fetch_bytes=fetch_bytes).chunks())
    return b"".join(bytes(each.data) for each in items if isinstance(each, Chunk)), [each for each in items if isinstance(each, Gap)]


@given(SHAPES, st.integers(1, 10), st.integers(1, 2000))
def test_ranges_return_each_batch_once_in_order_however_ranges_and_responses_are_cut(
    shapes: list[tuple[int, int, int]], count: int, fetch_bytes: int
) -> None:
    leader = FakeLeader(run_of_batches(shapes))
    given_bytes = [read(one, leader, fetch_bytes) for one in ranges(leader.end, count)]
    assert b"".join(data for data, _ in given_bytes) == b"".join(leader.batches)
    assert not any(gaps for _, gaps in given_bytes)


def test_batch_that_starts_below_the_log_start_offset_is_returned() -> None:
    leader = FakeLeader([batch(0, 10)], start=7)
    assert read(segment(7, 10), leader)[0] == leader.batches[0]


def test_later_appends_are_omitted() -> None:
    leader = FakeLeader(run_of_batches([(0, 5, 10)] * 4))
    assert read(segment(0, 10), leader)[0] == b"".join(leader.batches[:2])


def test_batch_larger_than_a_response_is_fetched_again_with_more_room() -> None:
    big = batch(0, 1, 5000)

    class TruncatingLeader(FakeLeader):
        def fetch(self, partition: tuple[str, int], offset: int, max_bytes: int):  # type: ignore[no-untyped-def]  # as its parent
            answer = super().fetch(partition, offset, max_bytes)
            answer.records = bytes(answer.records or b"")[:max_bytes]
            return answer

    assert read(segment(0, 1), TruncatingLeader([big]), 100)[0] == big


def test_records_removed_by_retention_during_the_read_are_a_legal_gap() -> None:
    leader = FakeLeader(run_of_batches([(0, 5, 10)] * 4), start=10)
    data, gaps = read(segment(0, 20), leader)
    assert data == b"".join(leader.batches[2:])
    assert gaps == [Gap(0, 10, "retention removed them while they were read", legal=True)]


def test_log_that_became_shorter_is_an_illegal_gap() -> None:
    data, gaps = read(segment(0, 20), FakeLeader(run_of_batches([(0, 5, 10)])))
    assert len(data) > 0
    assert [(gap.start, gap.end, gap.legal) for gap in gaps] == [(5, 20, False)]


def test_offsets_that_a_broker_rejects_are_one_gap_and_reading_continues_after_it() -> None:
    leader = FakeLeader(run_of_batches([(0, 5, 10)] * 4))
    leader.refused = dict.fromkeys(range(5, 10), ErrorCode.CORRUPT_MESSAGE)
    data, gaps = read(segment(0, 20), leader, fetch_bytes=1)
    assert data == leader.batches[0] + leader.batches[2] + leader.batches[3]
    assert [(gap.start, gap.legal) for gap in gaps] == [(5, False)]
    assert "CORRUPT_MESSAGE" in gaps[0].reason


def test_batch_with_a_far_too_high_offset_does_not_end_the_read() -> None:
    batches = run_of_batches([(0, 5, 10)] * 4)
    batches[1] = (1 << 40).to_bytes(8, "big") + batches[1][8:]
    leader = FakeLeader(batches)
    leader.end = 20
    assert read(segment(0, 20), leader)[0] == b"".join(batches)


def test_bytes_that_are_no_batch_are_returned_unchanged() -> None:
    batches = run_of_batches([(0, 5, 10)] * 2)
    junk = batches[0] + b"\xff" * 100

    class Damaged(FakeLeader):
        def fetch(self, partition: tuple[str, int], offset: int, max_bytes: int):  # type: ignore[no-untyped-def]  # as its parent
            answer = super().fetch(partition, offset, max_bytes)
            answer.records = junk + batches[1] if offset < 5 else answer.records
            return answer

    data, _ = read(segment(0, 10), Damaged(batches))
    assert data == junk + batches[1] + batches[1]


def test_fetches_wait_for_the_throttle() -> None:
    time = [100.0]
    leader = FakeLeader(run_of_batches([(0, 1, 1000)] * 10))
    size = sum(map(len, leader.batches))
    throttle = Throttle(1000, now=lambda: time[0], sleep=lambda seconds: time.__setitem__(0, time[0] + seconds))
    items = list(RangeReader(segment(0, 10), leader, throttle, fetch_bytes=1).chunks())
    assert len(items) == 10
    assert time[0] - 100 >= (size - len(leader.batches[-1])) / 1000 * 0.999
