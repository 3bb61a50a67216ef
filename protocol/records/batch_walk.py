# cython: language_level=3, boundscheck=False, wraparound=False, initializedcheck=False, cdivision=True, annotation_typing=False
"""Decodes the headers of many batches in one pass into columns (Kafka: ByteBufferLogInputStream, DefaultRecordBatch).

Plain Python is too slow for a log of small batches, so `setup.py` compiles this file with Cython if there is a compiler; the C types are in
`batch_walk.pxd`, and without a compiler the source runs as it is. Rules that hold here:

* The input is never trusted: a length is compared with the remaining bytes before it is used. Only the headers' numbers are copied.
* Results are arrays with one entry a batch, which Arrow and numpy wrap without a copy; their length is counted first, never taken from the
  input.
* The reason why decoding ended is a value (`Headers.stop`), not an exception. CRCs are not checked.
"""

from __future__ import annotations

from array import array
from typing import NamedTuple

HEADER_BYTES = 61
PEEK_BYTES = 17
"""The number of bytes at the start of a batch that show whether it is one: base offset, length, leader epoch and magic."""

MORE = 0
"""A value of `Headers.stop`: no error. The given data, or the requested number of rows, ends here; more batches may follow."""
CUT = 1
"""A value of `Headers.stop`: the file ends inside the next batch."""
BAD_LENGTH = 2
BAD_MAGIC = 3
TOO_LARGE = 4


class Headers(NamedTuple):
    """The decoded headers as arrays with one entry per batch, in the order of the bytes. Positions count from the start of the data.

    For a legacy message (magic 0 or 1) offset, length, magic and crc are read; the other fields describe one record without
    timestamps and producer."""

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
    """Position after the last batch; beyond the data if only its header was in the data."""
    stop: int
    """Why decoding ended at `next_position`: MORE, CUT, or the error in the bytes there (BAD_LENGTH, BAD_MAGIC, TOO_LARGE)."""
    next_length: int
    """The batch length at `next_position`, -1 if the data ends before it."""


class _Bytes:
    """Reads big-endian numbers from a buffer. Only `step` checks that the bytes to be read are in the buffer."""

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
        """Check the header of the batch at `at`; return its length field (the batch's size in bytes less 12). `limit` is the position at
        which the file ends. With `whole`, all bytes of the batch must be in the data, otherwise its header is enough.

        If decoding must end here, return -1 - v, where v is

        - MORE: the data ends before the required bytes, but not at `limit`, so that reading can continue with more data;
        - CUT: `limit` lies inside the batch;
        - BAD_LENGTH: no batch can have the value of the length field;
        - BAD_MAGIC: the magic is not 0, 1 or 2;
        - TOO_LARGE: the length field is above `max_length`.
        """
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


def walk_headers(  # noqa: PLR0917 # the first three arguments are one place; callers name the others
    data: bytes | bytearray | memoryview, start: int, limit: int, rows_max: int, max_length: int, whole: bool
) -> Headers:
    """Decode the headers of at most `rows_max` batches from `start` on.

    `limit` is the position at which the file, or the part of it to read, ends; the data may end before it. With `whole` only batches whose
    bytes are all in the data are returned. Decoding ends at a batch whose length field is above `max_length`. The reason for the end is in
    `Headers.stop`.
    """
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
