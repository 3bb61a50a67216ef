# cython: language_level=3, boundscheck=False, wraparound=False, initializedcheck=False, cdivision=True, annotation_typing=False
"""Checks and decodes the records of a batch in one pass (Kafka: DefaultRecord.readFrom).

Plain Python is too slow here for every produced record, so `setup.py` compiles this file with Cython if there is a compiler; the C types
are in `walk.pxd`, and without a compiler the source runs as it is. Rules that hold here:

* The input is never trusted: every length is compared with the remaining bytes before it is used, and a record must end where it says.
* Only `Filler`, `header_columns` and `renumber` copy bytes: other results are numbers and positions in the input. Output arrays take 8
  bytes a record and column, and the record count is compared with the size of the input first (a record takes at least seven bytes).
* Integers are 64 bits wide in the compiled form: values outside that range are rejected, so that both forms agree.
* `scan` and `Filler` report an invalid record as a value; `columns`, `header_columns`, `find_timestamp` and `renumber` raise
  `InvalidRecord`.
"""

from __future__ import annotations

from array import array
from collections.abc import Sequence
from time import sleep
from typing import Any, NamedTuple

from ottla.protocol.records.errors import InvalidRecord

Writable = Any
"""A writable buffer of numbers: an array, a bytearray, a numpy array. (There is no common type before Python 3.12.)"""

MIN_RECORD_BYTES = 7
"""The size of an empty record: length, attributes, two deltas, two null lengths and a header count, one byte each."""

RENUMBERED_GROWTH_BYTES = 8
"""The most bytes by which `renumber` lengthens a record: its offset delta and its length may then take five bytes each instead of one."""

_SHARED_EVERY = 0xFFFF
"""A mask for the index of a record: after every 65,536 records, compiled code releases the GIL, so that other threads can run."""

_SHARED_HEADERS = 1 << 19
"""Compiled code also releases the GIL after so many headers, which take 2 ms. A section that the event loop checks itself
(`limits.CHECKED_AT_ONCE_BYTES`) has fewer."""

_INT64_MAX = 2**63 - 1
_UINT64_MAX = 2**64 - 1
_UINT32_MAX = 2**32 - 1

_REASONS = (
    "",
    "a varint is truncated or too long",
    "the record's length is unreadable, negative or exceeds the batch",
    "the key exceeds the record",
    "the value exceeds the record",
    "the header count is negative or exceeds the record",
    "a header's key is null or exceeds the record",
    "a header's value exceeds the record",
    "the record's length is not the length of its fields",
    "the timestamp or offset leaves the range of 64 bits",
    "fewer records than the batch's record count",
    "bytes are left over after the last record",
)


class Scan(NamedTuple):
    """The result of one pass over all records of a batch.

    `first_bad_index` is the index of the first invalid record, the record count if bytes follow the last record, or -1 if all is valid. If
    there is an invalid record, the other fields describe the records before it. Timestamps of -1 (none) count for `max_timestamp`, not for
    `min_timestamp`.
    """

    max_timestamp: int
    index_of_max_timestamp: int
    offset_of_max_timestamp: int
    """Offset delta of the first record with `max_timestamp`; -1 without records."""
    min_timestamp: int
    first_null_key: int
    """Index of the first record without a key, else -1."""
    sequential: bool
    """Whether each offset delta equals the record's index."""
    first_bad_index: int
    reason: str


class Columns(NamedTuple):
    """The records of one batch as arrays with one entry a record; a length of -1 is null. Positions count from the start of the
    decompressed bytes.
    """

    offsets: array[int]
    timestamps: array[int]
    key_starts: array[int]
    key_lengths: array[int]
    value_starts: array[int]
    value_lengths: array[int]
    header_starts: array[int]
    """Position of the record's first header, after the header count."""
    header_counts: array[int]
    record_starts: array[int]
    """Position of the record itself, beginning with its length; it ends where the next begins."""


class HeaderColumns(NamedTuple):
    """The headers of all records of some batches, as buffers of Arrow arrays: item i + 1 of `record_ends` is the number of headers of the
    records up to record i, item i + 1 of `key_ends` the end of the key of header i in `keys`; each of these arrays begins with a 0."""

    record_ends: array[int]
    key_ends: array[int]
    keys: bytearray
    value_ends: array[int]
    values: bytearray
    value_present: bytearray
    """A byte per header: 0 if its value is null, else 1."""


class _Cursor:
    """A reader of a records section: its position, and the fields of the record decoded last. After an invalid varint the position is
    beyond `end`."""

    def __init__(self, data: bytes | bytearray | memoryview) -> None:
        self.data = data
        self.pos = 0
        self.end = len(data)
        self.timestamp_delta = 0
        self.offset_delta = 0
        self.rest_start = 0
        self.key_start = 0
        self.key_length = 0
        self.value_start = 0
        self.value_length = 0
        self.header_start = 0
        self.header_count = 0
        self.unshared_headers = 0
        """The number of headers that were decoded since the GIL was released for headers."""

    def varint(self, last_shift: int) -> int:
        """Decode a zigzag varint; `last_shift` is 28 for a value of 32 bits, 63 for 64 bits. For an invalid varint return 0 and set the
        position beyond `end`."""
        pos = self.pos
        end = self.end
        if pos < end:
            byte = self.data[pos]
            if byte < 0x80:
                self.pos = pos + 1
                return (byte >> 1) ^ -(byte & 1)
        raw = 0
        shift = 0
        while pos < end and shift <= last_shift:
            wide = self.data[pos]
            pos += 1
            raw |= (wide & 0x7F) << shift
            if wide < 0x80:
                self.pos = pos
                # As in Java, drop the bits of the last byte beyond the type's width.
                raw &= _UINT32_MAX if last_shift == 28 else _UINT64_MAX
                half = raw >> 1
                return ~half if raw & 1 else half
            shift += 7
        self.pos = end + 1
        return 0

    def next(self) -> int:
        """Decode the next record into this object's fields. Return 0, or for an invalid record a positive number that stands for the reason
        (an index in `_REASONS`)."""
        batch_end = self.end
        length = self.varint(28)
        if length < 0 or length > batch_end - self.pos:
            return 2
        limit = self.pos + length
        self.end = limit
        self.pos += 1
        self.timestamp_delta = self.varint(63)
        self.offset_delta = self.varint(28)
        self.rest_start = self.pos
        self.key_length = self.varint(28)
        self.key_start = self.pos
        if self.key_length > 0:
            if self.key_length > limit - self.pos:
                return 3
            self.pos += self.key_length
        self.value_length = self.varint(28)
        self.value_start = self.pos
        if self.value_length > 0:
            if self.value_length > limit - self.pos:
                return 4
            self.pos += self.value_length
        self.header_count = self.varint(28)
        self.header_start = self.pos
        if self.header_count != 0:
            why = self.skip_headers(limit)
            if why != 0:
                return why
        self.end = batch_end
        if self.pos == limit:
            return 0
        return 1 if self.pos > limit else 8

    def skip_headers(self, limit: int) -> int:
        """Skip the `header_count` headers of a record that ends at the position `limit`. Return 0, or for an invalid header a positive
        number that stands for the reason (an index in `_REASONS`)."""
        left = self.header_count
        if left < 0 or left > limit - self.pos:
            return 5
        why = 0
        while left > 0 and why == 0:
            count = min(left, _SHARED_HEADERS)
            why = self.skip_some_headers(count, limit)
            left -= count
            self.unshared_headers += count
            if self.unshared_headers >= _SHARED_HEADERS:
                self.unshared_headers = 0
                sleep(0)
        return why

    def skip_some_headers(self, left: int, limit: int) -> int:
        """Skip `left` headers like `skip_headers`, which calls this for a limited number of them: a call of Python in this loop would
        double its time."""
        while left > 0 and self.pos <= limit:
            length = self.varint(28)
            if length < 0 or length > limit - self.pos:
                return 6
            self.pos += length
            length = self.varint(28)
            if length > 0:
                if length > limit - self.pos:
                    return 7
                self.pos += length
            left -= 1
        return 0


def _leaves_range(base: int, delta: int) -> bool:
    return base > _INT64_MAX - delta if delta > 0 else base < -_INT64_MAX - 1 - delta


def scan(data: bytes | bytearray | memoryview, record_count: int, base_timestamp: int) -> Scan:
    """Check the structure of all `record_count` records in `data`, which must contain nothing else. Never raises because of the data."""
    cursor = _Cursor(data)
    newest = -1
    newest_index = -1
    newest_offset = -1
    oldest = _INT64_MAX
    null_key = -1
    sequential = True
    index = 0
    bad = 0
    while index < record_count:
        if cursor.pos == cursor.end:
            bad = 10
            break
        bad = cursor.next()
        if bad == 0 and _leaves_range(base_timestamp, cursor.timestamp_delta):
            bad = 9
        if bad != 0:
            break
        timestamp = base_timestamp + cursor.timestamp_delta
        if timestamp > newest or index == 0:
            newest = timestamp
            newest_index = index
            newest_offset = cursor.offset_delta
        if timestamp < oldest and timestamp != -1:
            oldest = timestamp
        if cursor.key_length < 0 and null_key < 0:
            null_key = index
        if cursor.offset_delta != index:
            sequential = False
        index += 1
        if index & _SHARED_EVERY == 0:
            sleep(0)
    if bad == 0 and cursor.pos != cursor.end:
        bad = 11
    if oldest == _INT64_MAX:
        oldest = -1
    return Scan(newest, newest_index, newest_offset, oldest, null_key, sequential, -1 if bad == 0 else index, _REASONS[bad])


def columns(data: bytes | bytearray | memoryview, record_count: int, base_offset: int, base_timestamp: int) -> Columns:
    """Decode all records of a decompressed records section into arrays: offsets and timestamps as 64-bit numbers, positions and lengths as
    32-bit numbers. Arrow and numpy can wrap the arrays without a copy.

    Raises `InvalidRecord` for an impossible record count and for an invalid record.
    """
    if record_count < 0 or record_count > len(data) // MIN_RECORD_BYTES:
        raise InvalidRecord(f"{record_count} records cannot be in {len(data)} bytes")
    wide = bytes(8 * record_count)
    narrow = bytes(4 * record_count)
    found = Columns(array("q", wide), array("q", wide), *[array("i", narrow) for _ in range(7)])
    cursor = _Cursor(data)
    offsets, timestamps, key_starts, key_lengths, value_starts, value_lengths, header_starts, header_counts, record_starts = found
    index = 0
    bad = 0
    while index < record_count:
        record_starts[index] = cursor.pos
        bad = 10 if cursor.pos == cursor.end else cursor.next()
        if bad == 0 and (_leaves_range(base_timestamp, cursor.timestamp_delta) or _leaves_range(base_offset, cursor.offset_delta)):
            bad = 9
        if bad != 0:
            break
        offsets[index] = base_offset + cursor.offset_delta
        timestamps[index] = base_timestamp + cursor.timestamp_delta
        key_starts[index] = cursor.key_start
        key_lengths[index] = cursor.key_length if cursor.key_length >= 0 else -1
        value_starts[index] = cursor.value_start
        value_lengths[index] = cursor.value_length if cursor.value_length >= 0 else -1
        header_starts[index] = cursor.header_start
        header_counts[index] = cursor.header_count
        index += 1
        if index & _SHARED_EVERY == 0:
            sleep(0)
    if bad == 0 and cursor.pos != cursor.end:
        bad = 11
    if bad != 0:
        raise InvalidRecord(f"record {index}: {_REASONS[bad]}")
    return found


def header_columns(sections: Sequence[bytes | bytearray | memoryview], record_counts: Sequence[int]) -> HeaderColumns:
    """Copy the headers of all records in some decompressed records sections. `record_counts` are the sections' record counts.

    Raises `InvalidRecord` for an impossible record count and for an invalid record.
    """
    size = rows = 0
    for data, record_count in zip(sections, record_counts, strict=True):
        if record_count < 0 or record_count > len(data) // MIN_RECORD_BYTES:
            raise InvalidRecord(f"{record_count} records cannot be in {len(data)} bytes")
        size += len(data)
        rows += record_count
    record_ends = array("i", bytes(4 * (rows + 1)))
    ends = record_ends
    row = count = 0
    for data, record_count in zip(sections, record_counts, strict=True):
        cursor = _Cursor(data)
        end = row + record_count
        while row < end:
            bad = 10 if cursor.pos == cursor.end else cursor.next()
            if bad != 0:
                raise InvalidRecord(f"record {row - end + record_count}: {_REASONS[bad]}")
            count += cursor.header_count
            row += 1
            ends[row] = count
    filler = _HeaderFiller(count, size)
    for data, record_count in zip(sections, record_counts, strict=True):
        cursor = _Cursor(data)
        while record_count > 0:
            cursor.next()
            filler.record(cursor)
            record_count -= 1  # noqa: PLW2901 # counts down in place, as compiled code does
    return HeaderColumns(record_ends, filler.key_ends, filler.keys, filler.value_ends, filler.values, filler.value_present)


class _HeaderFiller:
    """Copies headers one after the other into buffers for `count` headers, which have at most `size` bytes. The caller ensures that they
    fit."""

    def __init__(self, count: int, size: int) -> None:
        self.key_ends = array("i", bytes(4 * (count + 1)))
        self.keys = bytearray(size)
        self.value_ends = array("i", bytes(4 * (count + 1)))
        self.values = bytearray(size)
        self.value_present = bytearray(count)
        self.key_ends_view, self.keys_view = self.key_ends, self.keys
        self.value_ends_view, self.values_view, self.present_view = self.value_ends, self.values, self.value_present
        self.at = 0
        self.key_at = 0
        self.value_at = 0

    def record(self, cursor: _Cursor) -> None:
        """Copy the headers of the valid record that the cursor has decoded."""
        at, key_at, value_at = self.at, self.key_at, self.value_at
        cursor.pos = cursor.header_start
        end = at + cursor.header_count
        while at < end:
            length = cursor.varint(28)
            pos = cursor.pos
            cursor.pos += length
            while length > 0:
                self.keys_view[key_at] = cursor.data[pos]
                key_at += 1
                pos += 1
                length -= 1
            length = cursor.varint(28)
            self.present_view[at] = length >= 0
            pos = cursor.pos
            while length > 0:
                self.values_view[value_at] = cursor.data[pos]
                value_at += 1
                pos += 1
                length -= 1
            cursor.pos = pos
            at += 1
            self.key_ends_view[at] = key_at
            self.value_ends_view[at] = value_at
        self.at, self.key_at, self.value_at = at, key_at, value_at


def find_timestamp(  # noqa: PLR0917 # the first three arguments are those of `scan`
    data: bytes | bytearray | memoryview, record_count: int, base_timestamp: int, oldest: int, newest: int, from_delta: int
) -> tuple[int, int] | None:
    """Return (offset delta, timestamp) of the first record whose timestamp is in [oldest, newest] and whose offset delta is at least
    `from_delta`; None if there is none. Raises `InvalidRecord` for an invalid record before it.
    """
    cursor = _Cursor(data)
    index = 0
    while index < record_count:
        bad = 10 if cursor.pos == cursor.end else cursor.next()
        if bad == 0 and _leaves_range(base_timestamp, cursor.timestamp_delta):
            bad = 9
        if bad != 0:
            raise InvalidRecord(f"record {index}: {_REASONS[bad]}")
        timestamp = base_timestamp + cursor.timestamp_delta
        if oldest <= timestamp <= newest and cursor.offset_delta >= from_delta:
            return cursor.offset_delta, timestamp
        index += 1
        if index & _SHARED_EVERY == 0:
            sleep(0)
    return None


def renumber(data: bytes | bytearray | memoryview, record_count: int) -> memoryview:
    """Return the records of a section with offset deltas 0, 1, 2, … and attributes of 0; the other fields keep their bytes.

    Raises `InvalidRecord` for an impossible record count and for an invalid record.
    """
    size = len(data)
    if record_count < 0 or record_count > size // MIN_RECORD_BYTES:
        raise InvalidRecord(f"{record_count} records cannot be in {size} bytes")
    made = _Maker(size + RENUMBERED_GROWTH_BYTES * record_count)
    cursor = _Cursor(data)
    index = 0
    bad = 0
    while index < record_count:
        bad = 10 if cursor.pos == cursor.end else cursor.next()
        if bad != 0:
            break
        made.record(cursor, index)
        index += 1
        if index & _SHARED_EVERY == 0:
            sleep(0)
    if bad == 0 and cursor.pos != cursor.end:
        bad = 11
    if bad != 0:
        raise InvalidRecord(f"record {index}: {_REASONS[bad]}")
    return memoryview(made.out)[: made.at]


class _Maker:
    """Writes renumbered records one after the other into a buffer of `room` bytes. The caller ensures that they fit."""

    def __init__(self, room: int) -> None:
        self.out = bytearray(room)
        self.view = memoryview(self.out)
        self.at = 0

    def record(self, cursor: _Cursor, offset_delta: int) -> None:
        """Write the record that the cursor has decoded, with the offset delta `offset_delta`."""
        timestamp_delta = cursor.timestamp_delta
        start = cursor.rest_start
        end = cursor.pos
        self.varint(1 + self.width(timestamp_delta) + self.width(offset_delta) + end - start)
        self.view[self.at] = 0
        self.at += 1
        self.varint(timestamp_delta)
        self.varint(offset_delta)
        at = self.at
        while start < end:
            self.view[at] = cursor.data[start]
            at += 1
            start += 1
        self.at = at

    def varint(self, value: int) -> None:
        """Write `value` as a zigzag varint into the buffer."""
        raw = (value << 1) ^ (value >> 63)
        while raw >= 0x80:
            self.view[self.at] = raw & 0x7F | 0x80
            self.at += 1
            raw >>= 7
        self.view[self.at] = raw
        self.at += 1

    def width(self, value: int) -> int:
        """Return the number of bytes of `value` as a zigzag varint."""
        raw = (value << 1) ^ (value >> 63)
        size = 1
        while raw >= 0x80:
            size += 1
            raw >>= 7
        return size


class Filler:
    """Copies the records of many batches into buffers of the caller, which become Arrow columns.

    The buffers must be large enough for all calls of `add`:

    - `offsets`, `timestamps`, `key_present`, `value_present`: an item per record (n bytes are at most n // MIN_RECORD_BYTES records).
    - `keys`, `values`: as many bytes as all decompressed records have. Pass empty buffers if keys or values are not needed.
    - `key_ends`, `value_ends`: an item more than there are records, the first of them 0; empty if keys or values are not needed.
    """

    def __init__(  # noqa: PLR0917 # eight columns, named by the caller
        self,
        offsets: Writable,
        timestamps: Writable,
        key_ends: Writable,
        keys: Writable,
        key_present: Writable,
        value_ends: Writable,
        values: Writable,
        value_present: Writable,
    ) -> None:
        self.offsets = offsets
        self.timestamps = timestamps
        self.key_ends = key_ends
        self.keys = keys
        self.key_present = key_present
        self.value_ends = value_ends
        self.values = values
        self.value_present = value_present
        self.with_keys = len(key_ends) > 0
        self.with_values = len(value_ends) > 0
        self.rows = 0
        self.key_at = 0
        self.value_at = 0

    def add(self, data: bytes | bytearray | memoryview, record_count: int, base_offset: int, base_timestamp: int) -> str:
        """Append all records of one decompressed records section and return "". If a record is invalid, append none and return the reason.

        Raises `InvalidRecord` for an impossible record count, ValueError if the buffers are too small.
        """
        size = len(data)
        if record_count < 0 or record_count > size // MIN_RECORD_BYTES:
            raise InvalidRecord(f"{record_count} records cannot be in {size} bytes")
        self.check_room(record_count, size)
        cursor = _Cursor(data)
        row, key_at, value_at = self.rows, self.key_at, self.value_at
        end = row + record_count
        bad = 0
        while row < end:
            bad = 10 if cursor.pos == cursor.end else cursor.next()
            if bad == 0 and (_leaves_range(base_timestamp, cursor.timestamp_delta) or _leaves_range(base_offset, cursor.offset_delta)):
                bad = 9
            if bad != 0:
                break
            self.offsets[row] = base_offset + cursor.offset_delta
            self.timestamps[row] = base_timestamp + cursor.timestamp_delta
            if self.with_keys:
                key_at = self.copy(cursor, cursor.key_start, cursor.key_length, key_at, False)
                self.key_present[row] = cursor.key_length >= 0
                self.key_ends[row + 1] = key_at
            if self.with_values:
                value_at = self.copy(cursor, cursor.value_start, cursor.value_length, value_at, True)
                self.value_present[row] = cursor.value_length >= 0
                self.value_ends[row + 1] = value_at
            row += 1
        if bad == 0 and cursor.pos != cursor.end:
            bad = 11
        if bad == 0:
            self.rows, self.key_at, self.value_at = row, key_at, value_at
        return _REASONS[bad]

    def check_room(self, record_count: int, size: int) -> None:
        """Raise ValueError if `record_count` more records, of `size` bytes in total, might not fit in the buffers."""
        rows = self.rows + record_count
        if rows > len(self.offsets) or rows > len(self.timestamps):
            raise ValueError(f"no room for {rows} records")
        if self.with_keys and (rows >= len(self.key_ends) or rows > len(self.key_present) or self.key_at + size > len(self.keys)):
            raise ValueError(f"no room for the keys of {rows} records")
        if self.with_values and (rows >= len(self.value_ends) or rows > len(self.value_present) or self.value_at + size > len(self.values)):
            raise ValueError(f"no room for the values of {rows} records")

    def copy(self, cursor: _Cursor, start: int, length: int, at: int, into_values: bool) -> int:
        """Copy a key, or with `into_values` a value, into the output buffer at position `at`; return the position after it."""
        i = 0
        if into_values:
            while i < length:
                self.values[at + i] = cursor.data[start + i]
                i += 1
        else:
            while i < length:
                self.keys[at + i] = cursor.data[start + i]
                i += 1
        return at + i
