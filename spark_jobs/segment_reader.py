"""Reads one segment file batch by batch, and goes on behind damage.

Rules that hold here: at most one window of the file, or one batch if that is larger, is in memory; the file is read up to the size it had
when it
was listed, so a broker may write on meanwhile. Damage never ends the reading: the bytes up to the next batch whose CRC is right are
reported as one
`Stop`, and what follows is judged like the rest. Splitting follows Kafka's `ByteBufferLogInputStream`.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import BinaryIO, Final, NamedTuple

from protocol.records.batch import (
    HEADER_BYTES,
    LOG_OVERHEAD,
    MAGIC_END,
    MAGIC_V2,
    BatchHeader,
    crc_ok,
    read_header,
    split_batches,
)
from protocol.records.errors import CorruptBatch
from spark_jobs.log_files import Segment

WINDOW_BYTES: Final = 8 << 20


class RawBatch(NamedTuple):
    """One batch as it lies in the file. `data` is valid only until the next one is asked for; `crc_ok` is None for magic 0 and 1 (not
    checked)."""

    position: int
    header: BatchHeader
    data: memoryview
    crc_ok: bool | None


class Stop(NamedTuple):
    """Bytes that are no batch. `torn`: they end the partition's last segment, as a write that was cut short (or a preallocated file)
    leaves them."""

    position: int
    size_bytes: int
    reason: str
    torn: bool


def read_segment(segment: Segment, window_bytes: int = WINDOW_BYTES) -> Iterator[RawBatch | Stop]:
    """The whole segment in file order. Raises OSError when the file cannot be read."""
    with Path(segment.path).open("rb", buffering=0) as file:
        position, last_offset = 0, -1
        while position < segment.size_bytes:
            window = memoryview(_read_at(file, position, min(window_bytes, segment.size_bytes - position)))
            if not window:
                return
            consumed, damage = 0, ""
            try:
                for at, header in split_batches(window):
                    good = crc_ok(window, header, at) if header.magic == MAGIC_V2 else None
                    if good is False and not _starts_batch(window, at + header.size_bytes):
                        # The length lies outside the CRC: it may be what is damaged, and then it leads nowhere.
                        raise CorruptBatch("wrong CRC, and no batch where its length leads")
                    yield RawBatch(position + at, header, window[at : at + header.size_bytes], good)
                    consumed = at + header.size_bytes
                    if good is not False:
                        last_offset = max(last_offset, header.last_offset)
            except CorruptBatch as e:
                damage = _without_position(e)
            position += consumed
            if damage or not _grows(file, segment, position, window_bytes, consumed):
                stop = _stop(file, segment, position, last_offset, damage)
                yield stop
                position += stop.size_bytes
            elif not consumed:
                window_bytes = _size_at(file, position)


def _without_position(error: CorruptBatch) -> str:
    """The message without "at byte N", which counts from the window and would mislead."""
    return str(error).split(" at byte ", 1)[0]


def _read_at(file: BinaryIO, position: int, size: int) -> bytes:
    file.seek(position)
    return file.read(size)


def _size_at(file: BinaryIO, position: int) -> int:
    return int.from_bytes(_read_at(file, position + 8, 4), "big", signed=True) + LOG_OVERHEAD


def _starts_batch(window: memoryview, at: int) -> bool:
    """Whether a batch may begin at `at`: yes at the window's end, where nobody knows yet."""
    if len(window) - at < MAGIC_END:
        return len(window) >= at
    length = int.from_bytes(window[at + 8 : at + 12], "big", signed=True)
    return length >= HEADER_BYTES - LOG_OVERHEAD and window[at + 16] == MAGIC_V2


def _grows(file: BinaryIO, segment: Segment, position: int, window_bytes: int, consumed: int) -> bool:
    """Whether a further or larger window can give another batch: the one at `position` is whole in the file."""
    left = segment.size_bytes - position
    if left == 0 or (consumed and left > window_bytes):
        return True
    return left >= LOG_OVERHEAD and _size_at(file, position) <= left


def _stop(file: BinaryIO, segment: Segment, position: int, last_offset: int, damage: str) -> Stop:
    """What to report about the bytes at `position`, which are no whole batch."""
    left = segment.size_bytes - position
    resumed = _find_batch(file, position + 1, segment.size_bytes, last_offset)
    if resumed is not None:
        return Stop(position, resumed - position, damage or "a batch longer than the file", torn=False)
    if not segment.is_last:
        return Stop(position, left, damage or "the file ends inside a batch", torn=False)
    if _all_zero(file, position, segment.size_bytes):
        return Stop(position, left, "zero bytes up to the end of the file", torn=True)
    return Stop(position, left, damage or "the file ends inside a batch", torn=not damage)


def _all_zero(file: BinaryIO, position: int, end: int) -> bool:
    while position < end:
        chunk = _read_at(file, position, min(WINDOW_BYTES, end - position))
        if not chunk or chunk.count(0) != len(chunk):
            return not chunk
        position += len(chunk)
    return True


def _find_batch(file: BinaryIO, start: int, end: int, last_offset: int) -> int | None:
    """The position of the first batch from `start` on whose CRC is right and whose base offset is above `last_offset`; None if there is
    none."""
    position = start
    while end - position >= HEADER_BYTES:
        chunk = _read_at(file, position, min(WINDOW_BYTES, end - position))
        if len(chunk) < HEADER_BYTES:
            return None
        magic = chunk.find(MAGIC_V2, MAGIC_END - 1)
        while 0 <= magic <= len(chunk) - HEADER_BYTES + MAGIC_END - 1:
            at = magic - MAGIC_END + 1
            header = read_header(chunk, at)
            fits = HEADER_BYTES <= header.size_bytes <= end - position - at
            if fits and header.base_offset > last_offset and header.record_count >= 0 and not header.attributes >> 7:
                batch = _read_at(file, position + at, header.size_bytes)
                if crc_ok(batch, header):
                    return position + at
            magic = chunk.find(MAGIC_V2, magic + 1)
        position += len(chunk) - HEADER_BYTES + 1
    return None
