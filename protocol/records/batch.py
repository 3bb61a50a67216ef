"""The 61-byte header of a record batch v2 (Kafka: DefaultRecordBatch), and operations on batches that do not read the records.

Rules: no function copies or decodes the records section. The CRC covers everything from the attributes on, so base offset and partition
leader epoch can be changed without a new checksum.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator
from typing import Final, NamedTuple

from ottla.protocol.records.compression import Codec, codec_of
from ottla.protocol.records.crc32c import crc32c
from ottla.protocol.records.errors import CorruptBatch
from ottla.protocol.records.sequence import increment_sequence
from ottla.protocol.wire import Buffer

HEADER_BYTES: Final = 61
LOG_OVERHEAD: Final = 12
"""The bytes at the start of a batch that its `batch_length` does not count: base offset and batch length (Kafka's Records.LOG_OVERHEAD)."""
STAMPED_BYTES: Final = 16
"""The bytes at the start of a batch that a broker rewrites when it appends the batch: base offset, batch length and leader epoch."""
CRC_START: Final = 21
"""The position of the attributes in a batch. The batch's CRC covers all bytes from there on."""
MAGIC_END: Final = 17
MAGIC_V2: Final = 2
LEGACY_MIN_LENGTH: Final = 14
"""The smallest valid batch length: that of a magic-0 message with a null key and value (crc, magic, attributes, two lengths)."""

CODEC_MASK: Final = 0x07
LOG_APPEND_TIME: Final = 0x08
TRANSACTIONAL: Final = 0x10
CONTROL: Final = 0x20
DELETE_HORIZON: Final = 0x40

NO_PRODUCER_ID: Final = -1
NO_PRODUCER_EPOCH: Final = -1
NO_SEQUENCE: Final = -1
NO_TIMESTAMP: Final = -1
NO_LEADER_EPOCH: Final = -1

_HEADER = struct.Struct(">qiibIhiqqqhii")
_STAMPED = struct.Struct(">qii")
_LENGTH = struct.Struct(">i")
_LEGACY = struct.Struct(">q4xI")
_BEFORE_CRC = struct.Struct(">qiibI")
_COVERED = struct.Struct(">hiqqqhii")
_new_tuple = tuple.__new__
"""Makes a named tuple without the check of the number of fields that `_make` does; the `struct` format guarantees this number."""


class BatchHeader(NamedTuple):
    """A batch header with the fields of the wire format. For a legacy message (magic 0 or 1) only `base_offset`, `batch_length`, `crc` and
    `magic` are read; the other fields describe one record without timestamps and producer."""

    base_offset: int
    batch_length: int
    partition_leader_epoch: int
    magic: int
    crc: int
    attributes: int
    last_offset_delta: int
    base_timestamp: int
    max_timestamp: int
    producer_id: int
    producer_epoch: int
    base_sequence: int
    record_count: int

    @property
    def size_bytes(self) -> int:
        """Size of the whole batch, including the twelve bytes that `batch_length` does not count."""
        return self.batch_length + LOG_OVERHEAD

    @property
    def last_offset(self) -> int:
        """The last offset of the batch, whether or not its record still exists after compaction."""
        return self.base_offset + self.last_offset_delta

    @property
    def next_offset(self) -> int:
        """The offset after `last_offset`, where the next batch begins."""
        return self.base_offset + self.last_offset_delta + 1

    @property
    def last_sequence(self) -> int:
        """The sequence of the last record, wrapped after 2^31-1; -1 for a batch without sequences."""
        first = self.base_sequence
        return NO_SEQUENCE if first == NO_SEQUENCE else increment_sequence(first, self.last_offset_delta)

    @property
    def codec(self) -> Codec:
        """The compression codec. Raises `UnknownCodec` for ids 5 to 7."""
        return codec_of(self.attributes & CODEC_MASK)

    @property
    def is_transactional(self) -> bool:
        """Whether the batch belongs to a transaction; also true for markers."""
        return bool(self.attributes & TRANSACTIONAL)

    @property
    def is_control(self) -> bool:
        """Whether the records are control records, which consumers do not deliver."""
        return bool(self.attributes & CONTROL)

    @property
    def is_log_append_time(self) -> bool:
        """Whether `max_timestamp` is the broker's append time, which replaces every record's timestamp."""
        return bool(self.attributes & LOG_APPEND_TIME)

    @property
    def has_delete_horizon(self) -> bool:
        """Whether `base_timestamp` is the time from which the log cleaner may remove tombstones and markers (KAFKA-8522)."""
        return bool(self.attributes & DELETE_HORIZON)

    @property
    def has_producer_id(self) -> bool:
        """Whether an idempotent or transactional producer wrote the batch."""
        return self.producer_id > NO_PRODUCER_ID


def read_header(buf: Buffer, pos: int = 0) -> BatchHeader:
    """Decode the header of the batch at `pos` without validating it. Raises `CorruptBatch` if there are fewer than 61 bytes."""
    try:
        return _new_tuple(BatchHeader, _HEADER.unpack_from(buf, pos))
    except struct.error as e:
        raise CorruptBatch(f"a batch header needs {HEADER_BYTES} bytes, but only {len(buf) - pos} are left") from e


def split_batches(buf: Buffer, max_batch_length: int | None = None) -> Iterator[tuple[int, BatchHeader]]:
    """Yield (position, header) of each whole batch in a byte stream; a partial batch at the end is ignored.

    Raises `CorruptBatch` for an impossible length, one above `max_batch_length`, and an unknown magic. CRC and records are not checked.
    (Kafka: ByteBufferLogInputStream.)
    """
    pos = 0
    while len(buf) - pos >= LOG_OVERHEAD:
        left = len(buf) - pos
        length = _LENGTH.unpack_from(buf, pos + 8)[0]
        if length < LEGACY_MIN_LENGTH:
            raise CorruptBatch(f"batch length {length} at byte {pos} is less than the minimum of {LEGACY_MIN_LENGTH}")
        if max_batch_length is not None and length > max_batch_length:
            raise CorruptBatch(f"batch length {length} at byte {pos} exceeds the maximum of {max_batch_length}")
        if left < MAGIC_END:
            return
        magic = buf[pos + MAGIC_END - 1]
        if magic > MAGIC_V2:
            raise CorruptBatch(f"unknown magic {magic} at byte {pos}")
        size = length + LOG_OVERHEAD
        if size > left:
            return
        if magic == MAGIC_V2:
            if size < HEADER_BYTES:
                raise CorruptBatch(f"batch of {size} bytes at byte {pos} is smaller than its header")
            yield pos, BatchHeader._make(_HEADER.unpack_from(buf, pos))
        else:
            offset, crc = _LEGACY.unpack_from(buf, pos)
            yield pos, BatchHeader(offset, length, NO_LEADER_EPOCH, magic, crc, 0, 0, -1, -1, -1, -1, -1, 1)
        pos += size


def crc_ok(buf: Buffer, header: BatchHeader, pos: int = 0) -> bool:
    """Return whether the batch at `pos` is whole and matches the CRC in its header."""
    end = pos + header.size_bytes
    return HEADER_BYTES <= header.size_bytes <= len(buf) - pos and crc32c(memoryview(buf)[pos + CRC_START : end]) == header.crc


def stamp(buf: Buffer, base_offset: int, leader_epoch: int) -> tuple[bytes, memoryview]:
    """Return a batch with another base offset and leader epoch: (its new first 16 bytes, a view of the rest). The CRC stays valid."""
    return stamped_head(base_offset, _LENGTH.unpack_from(buf, 8)[0], leader_epoch), memoryview(buf)[STAMPED_BYTES:]


def stamped_head(base_offset: int, batch_length: int, leader_epoch: int) -> bytes:
    """Return the first 16 bytes of a batch: base offset, batch length and leader epoch."""
    return _STAMPED.pack(base_offset, batch_length, leader_epoch)


def pack_header(header: BatchHeader, tail: Buffer) -> bytes:
    """Return the encoded 61-byte header of a batch whose records section is `tail`. Batch length and CRC are computed, not taken from
    `header`."""
    covered = _COVERED.pack(*header[5:])
    crc = crc32c(tail, crc32c(covered))
    length = HEADER_BYTES - LOG_OVERHEAD + len(tail)
    return _BEFORE_CRC.pack(header.base_offset, length, header.partition_leader_epoch, header.magic, crc) + covered
