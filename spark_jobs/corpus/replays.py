"""Logs with records that were sent twice but have new sequence numbers, and logs in which equal records are legitimate."""

from __future__ import annotations

from pathlib import Path

from ottla.spark_jobs.corpus.case import Case
from ottla.spark_jobs.corpus.writer import T0, PartitionWriter

ROWS = ("a", "b", "c", "d", "e", "f")


def in_the_next_epoch(root: Path) -> None:
    log = PartitionWriter(root, "t", 0)
    log.data(pid=1, epoch=0, seq=0, rows=[("other", i) for i in range(3)])
    log.data(pid=1, epoch=0, seq=3, rows=ROWS[:3])
    log.data(pid=1, epoch=1, seq=0, rows=ROWS[:3])
    log.data(pid=1, epoch=1, seq=3, rows=["g"])


def under_another_id(root: Path) -> None:
    log = PartitionWriter(root, "t", 0)
    log.data(pid=1, seq=0, rows=ROWS)
    log.data(pid=2, seq=0, rows=ROWS, at=T0 + 30_000)


def a_plain_batch_twice(root: Path) -> None:
    log = PartitionWriter(root, "t", 0)
    log.data(rows=ROWS)
    log.data(rows=["between"])
    log.data(rows=ROWS)


def one_record(root: Path) -> None:
    log = PartitionWriter(root, "t", 0)
    log.data(pid=1, seq=0, rows=["a"])
    log.data(pid=1, epoch=1, seq=0, rows=["a"])


def two_records_at_another_time(root: Path) -> None:
    log = PartitionWriter(root, "t", 0)
    log.data(pid=1, seq=0, rows=["a", "b"])
    log.data(pid=2, seq=0, rows=["a", "b"], at=T0 + 5_000)


def constant_payloads(root: Path) -> None:
    log = PartitionWriter(root, "t", 0)
    for at in range(9):
        log.data(pid=at % 3, seq=3 * (at // 3), rows=[None, None, None], at=T0 + at)


def the_same_report_each_day(root: Path) -> None:
    log = PartitionWriter(root, "t", 0)
    log.data(pid=1, seq=0, rows=[None, None])
    log.data(pid=2, seq=0, rows=[None, None], at=T0 + 86_400_000)


def after_an_abort(root: Path) -> None:
    log = PartitionWriter(root, "t", 0)
    log.data(pid=1, epoch=0, seq=0, rows=ROWS, transactional=True)
    log.marker(1, epoch=1, committed=False)
    log.data(pid=1, epoch=1, seq=0, rows=ROWS, transactional=True)
    log.marker(1, epoch=2)


def twice_in_one_session(root: Path) -> None:
    log = PartitionWriter(root, "t", 0)
    log.data(pid=1, seq=0, rows=[None, None])
    log.data(pid=1, seq=2, rows=[None, None])


def _keys(*offsets: int) -> list[tuple[str, str, str, str]]:
    """Return the findings that rule `business-key` must report: one per offset, for a record whose business key (the JSON field `row`) an
    earlier record has."""
    return [("business-key", "violation", "key seen before", f"t-0@{offset}") for offset in offsets]


REPLAYS: dict[str, Case] = {
    "replay_in_the_next_epoch": Case(
        in_the_next_epoch, [("suspected-replay", "warning", "sent again in another epoch", "t-0@6"), *_keys(6, 7, 8)]
    ),
    "replay_under_another_id": Case(
        under_another_id, [("suspected-replay", "info", "sent again by another producer id", "t-0@6"), *_keys(*range(6, 12))]
    ),
    "replay_of_a_plain_batch": Case(
        a_plain_batch_twice, [("suspected-replay", "warning", "sent again without a producer id", "t-0@7"), *_keys(*range(7, 13))]
    ),
    "replay_of_one_record": Case(one_record, [("suspected-replay", "info", "sent again in another epoch", "t-0@1"), *_keys(1)]),
    "replay_of_two_records_later": Case(
        two_records_at_another_time, [("suspected-replay", "info", "sent again by another producer id", "t-0@2"), *_keys(2, 3)]
    ),
    "constant_payloads": Case(constant_payloads, []),
    "the_same_report_each_day": Case(the_same_report_each_day, []),
    "sent_again_after_an_abort": Case(after_an_abort, []),
    "twice_in_one_session": Case(twice_in_one_session, []),
}
