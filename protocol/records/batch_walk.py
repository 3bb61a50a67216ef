# cython: language_level=3, boundscheck=False, wraparound=False, initializedcheck=False, cdivision=True, annotation_typing=False
"""The headers of many batches in one pass, as columns (Kafka: ByteBufferLogInputStream, DefaultRecordBatch).

A log of small batches has more headers than plain Python can read in time, so `setup.py` compiles this very file with Cython where there
is a compiler; the C types stand in `batch_walk.pxd`, and without them the source runs as it is. Rules that hold here:

* The input is never trusted: a length is compared with what is left before it is used. Nothing is copied but the headers' numbers.
* Results are arrays that Arrow and numpy wrap without a copy, one entry a batch; their length is counted first, never taken from the input.
* What ends the walk is a verdict, not an exception. Whether a batch's bytes are right (its CRC) is not looked at.
"""

from __future__ import annotations

from array import array
from typing import NamedTuple

HEADER_BYTES = 61
PEEK_BYTES = 17
"""Base offset, length, leader epoch and magic: what tells a batch from other bytes."""

MORE = 0
"""The data, or the number of rows wanted, ends here; a next batch may follow."""
CUT = 1
"""The bytes left before the limit are fewer than the batch that begins here, or than any batch."""
BAD_LENGTH = 2
BAD_MAGIC = 3
TOO_LARGE = 4


class Headers(NamedTuple):
    """One entry a batch, in the order of the bytes. Of a legacy message (magic 0 or 1) offset, length, magic and crc are known, the rest is
    as `split_batches` gives it. Positions count from the start of the data."""

    positions: array[int]
    base_offsets: array[int]
    batch_lengths: array[int]
    leader_epochs: array[int]
    magics: array[int]
    crcs: array[int]
    attributes: array[int]
    last_offset_deltas: array[int]
    base_timestamps: array[int]
    max_timestamps: array[int]
    producer_ids: array[int]
    producer_epochs: array[int]
    base_sequences: array[int]
    record_counts: array[int]
    next_position: int
    """Behind the last batch; beyond the data where only its header was there."""
    stop: int
    """MORE, CUT, or what is wrong with the bytes at `next_position`."""
    next_length: int
    """The batch length that stands at `next_position`, -1 where the data ends before it."""


class _Bytes:
    """Big-endian numbers in a buffer. Nothing here checks a position: `step` does."""

    def __init__(self, data: bytes | bytearray | memoryview) -> None:
        self.data = data
        self.end = len(data)

    def u32(self, at: int) -> int:
        value = self.data[at]
        return ((value * 256 + self.data[at + 1]) * 256 + self.data[at + 2]) * 256 + self.data[at + 3]

    def i32(self, at: int) -> int:
        value = self.u32(at)
        return value if value < 0x80000000 else value - 0x100000000

    def i64(self, at: int) -> int:
        value = self.i32(at)
        return value * 0x100000000 + self.u32(at + 4)

    def i16(self, at: int) -> int:
        value = self.data[at] * 256 + self.data[at + 1]
        return value if value < 0x8000 else value - 0x10000

    def step(self, at: int, limit: int, max_length: int, whole: bool) -> int:
        """The length of the batch at `at`; minus one minus a verdict, where none can be taken."""
        left = self.end - at
        if left < 12:
            return -1 - (CUT if self.end == limit else MORE)
        length = self.i32(at + 8)
        if length < 14:
            return -1 - BAD_LENGTH
        if left < 17:
            return -1 - (CUT if self.end == limit else MORE)
        magic = self.data[at + 16]
        if magic > 2:
            return -1 - BAD_MAGIC
        if magic == 2 and length < 49:
            return -1 - BAD_LENGTH
        if length > limit - at - 12:
            return -1 - CUT
        if length > max_length:
            return -1 - TOO_LARGE
        if (whole and length > left - 12) or (magic == 2 and left < 61):
            return -1 - MORE
        return length


def walk_headers(  # noqa: PLR0917 # the first three are one place; the others are named by callers
    data: bytes | bytearray | memoryview, start: int, limit: int, rows_max: int, max_length: int, whole: bool
) -> Headers:
    """The headers of the batches from `start` on, at most `rows_max`. `limit`: where the file (or the part of it that is read) ends, as a
    position in the data, which may end before. `whole`: only batches that lie in the data with all of their bytes. `max_length`: a longer
    batch ends the walk."""
    source = _Bytes(data)
    at = start
    rows = 0
    length = 0
    while rows < rows_max and at < source.end:
        length = source.step(at, limit, max_length, whole)
        if length < 0:
            break
        at += length + 12
        rows += 1
    stop = -1 - length if length < 0 else MORE
    next_length = source.i32(at + 8) if source.end - at >= 12 else -1
    wide = bytes(8 * rows)
    narrow = bytes(4 * rows)
    short = bytes(2 * rows)
    found = Headers(
        array("q", wide),
        array("q", wide),
        array("i", narrow),
        array("i", narrow),
        array("b", bytes(rows)),
        array("I", narrow),
        array("h", short),
        array("i", narrow),
        array("q", wide),
        array("q", wide),
        array("q", wide),
        array("h", short),
        array("i", narrow),
        array("i", narrow),
        at,
        stop,
        next_length,
    )
    _fill(source, start, rows, found)
    return found


def _fill(source: _Bytes, at: int, rows: int, found: Headers) -> None:
    positions, base_offsets, batch_lengths, leader_epochs, magics, crcs, attributes, last_offset_deltas = found[:8]
    base_timestamps, max_timestamps, producer_ids, producer_epochs, base_sequences, record_counts = found[8:14]
    row = 0
    while row < rows:
        length = source.i32(at + 8)
        positions[row] = at
        base_offsets[row] = source.i64(at)
        batch_lengths[row] = length
        magic = source.data[at + 16]
        magics[row] = magic
        if magic == 2:
            leader_epochs[row] = source.i32(at + 12)
            crcs[row] = source.u32(at + 17)
            attributes[row] = source.i16(at + 21)
            last_offset_deltas[row] = source.i32(at + 23)
            base_timestamps[row] = source.i64(at + 27)
            max_timestamps[row] = source.i64(at + 35)
            producer_ids[row] = source.i64(at + 43)
            producer_epochs[row] = source.i16(at + 51)
            base_sequences[row] = source.i32(at + 53)
            record_counts[row] = source.i32(at + 57)
        else:
            leader_epochs[row] = -1
            crcs[row] = source.u32(at + 12)
            attributes[row] = 0
            last_offset_deltas[row] = 0
            base_timestamps[row] = -1
            max_timestamps[row] = -1
            producer_ids[row] = -1
            producer_epochs[row] = -1
            base_sequences[row] = -1
            record_counts[row] = 1
        at += length + 12
        row += 1
