"""Decides which records compaction keeps of a log, batch by batch (Kafka's Cleaner, CleanedTransactionMetadata, MemoryRecords.filterTo).

Invariants:

* Pure code: a batch goes in, and a batch or nothing comes out. `log_cleaner` reads segments and puts them in place.
* A record is removed if a later record has the same key, if its transaction was aborted, if it has no key, or if it is a tombstone whose
  delete horizon has passed. Other records keep their offsets, sequences and, if the pass sets no delete horizon, their exact bytes.
* A batch whose records were all removed is removed, unless it has its producer's last sequence or the last offset of the cleaned range:
  then its 61-byte header is kept.
* A tombstone, or a marker whose transaction has no data left, first gets a delete horizon (now + delete.retention.ms). A pass after the
  horizon removes it. A slow consumer therefore has delete.retention.ms to read it.
* Memory: the map of keys has at most `max_keys` entries; a range with more keys is cleaned up to the offset at which the map was full.
"""

from __future__ import annotations

import hashlib
from collections import deque
from collections.abc import Iterable, Mapping
from typing import Final, NamedTuple

from ottla.broker.storage.txn_index import AbortedTxn
from ottla.protocol.records import walk
from ottla.protocol.records.batch import (
    CODEC_MASK,
    DELETE_HORIZON,
    HEADER_BYTES,
    MAGIC_V2,
    NO_TIMESTAMP,
    BatchHeader,
    crc_ok,
    pack_header,
)
from ottla.protocol.records.compression import compress
from ottla.protocol.records.control import ControlType, parse_marker
from ottla.protocol.records.errors import CorruptBatch
from ottla.protocol.records.record import encode_record, iter_section, records_section
from ottla.protocol.wire import Buffer

_DIGEST_BYTES: Final = 16
HORIZON_MAX_MS: Final = 2**62
"""The delete horizon (ms) if delete.retention.ms is infinite. It is not larger, so that no record's timestamp delta exceeds 64 bits."""


def key_digest(key: bytes) -> bytes:
    """Return the form in which `OffsetMap` stores a record key: a 16-byte digest, or the key itself if it is shorter, so that a short key
    never collides with another one."""
    return key if len(key) < _DIGEST_BYTES else hashlib.blake2b(key, digest_size=_DIGEST_BYTES).digest()


class CleanedTransactions:
    """Tracks which batches belong to aborted transactions, and for which markers no data of their transaction is left in the log.

    Its methods must be called for the log's batches in order (Kafka's CleanedTransactionMetadata).
    """

    def __init__(self, aborted: Iterable[AbortedTxn]) -> None:
        self._to_come = deque(sorted(aborted, key=lambda txn: txn.first_offset))
        self._aborted: dict[int, tuple[AbortedTxn, bool]] = {}
        self._committed: set[int] = set()
        self.still_aborted: list[AbortedTxn] = []
        """Aborted transactions of which the log still had data when their marker was reached. The transaction index must keep their
        entries, because consumers need these to skip the data."""

    def data_is_aborted(self, header: BatchHeader) -> bool:
        """Process a data batch of the log. Return whether the batch belongs to an aborted transaction."""
        if not header.is_transactional:
            return False
        self._advance(header.last_offset)
        known = self._aborted.get(header.producer_id)
        if known is None:
            self._committed.add(header.producer_id)
            return False
        self._aborted[header.producer_id] = (known[0], True)
        return True

    def marker_is_empty(self, header: BatchHeader, batch: Buffer) -> bool:
        """Process a control batch. Return whether it is a marker that ends a transaction of which no data is left in the log. Raises
        `RecordsError` for a malformed batch."""
        self._advance(header.last_offset)
        kind = parse_marker(batch).type
        if kind is ControlType.ABORT:
            txn, seen_data = self._aborted.pop(header.producer_id, (None, False))
            if txn is not None and seen_data:
                self.still_aborted.append(txn)
            return not seen_data
        if kind is ControlType.COMMIT:
            had_data = header.producer_id in self._committed
            self._committed.discard(header.producer_id)
            return not had_data
        return False

    def _advance(self, offset: int) -> None:
        while self._to_come and self._to_come[0].first_offset <= offset:
            txn = self._to_come.popleft()
            self._aborted[txn.producer_id] = (txn, False)


class OffsetMap:
    """The latest offset of each key in a log's dirty range, built from all batches of the range in order."""

    def __init__(self, max_keys: int, aborted: Iterable[AbortedTxn]) -> None:
        self.latest: dict[bytes, int] = {}
        self.end_offset = -1
        """One past the last offset in the map; -1 before the first batch."""
        self._max_keys = max_keys
        self._transactions = CleanedTransactions(aborted)

    def add(self, batch: Buffer, header: BatchHeader) -> bool:
        """Add the keys of a batch with their offsets. Return False, with nothing added, if the map would get too many keys; the first batch
        is added however many it has. Raises `RecordsError` for a corrupt batch."""
        if header.magic == MAGIC_V2 and header.record_count > 0:
            _check(batch, header)
            if header.is_control:
                self._transactions.marker_is_empty(header, batch)
            elif not self._transactions.data_is_aborted(header):
                if self.latest and len(self.latest) + header.record_count > self._max_keys:
                    return False
                self._take(batch, header)
        self.end_offset = header.next_offset
        return True

    def _take(self, batch: Buffer, header: BatchHeader) -> None:
        data = memoryview(records_section(batch, header))
        found = walk.columns(data, header.record_count, header.base_offset, header.base_timestamp)
        latest = self.latest
        for offset, start, length in zip(found.offsets, found.key_starts, found.key_lengths, strict=True):
            if length >= 0:
                latest[key_digest(data[start : start + length].tobytes())] = offset


class LastOfProducer(NamedTuple):
    """A producer id's last epoch in the log, and its last data offset; `offset` is -1 if the log has only a marker of this epoch."""

    offset: int
    epoch: int


class CleaningRules(NamedTuple):
    """The parameters of one cleaning pass over a log. `latest` has the latest offset of each key (by `key_digest`), `last_of_producers` the
    last batch of each producer id. `end_offset` is one past the last offset to clean. Times are in ms."""

    latest: Mapping[bytes, int]
    end_offset: int
    last_of_producers: Mapping[int, LastOfProducer]
    now_ms: int
    delete_retention_ms: int


class BatchCleaner:
    """Makes the second pass of compaction over a log: removes the records that are outdated according to the first pass's `OffsetMap`.

    `clean` must be called with every batch from the log's start to the end of the range, in order.
    """

    def __init__(self, rules: CleaningRules, aborted: Iterable[AbortedTxn]) -> None:
        self._rules = rules
        self._transactions = CleanedTransactions(aborted)

    def take_still_aborted(self) -> list[AbortedTxn]:
        """Return the aborted transactions that still have data and whose markers were processed since the last call.

        They are the transaction index of the new segment.
        """
        taken, self._transactions.still_aborted = self._transactions.still_aborted, []
        return taken

    def clean(self, batch: Buffer, header: BatchHeader) -> Buffer | None:
        """Return the bytes to write in place of `batch`: the same batch, a rewritten one, its header alone, or None to remove it.

        Raises `RecordsError` for a corrupt batch.
        """
        if header.magic != MAGIC_V2:
            return batch
        _check(batch, header)
        control, empty = header.is_control, header.record_count == 0
        gone = False
        if not control:
            gone = self._transactions.data_is_aborted(header)
        elif not empty:
            gone = self._transactions.marker_is_empty(header, batch)
        # This check comes after the markers were processed: a transaction whose marker is beyond the range still needs its transaction
        # index entry, because its data would become visible otherwise.
        if header.base_offset >= self._rules.end_offset:
            return batch
        if empty:
            return batch if self._must_stay(header) else None
        if control:
            return self._clean_marker(batch, header) if gone else batch
        return self._without_records(header) if gone else self._clean_data(batch, header)

    def _clean_marker(self, batch: Buffer, header: BatchHeader) -> Buffer | None:
        """Return the bytes to write for a transaction marker whose transaction has no data left. The first cleaning gives the marker a
        delete horizon, the time from which it can be removed. A cleaning after that time removes it (None), or keeps the batch header alone
        if `_must_stay`."""
        if self._horizon_passed(header):
            return self._without_records(header)
        return batch if header.has_delete_horizon else self._with_horizon(header, memoryview(batch)[HEADER_BYTES:], None)

    def _clean_data(self, batch: Buffer, header: BatchHeader) -> Buffer | None:
        section = memoryview(records_section(batch, header))
        found = walk.columns(section, header.record_count, header.base_offset, header.base_timestamp)
        kept, has_tombstone = self._survivors(section, found, drops_tombstones=self._horizon_passed(header))
        if not kept:
            return self._without_records(header)
        if has_tombstone and not header.has_delete_horizon:
            return self._with_horizon(header, section, kept)
        if len(kept) == header.record_count:
            return batch
        ends = [*found.record_starts[1:], len(section)]
        survivors = b"".join(section[found.record_starts[i] : ends[i]] for i in kept)
        newest = header.max_timestamp if header.is_log_append_time else max(found.timestamps[i] for i in kept)
        return _packed(header._replace(record_count=len(kept), max_timestamp=newest), survivors)

    def _survivors(self, section: memoryview, found: walk.Columns, *, drops_tombstones: bool) -> tuple[list[int], bool]:
        """Return the indexes of the records to keep, and whether one of them is a tombstone.

        `section` has the batch's uncompressed records, `found` their positions, key lengths and value lengths. A record is removed if it
        has no key, if a later record has the same key, or, with `drops_tombstones`, if it is a tombstone.
        """
        latest = self._rules.latest
        kept: list[int] = []
        has_tombstone = False
        rows = zip(found.offsets, found.key_starts, found.key_lengths, found.value_lengths, strict=True)
        for index, (offset, start, key_length, value_length) in enumerate(rows):
            if key_length < 0 or (value_length < 0 and drops_tombstones):
                continue
            if offset >= latest.get(key_digest(section[start : start + key_length].tobytes()), -1):
                kept.append(index)
                has_tombstone = has_tombstone or value_length < 0
        return kept, has_tombstone

    def _with_horizon(self, header: BatchHeader, section: Buffer, kept: list[int] | None) -> bytes:
        """Return a batch of the records with the indexes `kept` (None: all) and a new delete horizon.

        The horizon is stored as the base timestamp, so the records' timestamp deltas are relative to it (KIP-534).
        """
        horizon = min(self._rules.now_ms + self._rules.delete_retention_ms, HORIZON_MAX_MS)
        records = list(iter_section(section, header))
        if kept is not None:
            records = [records[i] for i in kept]
        encoded = b"".join(encode_record(r.offset_delta, r.timestamp - horizon, r.key, r.value, r.headers) for r in records)
        return _packed(
            header._replace(
                attributes=header.attributes | DELETE_HORIZON,
                base_timestamp=horizon,
                max_timestamp=header.max_timestamp if header.is_log_append_time else max(r.timestamp for r in records),
                record_count=len(records),
            ),
            encoded,
        )

    def _without_records(self, header: BatchHeader) -> bytes | None:
        if not self._must_stay(header):
            return None
        attributes = header.attributes & ~(CODEC_MASK | DELETE_HORIZON)
        return pack_header(header._replace(attributes=attributes, base_timestamp=NO_TIMESTAMP, record_count=0), b"")

    def _must_stay(self, header: BatchHeader) -> bool:
        """Return whether a batch without remaining records must keep its header: it has the range's last offset, or its producer's last
        sequence or epoch."""
        if header.next_offset == self._rules.end_offset:
            return True
        last = self._rules.last_of_producers.get(header.producer_id) if header.has_producer_id else None
        if last is None:
            return False
        if last.offset >= 0:
            return header.last_offset == last.offset
        return header.is_control and header.producer_epoch == last.epoch

    def _horizon_passed(self, header: BatchHeader) -> bool:
        return header.has_delete_horizon and header.base_timestamp <= self._rules.now_ms


def _check(batch: Buffer, header: BatchHeader) -> None:
    if not crc_ok(batch, header):
        raise CorruptBatch(f"the batch at offset {header.base_offset} has a wrong checksum")


def _packed(header: BatchHeader, section: bytes) -> bytes:
    """Return the bytes of a batch with the records `section`, in the header's codec at its default level: the cleaner does not apply
    compression.type."""
    stored = compress(header.codec, section)
    return pack_header(header, stored) + stored
