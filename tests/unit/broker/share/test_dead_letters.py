from __future__ import annotations

import pytest

from ottla.broker.share.dead_letters import (
    DELIVERED_TOO_OFTEN,
    REJECTED,
    CopiedRecords,
    DeadLetters,
    RecordSource,
    copied_records,
    dead_letter_batch,
)
from ottla.protocol.records.compression import Codec
from ottla.protocol.records.record import SimpleRecord, build_batch, iter_records

ORIGIN = RecordSource("g", "t", 3)
NOTHING = CopiedRecords({}, 9)


def log(*values: bytes, at: int = 0, codec: Codec = Codec.NONE) -> bytes:
    return build_batch([SimpleRecord(b"k", value, 0, [("own", b"x")]) for value in values], base_offset=at, codec=codec)


def test_a_dead_letter_says_where_its_record_comes_from_and_why() -> None:
    batch, end = dead_letter_batch(ORIGIN, DeadLetters(4, 5, 2, REJECTED), NOTHING, 4, max_bytes=1_000, now_ms=7)
    assert end == 6
    first, second = iter_records(batch)
    assert (first.key, first.value, first.timestamp) == (None, None, 7)
    assert list(first.headers) == [
        ("__dlq.errors.topic", b"t"),
        ("__dlq.errors.partition", b"3"),
        ("__dlq.errors.offset", b"4"),
        ("__dlq.errors.group", b"g"),
        ("__dlq.errors.delivery.count", b"2"),
        ("__dlq.errors.message", b"Offset rejected by client."),
    ]
    assert dict(second.headers)["__dlq.errors.offset"] == b"5"


def test_a_batch_stays_below_the_limit_but_has_one_record_at_least() -> None:
    letters = DeadLetters(0, 2, 5, DELIVERED_TOO_OFTEN)
    one, _ = dead_letter_batch(ORIGIN, letters, NOTHING, 0, max_bytes=1, now_ms=0)
    _, end = dead_letter_batch(ORIGIN, letters, NOTHING, 0, max_bytes=2 * len(one) - 61, now_ms=0)
    assert end == 2
    assert dead_letter_batch(ORIGIN, letters, NOTHING, 2, max_bytes=1, now_ms=0)[1] == 3


def test_a_copy_has_key_and_value_of_its_record_and_not_its_headers() -> None:
    copies = copied_records(log(b"a", b"b"), 1, 1, 1_000)
    batch, _ = dead_letter_batch(ORIGIN, DeadLetters(1, 1, 1, REJECTED), copies, 1, max_bytes=1_000, now_ms=0)
    (record,) = iter_records(batch)
    assert (record.key, record.value) == (b"k", b"b")
    assert "own" not in dict(record.headers)


@pytest.mark.parametrize(
    ("read", "found"),
    [
        (log(b"a", b"b"), CopiedRecords({0: (b"k", b"a"), 1: (b"k", b"b")}, 1)),
        (log(b"a") + log(b"b", at=3), CopiedRecords({0: (b"k", b"a"), 3: (b"k", b"b")}, 3)),
        (log(b"a") + log(b"b", at=7), CopiedRecords({0: (b"k", b"a")}, 5)),
        (log(b"a" * 200) + log(b"b", at=1), CopiedRecords({1: (b"k", b"b")}, 1)),
        (log(b"a" * 200, b"b", codec=Codec.GZIP) + log(b"c", at=2), CopiedRecords({2: (b"k", b"c")}, 2)),
        (log(b"a" * 60, b"b" * 60), CopiedRecords({0: (b"k", b"a" * 60)}, 0)),
        (b"", CopiedRecords({}, 5)),
        (log(b"b", at=7), CopiedRecords({}, 5)),
        (log(b"a") + bytes(80), CopiedRecords({0: (b"k", b"a")}, 5)),
    ],
    ids=[
        "all",
        "a gap",
        "a gap at the end",
        "a record above the limit",
        "a batch that is above the limit when decompressed",
        "more than the limit together",
        "nothing",
        "the log starts later",
        "damage",
    ],
)
def test_records_still_in_the_log_are_copied_up_to_the_limit(read: bytes, found: CopiedRecords) -> None:
    assert copied_records(read, 0, 5, max_bytes=100) == found
