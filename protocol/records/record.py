"""Reads the records of a batch, and builds batches.

Rules: reading trusts no count or length (all are checked before the first record is yielded), and decompresses at most `max_bytes`.
Building produces exactly the bytes that Kafka's Java client makes of the same records.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterable, Iterator, Sequence
from typing import Final, NamedTuple

from ottla.protocol.records import walk
from ottla.protocol.records.batch import (
    CONTROL,
    HEADER_BYTES,
    LOG_APPEND_TIME,
    NO_LEADER_EPOCH,
    NO_PRODUCER_EPOCH,
    NO_PRODUCER_ID,
    NO_SEQUENCE,
    NO_TIMESTAMP,
    TRANSACTIONAL,
    BatchHeader,
    pack_header,
    read_header,
)
from ottla.protocol.records.compression import Codec, compress, decompress
from ottla.protocol.records.errors import CorruptBatch
from ottla.protocol.records.sequence import decrement_sequence, increment_sequence
from ottla.protocol.wire import Buffer

__all__ = [
    "DECOMPRESSED_MAX_BYTES",
    "Header",
    "Record",
    "SimpleRecord",
    "build_batch",
    "decrement_sequence",
    "encode_record",
    "increment_sequence",
    "iter_records",
    "iter_section",
    "records_section",
]

Header = tuple[str, bytes | None]
"""A record header: name and value. Bytes of a name that are not UTF-8 are decoded as lone surrogates, so that encoding the record again
restores them."""

DECOMPRESSED_MAX_BYTES: Final = 64 << 20
"""Default limit for the decompressed records of one batch: 64 times Kafka's default message.max.bytes."""


RECORD_OVERHEAD_MAX: Final = 21
"""The most bytes that a record without headers has in a batch beside its key and value (Kafka's DefaultRecord.MAX_RECORD_OVERHEAD)."""


class SimpleRecord(NamedTuple):
    """A record to be written. `timestamp` is in milliseconds since 1970, -1 for none; headers keep their order and may repeat a name."""

    key: bytes | None
    value: bytes | None
    timestamp: int = NO_TIMESTAMP
    headers: Sequence[Header] = ()


class Record(NamedTuple):
    """A decoded record. `offset_delta` and `timestamp_delta` are as stored; `offset` and `timestamp` are what a consumer sees: in a batch
    with LogAppendTime, `timestamp` is the append time of the batch."""

    offset_delta: int
    timestamp_delta: int
    key: bytes | None
    value: bytes | None
    headers: tuple[Header, ...]
    offset: int
    timestamp: int


def records_section(batch: Buffer, header: BatchHeader, max_bytes: int = DECOMPRESSED_MAX_BYTES) -> Buffer:
    """Return the uncompressed records of a batch as bytes: a view of the batch if it is not compressed. Raises `BatchTooLarge` if they
    exceed `max_bytes`, `CorruptBatch` if they cannot be decompressed, and `UnknownCodec` for a codec that does not exist."""
    section = memoryview(batch)[HEADER_BYTES : header.size_bytes]
    codec = header.codec
    return section if codec is Codec.NONE else decompress(codec, section, max_bytes)


def iter_records(
    batch: Buffer, max_bytes: int = DECOMPRESSED_MAX_BYTES, *, from_offset: int | None = None, headers_max: int | None = None
) -> Iterator[Record]:
    """Yield the records of one whole batch v2, control records included, from `from_offset` on (None: all), each with its first
    `headers_max` headers (None: all).

    The CRC is not checked (`crc_ok` does that), and offsets may be negative, as in Kafka's DefaultRecordBatch. All errors are raised before
    the first record is yielded: `CorruptBatch` for damage, `BatchTooLarge` if the records decompress to more than `max_bytes`,
    `InvalidRecord` for an invalid record.
    """
    header = read_header(batch)
    if not HEADER_BYTES <= header.size_bytes <= len(batch):
        raise CorruptBatch(f"a batch of {header.size_bytes} bytes does not match the {len(batch)} bytes that are left")
    yield from iter_section(records_section(batch, header, max_bytes), header, from_offset=from_offset, headers_max=headers_max)


def iter_section(
    section: Buffer, header: BatchHeader, *, from_offset: int | None = None, headers_max: int | None = None
) -> Iterator[Record]:
    """Yield the records in the uncompressed records section of the batch with this header, from `from_offset` on (None: all), each with its
    first `headers_max` headers (None: all). The whole section is checked first: `InvalidRecord` is raised before any record is yielded."""
    data = memoryview(section)
    found = walk.columns(data, header.record_count, header.base_offset, header.base_timestamp)
    append_time = header.max_timestamp if header.is_log_append_time else None
    first = 0 if from_offset is None or from_offset <= header.base_offset else bisect_left(found.offsets, from_offset)
    for i in range(first, header.record_count):
        offset, timestamp = found.offsets[i], found.timestamps[i]
        yield Record(
            offset - header.base_offset,
            timestamp - header.base_timestamp,
            _span(data, found.key_starts[i], found.key_lengths[i]),
            _span(data, found.value_starts[i], found.value_lengths[i]),
            _headers(data, found.header_starts[i], found.header_counts[i], headers_max) if found.header_counts[i] else (),
            offset,
            timestamp if append_time is None else append_time,
        )


def _span(data: memoryview, start: int, length: int) -> bytes | None:
    return None if length < 0 else data[start : start + length].tobytes()


def _headers(data: memoryview, pos: int, count: int, max_headers: int | None) -> tuple[Header, ...]:
    """Return the first `max_headers` (None: all) of the `count` record headers at `pos`. Their structure was checked before."""
    headers = []
    for _ in range(count if max_headers is None else min(count, max_headers)):
        length, pos = _read_varint(data, pos)
        name = data[pos : pos + length].tobytes().decode("utf-8", "surrogateescape")
        length, pos = _read_varint(data, pos + length)
        headers.append((name, _span(data, pos, length)))
        pos += max(length, 0)
    return tuple(headers)


def _read_varint(data: memoryview, pos: int) -> tuple[int, int]:
    raw = shift = 0
    while True:
        byte = data[pos]
        raw |= (byte & 0x7F) << shift
        pos += 1
        if byte < 0x80:
            return (raw >> 1) ^ -(raw & 1), pos
        shift += 7


def _varint(value: int) -> bytes:
    """Encode a zigzag varint. A value has the same encoding as a varlong of 64 bits."""
    raw = (value << 1) ^ (value >> 63)
    if raw < 0x80:
        return _ONE_BYTE[raw]
    out = bytearray()
    while raw >= 0x80:
        out.append(raw & 0x7F | 0x80)
        raw >>= 7
    out.append(raw)
    return bytes(out)


_ONE_BYTE: Final = tuple(bytes([i]) for i in range(0x80))
_NULL: Final = _varint(-1)


def encode_record(
    offset_delta: int, timestamp_delta: int, key: Buffer | None, value: Buffer | None, headers: Sequence[Header] = ()
) -> bytes:
    """Return one record of a v2 batch in encoded form, preceded by its length."""
    parts: list[Buffer] = [b"\0", _varint(timestamp_delta), _varint(offset_delta)]
    for field in (key, value):
        parts += (_NULL,) if field is None else (_varint(len(field)), field)
    parts.append(_varint(len(headers)))
    for name, content in headers:
        raw = name.encode("utf-8", "surrogateescape")
        parts += (_varint(len(raw)), raw)
        parts += (_NULL,) if content is None else (_varint(len(content)), content)
    body = b"".join(parts)
    return _varint(len(body)) + body


def build_batch(
    records: Iterable[SimpleRecord],
    *,
    base_offset: int = 0,
    leader_epoch: int = NO_LEADER_EPOCH,
    codec: Codec = Codec.NONE,
    level: int | None = None,
    producer_id: int = NO_PRODUCER_ID,
    producer_epoch: int = NO_PRODUCER_EPOCH,
    base_sequence: int = NO_SEQUENCE,
    transactional: bool = False,
    control: bool = False,
    log_append_time: int | None = None,
) -> bytes:
    """Build a batch v2 of these records at successive offsets. With `log_append_time` (ms) the batch has that time for all its records.

    Raises ValueError without records: only compaction leaves empty batches.
    """
    listed = list(records)
    if not listed:
        raise ValueError("a batch needs at least one record")
    base_timestamp = listed[0].timestamp
    section: Buffer = b"".join(encode_record(i, r.timestamp - base_timestamp, r.key, r.value, r.headers) for i, r in enumerate(listed))
    attributes = codec | (TRANSACTIONAL if transactional else 0) | (CONTROL if control else 0)
    max_timestamp = max(r.timestamp for r in listed)
    if log_append_time is not None:
        attributes |= LOG_APPEND_TIME
        max_timestamp = log_append_time
    if codec is not Codec.NONE:
        section = compress(codec, section, level)
    count = len(listed)
    header = BatchHeader(
        base_offset,
        0,
        leader_epoch,
        2,
        0,
        attributes,
        count - 1,
        base_timestamp,
        max_timestamp,
        producer_id,
        producer_epoch,
        base_sequence,
        count,
    )
    return pack_header(header, section) + section
