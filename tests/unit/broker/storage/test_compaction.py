from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pytest

from ottla.broker.storage.compaction import BatchCleaner, CleaningRules, LastOfProducer, OffsetMap, key_digest
from ottla.broker.storage.txn_index import AbortedTxn
from ottla.protocol.records.batch import HEADER_BYTES, crc_ok, pack_header, read_header
from ottla.protocol.records.compression import Codec
from ottla.protocol.records.control import end_txn_marker
from ottla.protocol.records.errors import CorruptBatch
from ottla.protocol.records.record import SimpleRecord, build_batch, iter_records

NOW = 1_000_000
RETENTION = 500
HORIZON = NOW + RETENTION


def batch(base_offset: int, *keys_and_values: tuple[str | None, str | None], **options: Any) -> bytes:
    records = [
        SimpleRecord(None if k is None else k.encode(), None if v is None else v.encode(), 100 + base_offset + i)
        for i, (k, v) in enumerate(keys_and_values)
    ]
    return build_batch(records, base_offset=base_offset, **options)


def marker(base_offset: int, producer_id: int, *, committed: bool) -> bytes:
    return end_txn_marker(
        committed=committed, producer_id=producer_id, producer_epoch=0, coordinator_epoch=0, timestamp=100, base_offset=base_offset
    )


def transactional(base_offset: int, producer_id: int, *keys_and_values: tuple[str, str]) -> bytes:
    return batch(base_offset, *keys_and_values, producer_id=producer_id, producer_epoch=0, base_sequence=0, transactional=True)


def clean_all(
    log: Sequence[bytes],
    *,
    now_ms: int = NOW,
    aborted: Sequence[AbortedTxn] = (),
    last: dict[int, LastOfProducer] | None = None,
    max_keys: int = 1000,
    end_offset: int | None = None,
) -> tuple[list[bytes], list[AbortedTxn]]:
    """Run one pass; return the batches and the index entries still needed. Without `end_offset` the range extends past `log`."""
    keys = OffsetMap(max_keys, aborted)
    for each in log:
        if not keys.add(each, read_header(each)):
            break
    end = keys.end_offset + 1_000_000 if end_offset is None else end_offset
    cleaner = BatchCleaner(CleaningRules(keys.latest, end, last or {}, now_ms, RETENTION), aborted)
    cleaned = [cleaner.clean(each, read_header(each)) for each in log]
    return [bytes(each) for each in cleaned if each is not None], cleaner.take_still_aborted()


def clean(log: Sequence[bytes], **options: Any) -> list[bytes]:
    return clean_all(log, **options)[0]


def content(log: Sequence[bytes]) -> list[tuple[int, bytes | None, bytes | None, int]]:
    for each in log:
        assert crc_ok(each, read_header(each))
    return [(r.offset, r.key, r.value, r.timestamp) for each in log for r in iter_records(each)]


def test_only_the_latest_record_of_each_key_is_kept() -> None:
    log = [batch(0, ("a", "1"), ("b", "1"), ("a", "2")), batch(3, ("c", "1"), ("b", "2")), batch(5, ("a", "3"))]
    assert content(clean(log)) == [(3, b"c", b"1", 103), (4, b"b", b"2", 104), (5, b"a", b"3", 105)]


def test_a_batch_that_loses_nothing_keeps_its_bytes() -> None:
    log = [batch(0, ("a", "1"), ("b", "1"), codec=Codec.ZSTD), batch(2, ("c", "1"))]
    assert clean(log) == log


@pytest.mark.parametrize("codec", list(Codec))
def test_a_reduced_batch_keeps_its_offset_range_sequences_and_codec(codec: Codec) -> None:
    first = batch(10, ("a", "1"), ("b", "1"), ("c", "1"), codec=codec, producer_id=7, producer_epoch=2, base_sequence=40, leader_epoch=5)
    [thinned, _] = clean([first, batch(13, ("a", "2"), ("c", "2"))])
    header = read_header(thinned)
    assert (header.base_offset, header.last_offset_delta, header.record_count) == (10, 2, 1)
    assert (header.producer_id, header.producer_epoch, header.base_sequence, header.last_sequence) == (7, 2, 40, 42)
    assert (header.codec, header.partition_leader_epoch, header.max_timestamp) == (codec, 5, 111)
    assert content([thinned]) == [(11, b"b", b"1", 111)]


def test_append_time_stays_that_of_the_batch() -> None:
    first = batch(0, ("a", "1"), ("b", "1"), log_append_time=900)
    [thinned, _] = clean([first, batch(2, ("a", "2"))])
    assert content([thinned]) == [(1, b"b", b"1", 900)]


def test_records_without_a_key_are_dropped_and_an_empty_key_is_a_key() -> None:
    assert content(clean([batch(0, (None, "x"), ("", "y"))])) == [(1, b"", b"y", 101)]


def test_a_tombstone_gets_a_delete_horizon_and_is_removed_after_it() -> None:
    log = [batch(0, ("a", "1"), ("b", "1")), batch(2, ("a", None), ("c", "1"))]
    once = clean(log)
    assert content(once) == [(1, b"b", b"1", 101), (2, b"a", None, 102), (3, b"c", b"1", 103)]
    header = read_header(once[1])
    assert (header.has_delete_horizon, header.base_timestamp, header.max_timestamp) == (True, HORIZON, 103)
    assert clean(once, now_ms=HORIZON - 1) == once
    assert content(clean(once, now_ms=HORIZON)) == [(1, b"b", b"1", 101), (3, b"c", b"1", 103)]


def test_a_delete_horizon_is_set_once() -> None:
    once = clean([batch(0, ("a", None), ("b", "1"))])
    again = clean([*once, batch(2, ("b", "2"))], now_ms=NOW + 100)
    assert read_header(again[0]).base_timestamp == HORIZON
    assert content(again) == [(0, b"a", None, 100), (2, b"b", b"2", 102)]


def test_an_emptied_batch_is_removed_unless_it_ends_the_range() -> None:
    log = [batch(0, ("a", "1")), batch(1, ("a", "2")), batch(2, (None, "x"), codec=Codec.GZIP)]
    assert [read_header(each).base_offset for each in clean(log)] == [1]
    kept = clean(log, end_offset=3)
    header = read_header(kept[-1])
    assert (len(kept), len(kept[-1]), header.record_count, header.base_offset, header.next_offset) == (2, HEADER_BYTES, 0, 2, 3)
    assert (header.base_timestamp, header.max_timestamp, header.codec) == (-1, 102, Codec.NONE)
    assert crc_ok(kept[-1], header)
    assert clean(kept, end_offset=3) == kept
    assert len(clean(kept)) == 1


def test_an_active_producers_last_batch_is_kept_as_an_empty_batch() -> None:
    first = batch(0, ("a", "1"), ("b", "1"), producer_id=7, producer_epoch=2, base_sequence=40)
    second = batch(2, ("a", "2"), ("b", "2"))
    [emptied, _] = clean([first, second], last={7: LastOfProducer(1, 2)})
    header = read_header(emptied)
    assert (header.record_count, header.producer_id, header.last_sequence) == (0, 7, 41)
    assert len(clean([first, second], last={7: LastOfProducer(9, 2)})) == 1
    assert len(clean([emptied, second], last={7: LastOfProducer(1, 2)})) == 2


def test_aborted_data_is_removed_and_ignored_by_the_map() -> None:
    log = [
        batch(0, ("a", "old")),
        transactional(1, 7, ("a", "aborted")),
        transactional(2, 8, ("b", "committed")),
        marker(3, 7, committed=False),
        marker(4, 8, committed=True),
    ]
    aborted = [AbortedTxn(7, 1, 3, 1)]
    cleaned, still_aborted = clean_all(log, aborted=aborted)
    assert [(offset, key, value) for offset, key, value, _ in content([*cleaned[:2]])] == [(0, b"a", b"old"), (2, b"b", b"committed")]
    assert cleaned[2:] == log[3:], "both markers stay while their data was seen"
    assert still_aborted == aborted


def test_a_marker_without_data_is_removed_after_its_delete_horizon() -> None:
    log = [batch(0, ("a", "1")), marker(1, 7, committed=False), marker(2, 8, committed=True)]
    once, still_aborted = clean_all(log, aborted=[AbortedTxn(7, 1, 1, 1)])
    assert [(read_header(each).has_delete_horizon, read_header(each).record_count) for each in once] == [(False, 1), (True, 1), (True, 1)]
    assert still_aborted == []
    assert clean(once, now_ms=HORIZON - 1) == once
    assert clean(once, now_ms=HORIZON) == log[:1]


def test_the_only_marker_of_a_producer_is_kept() -> None:
    once = clean([marker(0, 7, committed=True)])
    [kept] = clean(once, now_ms=HORIZON, last={7: LastOfProducer(-1, 0)})
    assert (read_header(kept).is_control, read_header(kept).record_count) == (True, 0)
    assert clean(once, now_ms=HORIZON, last={7: LastOfProducer(-1, 1)}) == []


def test_a_full_map_ends_the_range_and_later_records_are_kept() -> None:
    log = [batch(0, ("a", "1"), ("b", "1")), batch(2, ("a", "2")), batch(3, ("b", "2"), ("c", "1"))]
    keys = OffsetMap(3, [])
    assert [keys.add(each, read_header(each)) for each in log] == [True, True, False]
    assert (keys.end_offset, len(keys.latest)) == (3, 2)
    assert content(clean(log, max_keys=3)) == [(1, b"b", b"1", 101), (2, b"a", b"2", 102), (3, b"b", b"2", 103), (4, b"c", b"1", 104)]


def test_at_least_one_batch_is_always_cleaned() -> None:
    keys = OffsetMap(1, [])
    large = batch(0, ("a", "1"), ("b", "1"))
    assert keys.add(large, read_header(large))


def test_a_damaged_batch_stops_the_cleaning() -> None:
    broken = bytearray(batch(0, ("a", "1")))
    broken[-2] ^= 1
    cleaner = BatchCleaner(CleaningRules({}, 10, {}, NOW, RETENTION), [])
    with pytest.raises(CorruptBatch, match="offset 0"):
        cleaner.clean(broken, read_header(broken))


def test_legacy_messages_are_not_changed() -> None:
    old = b"\0" * 11 + b"\x16" + b"\0" * 4 + b"\x01" + bytes(17)
    header = read_header(old + bytes(61))._replace(magic=1)
    assert BatchCleaner(CleaningRules({}, 10, {}, NOW, RETENTION), []).clean(old, header) is old


def test_a_short_key_never_equals_the_digest_of_a_long_one() -> None:
    long = b"k" * 100
    assert len(key_digest(long)) == 16
    assert key_digest(key_digest(long)) != key_digest(long)
    assert key_digest(b"k" * 15) == b"k" * 15


def test_an_append_time_batch_with_a_tombstone_keeps_its_time_under_a_horizon() -> None:
    plain = batch(0, ("a", None))
    stamped = read_header(plain)._replace(attributes=8, max_timestamp=777)
    [once] = clean([pack_header(stamped, plain[HEADER_BYTES:]) + plain[HEADER_BYTES:]])
    assert content([once]) == [(0, b"a", None, 777)]
    assert read_header(once).base_timestamp == HORIZON


def test_an_empty_batch_is_removed_when_its_reason_ends() -> None:
    empty = pack_header(read_header(batch(0, ("a", "1")))._replace(record_count=0), b"")
    assert clean([empty]) == []
    assert clean([empty], end_offset=1) == [empty]
