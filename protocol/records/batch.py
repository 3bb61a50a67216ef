"""The 61-byte header of a record batch v2 (Kafka: DefaultRecordBatch), and what can be done to a batch without opening it.

Rules that hold here: a batch is bytes; no function copies or decodes the records section. Base offset and partition leader epoch
lie outside the CRC, so stamping them needs no new checksum; everything from the attributes on lies inside it.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator
from typing import Final, NamedTuple

from ottla.protocol.records.compression import Codec, codec_of
from ottla.protocol.records.crc32c import Buffer, crc32c
from ottla.protocol.records.errors import CorruptBatch
from ottla.protocol.records.sequence import increment_sequence

HEADER_BYTES: Final = 61
LOG_OVERHEAD: Final = 12
"""Base offset and batch length: the part that batch_length does not count."""
STAMPED_BYTES: Final = 16
"""Base offset, batch length and leader epoch: what a broker writes anew in front of a batch whose other bytes stay."""
CRC_START: Final = 21
"""Where the bytes that the CRC covers begin: the attributes."""
MAGIC_END: Final = 17
MAGIC_V2: Final = 2
LEGACY_MIN_LENGTH: Final = 14
"""The smallest batch length of any magic: crc, magic, attributes and two empty lengths of a v0 message."""

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
"""What `_make` calls after counting the fields, which a struct need not have counted."""


class BatchHeader(NamedTuple):
    """One batch's header, field for field as on the wire. Of a legacy message (magic 0 or 1) only offset, length, crc and magic are
    known.
    """

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
        """The whole batch: header, records and the twelve bytes that `batch_length` leaves out."""
        return self.batch_length + LOG_OVERHEAD

    @property
    def last_offset(self) -> int:
        """The last offset the batch occupies, whether or not a record with it is still there."""
        return self.base_offset + self.last_offset_delta

    @property
    def next_offset(self) -> int:
        """One past `last_offset`: where the next batch begins."""
        return self.base_offset + self.last_offset_delta + 1

    @property
    def last_sequence(self) -> int:
        """The sequence of the last record, wrapped past 2^31-1; -1 where the batch carries none."""
        first = self.base_sequence
        return NO_SEQUENCE if first == NO_SEQUENCE else increment_sequence(first, self.last_offset_delta)

    @property
    def codec(self) -> Codec:
        """How the records section is compressed. Raises `UnknownCodec` on ids 5 to 7."""
        return codec_of(self.attributes & CODEC_MASK)

    @property
    def is_transactional(self) -> bool:
        """Whether the batch belongs to a transaction (markers included)."""
        return bool(self.attributes & TRANSACTIONAL)

    @property
    def is_control(self) -> bool:
        """Whether the records are control records, which consumers never see."""
        return bool(self.attributes & CONTROL)

    @property
    def is_log_append_time(self) -> bool:
        """Whether `max_timestamp` is the broker's clock and stands for every record's timestamp."""
        return bool(self.attributes & LOG_APPEND_TIME)

    @property
    def has_delete_horizon(self) -> bool:
        """Whether `base_timestamp` is the time from which the cleaner may drop the batch's tombstones and markers (KAFKA-8522)."""
        return bool(self.attributes & DELETE_HORIZON)

    @property
    def has_producer_id(self) -> bool:
        """Whether an idempotent or transactional producer wrote the batch."""
        return self.producer_id > NO_PRODUCER_ID


def read_header(buf: Buffer, pos: int = 0) -> BatchHeader:
    """The header of the batch that starts at `pos`. Raises `CorruptBatch` when fewer than 61 bytes are there. Looks at no rule."""
    try:
        return _new_tuple(BatchHeader, _HEADER.unpack_from(buf, pos))
    except struct.error as e:
        raise CorruptBatch(f"a batch header needs {HEADER_BYTES} bytes, {len(buf) - pos} are there") from e


def split_batches(buf: Buffer, max_batch_length: int | None = None) -> Iterator[tuple[int, BatchHeader]]:
    """Each whole batch of a byte stream as (position, header); a partial batch at the end is left out silently.

    Raises `CorruptBatch` on a length that no batch can have, or one above `max_batch_length`, and on an unknown magic. Nothing beyond the
    header is looked at: not the CRC, not the records. (Kafka: ByteBufferLogInputStream.)
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
    """Whether the batch at `pos` is whole and its bytes have the checksum that its header states."""
    end = pos + header.size_bytes
    return HEADER_BYTES <= header.size_bytes <= len(buf) - pos and crc32c(memoryview(buf)[pos + CRC_START : end]) == header.crc


def stamp(buf: Buffer, base_offset: int, leader_epoch: int) -> tuple[bytes, memoryview]:
    """The one batch in `buf` with a new base offset and leader epoch: (new 16 bytes, untouched rest). The CRC stays valid."""
    return stamped_head(base_offset, _LENGTH.unpack_from(buf, 8)[0], leader_epoch), memoryview(buf)[STAMPED_BYTES:]


def stamped_head(base_offset: int, batch_length: int, leader_epoch: int) -> bytes:
    """The 16 bytes before a batch's magic."""
    return _STAMPED.pack(base_offset, batch_length, leader_epoch)


def pack_header(header: BatchHeader, tail: Buffer) -> bytes:
    """The 61 bytes of `header` before the records section `tail`, with batch length and CRC computed from the bytes (not taken from
    `header`).
    """
    covered = _COVERED.pack(*header[5:])
    crc = crc32c(tail, crc32c(covered))
    length = HEADER_BYTES - LOG_OVERHEAD + len(tail)
    return _BEFORE_CRC.pack(header.base_offset, length, header.partition_leader_epoch, header.magic, crc) + covered


def restamp(buf: Buffer, header: BatchHeader, *, attributes: int, max_timestamp: int) -> tuple[bytes, memoryview]:
    """The one batch in `buf` with other attributes and maximal timestamp and the CRC that goes with them: (new head, untouched tail)."""
    tail = memoryview(buf)[HEADER_BYTES:]
    return pack_header(header._replace(attributes=attributes, max_timestamp=max_timestamp), tail), tail
