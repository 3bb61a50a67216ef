"""Reads a part of a segment file as runs of batches, and continues after damage.

Invariants:
- At most WINDOW_BYTES of the file are in memory, or one batch if it is larger.
- The file is read up to its size when it was listed, so a broker may append meanwhile.
- Damage never ends the reading: the bytes up to the next batch with a correct CRC are reported as one `Stop`, and reading continues there.
- A part that begins at a batch gives the same items as reading from the start of the file would give from there on.
- Bytes are split into batches like in Kafka's `ByteBufferLogInputStream`.
"""

from __future__ import annotations

import zlib
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from typing import Final, NamedTuple, Protocol

import numpy as np

from ottla.protocol.records.batch import CRC_START, HEADER_BYTES, LOG_OVERHEAD, MAGIC_END, MAGIC_V2, BatchHeader, crc_ok, read_header
from ottla.protocol.records.batch_walk import BAD_LENGTH, BAD_MAGIC, CUT, MORE, PEEK_BYTES, TOO_LARGE, Headers, walk_headers
from ottla.protocol.records.compression import Codec
from ottla.protocol.records.crc32c import crc32c
from ottla.protocol.records.errors import BatchTooLarge
from ottla.protocol.records.record import records_section
from ottla.protocol.wire import Buffer
from ottla.spark_jobs.filesystem import place
from ottla.spark_jobs.log_directory import Segment

WINDOW_BYTES: Final = 4 << 20
"""How many bytes are read at a time: few enough for the processor's cache, enough to amortise an object store's round trips."""
BATCH_BYTES_MAX: Final = 256 << 20
"""Maximum size of a batch that is read. It is far above any message.max.bytes, and bounds the memory that a damaged length field can
claim."""
RECORDS_MAX: Final = 1_000_000
"""Maximum record count of a compressed batch, the same as in the broker: 9,000,000 empty records compress to a few kilobytes and take
25 s to judge."""
ROWS_MAX: Final = 1 << 16
AFTER_DAMAGE_BYTES: Final = 16 << 10
"""How many bytes are read at first after damage, because the next damage may be near."""
SEARCH_BYTES: Final = 256 << 20
SEARCH_TIMES: Final = 64
CANDIDATE_BYTES: Final = 4096
"""Limits the search for batches after damage. In one part of a segment, the search may compute checksums over SEARCH_BYTES bytes plus
SEARCH_TIMES times the part's size, where each possible header counts as CANDIDATE_BYTES more, because it takes as long; random bytes need
half of that. Without the limit, crafted bytes (a header every 61 bytes, each claiming a batch up to the file's end) would keep the search
of one segment busy for days."""
JUMP_BYTES: Final = 1 << 20
"""If batches are longer than so many bytes on average, and only their headers are needed, the reader skips the bytes between the headers.
For shorter batches, sequential reads are faster."""


@dataclass(frozen=True, slots=True)
class Part:
    """A byte range of a segment, which one task reads. It begins at a batch, and ends at a batch or at the end of the file."""

    segment: Segment
    start: int
    end: int

    @property
    def ends_log(self) -> bool:
        """Whether the partition's log ends at the end of this part."""
        return self.segment.is_last and self.end == self.segment.size_bytes


def open_records(batch: memoryview, header: BatchHeader) -> Buffer:
    """Return the uncompressed records of a batch with a correct CRC.

    Raises RecordsError; raises BatchTooLarge for a batch that no broker accepts: one that decompresses to more than 64 MiB, or has more
    than RECORDS_MAX compressed records.
    """
    if header.codec is not Codec.NONE and header.record_count > RECORDS_MAX:
        raise BatchTooLarge(f"{header.codec.name.lower()}: {header.record_count} records, more than {RECORDS_MAX}")
    return records_section(batch, header)


class Run(NamedTuple):
    """Adjacent batches that were read together. `data` has the whole batches or, if the reader was opened without `bodies`, at least their
    headers; its first byte is at `position` in the file. The reader reuses the buffer behind `data` for the next run. The positions in
    `headers` are relative to `data`."""

    position: int
    data: memoryview
    headers: Headers

    @property
    def rows(self) -> int:
        """The number of batches in the run."""
        return len(self.headers.positions)

    def batch(self, row: int) -> memoryview:
        """Return the bytes of the run's batch number `row`."""
        at = self.headers.positions[row]
        return self.data[at : at + self.headers.batch_lengths[row] + LOG_OVERHEAD]


class Stop(NamedTuple):
    """A range of a segment's bytes that is not a batch, and the reason. `torn`: the bytes are no damage, because an interrupted write or
    preallocation left them at the end of the partition's last segment, or because retention deleted the segment (then `size_bytes` is 0).
    """

    position: int
    size_bytes: int
    reason: str
    torn: bool


def whole(segment: Segment) -> Part:
    """Return a part that covers the whole segment."""
    return Part(segment, 0, segment.size_bytes)


def crc_matches(run: Run, rows: Iterable[int]) -> list[bool]:
    """Return for each of the run's batches in `rows` whether its bytes have the checksum in its header. The run must hold batches whole."""
    data, head = run.data, run.headers
    positions, lengths, crcs, magics = head.positions, head.batch_lengths, head.crcs, head.magics
    return [
        crc32c(data[positions[row] + CRC_START : positions[row] + lengths[row] + LOG_OVERHEAD]) == crcs[row]
        if magics[row] == MAGIC_V2
        else _message_crc(run.batch(row)) == crcs[row]
        for row in rows
    ]


def _message_crc(message: memoryview | bytes) -> int:
    """Compute the CRC-32 of a message in the formats before v2: from its magic to its end (Kafka's LegacyRecord.computeChecksum)."""
    return zlib.crc32(message[MAGIC_END - 1 :])


def file_runs(part: Part, *, bodies: bool = True, window_bytes: int = WINDOW_BYTES) -> Iterator[Run | Stop]:
    """Read a part of a segment file. Yield its batches as runs (several adjacent batches at once), and a `Stop` for each range of bytes
    that is not a batch, in file order. `bodies`: read batches whole, not only their headers. Raises OSError when the file cannot be read.
    """
    try:
        opened = place(part.segment.log_dir).open(part.segment.path)
    except FileNotFoundError:
        yield Stop(part.start, 0, "the segment was removed since it was listed", torn=True)
        return
    with opened as file:
        yield from _Reader(file, part, bodies, window_bytes).items()


def runs_of(data: memoryview, segment: Segment) -> Iterator[Run | Stop]:
    """Split bytes of a log into batches. Yield whole batches as runs (several adjacent batches at once), and a `Stop` for each range of
    bytes that is not a batch. `data` is treated as a part inside the log: a partial batch at its end is damage, not an interrupted write.
    """
    part = Part(replace(segment, is_last=False), 0, len(data))
    return _InMemoryReader(data, part).items()


class _Source(Protocol):
    """The interface that `_Reader` needs of an open file. `_InMemory` implements it for bytes in memory."""

    def read_at(self, position: int, size: int) -> bytes: ...

    def read_into(self, position: int, buffer: memoryview) -> int: ...


class _InMemory:
    """Bytes in memory with the methods of a file that `_Reader` calls."""

    def __init__(self, data: memoryview) -> None:
        self._data = data

    def read_at(self, position: int, size: int) -> bytes:
        return bytes(self._data[position : position + size])

    def read_into(self, position: int, buffer: memoryview) -> int:
        found = self._data[position : position + len(buffer)]
        buffer[: len(found)] = found
        return len(found)


class _Reader:
    """Reads one part of a segment file once, from its beginning to its end, and yields its batches."""

    def __init__(self, file: _Source, part: Part, bodies: bool, window_bytes: int) -> None:
        self._file = file
        self._part = part
        self._end = part.end
        self._bodies = bodies
        self._window_bytes = max(window_bytes, PEEK_BYTES)
        self._buffer = bytearray()
        self._last: tuple[int, int, int] | None = None
        """(position in the file, size in bytes, last offset) of the batch that was read last; None at the start."""
        self._search_left = SEARCH_BYTES + SEARCH_TIMES * (part.end - part.start)

    def items(self) -> Iterator[Run | Stop]:
        position, size = self._part.start, self._window_bytes
        while position < self._end:
            data = self._read(position, size)
            limit = self._end - position
            run = Run(position, data, walk_headers(data, 0, limit, ROWS_MAX, BATCH_BYTES_MAX, self._bodies))
            verdict = self._verdict(run, limit)
            reason = _REASONS[verdict]
            if reason and run.rows and not self._leads_to_batch(run, verdict) and not self._is_right(*self._place(run)):
                # The CRC does not cover the length field. If the length is damaged, no batch begins right after the batch's apparent end.
                reason = "wrong CRC, and no batch where its length leads"
                run = Run(position, data, walk_headers(data, 0, limit, run.rows - 1, BATCH_BYTES_MAX, self._bodies))
            if run.rows:
                last = run.headers.base_offsets[-1] + run.headers.last_offset_deltas[-1]
                self._last = (*self._place(run), last)
                yield run
            position += run.headers.next_position
            size = self._next_size(run)
            if reason:
                stop = self._stop(position, reason)
                yield stop
                position += stop.size_bytes
                size = min(self._window_bytes, AFTER_DAMAGE_BYTES)

    def _read(self, position: int, size: int) -> memoryview:
        size = min(size, self._end - position)
        if size > len(self._buffer):
            self._buffer = bytearray(size)
        buffer = memoryview(self._buffer)[:size]
        count = self._file.read_into(position, buffer)
        if count < size:  # the file was truncated since it was listed
            self._end = position + count
        return buffer[:count].toreadonly()

    def _next_size(self, run: Run) -> int:
        """Return how many bytes to read next: more if a batch did not fit into the last read, few if only headers are read and they are far
        apart."""
        if run.rows == 0:
            return max(self._window_bytes, run.headers.next_length + LOG_OVERHEAD + PEEK_BYTES if self._bodies else HEADER_BYTES)
        if not self._bodies and run.headers.next_position // run.rows > JUMP_BYTES:
            return max(HEADER_BYTES, 4096)
        return self._window_bytes

    def _verdict(self, run: Run, limit: int) -> int:
        """Return the code of the reason why the run ended (MORE, CUT, BAD_LENGTH, …). If the bytes in memory end within the next batch
        header, that header's first bytes are read from the file to decide."""
        at = run.headers.next_position
        if run.headers.stop != MORE or at == 0 or at >= limit or len(run.data) - at >= PEEK_BYTES:
            return run.headers.stop
        peek = self._file.read_at(run.position + at, PEEK_BYTES)
        ahead = walk_headers(peek, 0, limit - at, 1, BATCH_BYTES_MAX, False)
        return ahead.stop if ahead.stop in {BAD_LENGTH, BAD_MAGIC} else MORE

    def _leads_to_batch(self, run: Run, verdict: int) -> bool:
        """Return whether a batch seems to begin right after the run: its magic is 2, or the file ends before its magic."""
        magic = self._file.read_at(run.position + run.headers.next_position + MAGIC_END - 1, 1)
        return verdict not in {BAD_LENGTH, BAD_MAGIC} and magic in {b"", bytes([MAGIC_V2])}

    def _place(self, run: Run) -> tuple[int, int]:
        """Return (position in the file, size in bytes) of a run's last batch."""
        return run.position + run.headers.positions[-1], run.headers.batch_lengths[-1] + LOG_OVERHEAD

    def _is_right(self, position: int, size: int) -> bool:
        """Return whether the `size` bytes at `position` are a batch, or a message of an older format, with a correct CRC."""
        data = self._file.read_at(position, size)
        if data[MAGIC_END - 1] != MAGIC_V2:
            return _message_crc(data) == int.from_bytes(data[MAGIC_END - 5 : MAGIC_END - 1], "big")
        return crc_ok(data, read_header(data))

    def _stop(self, position: int, reason: str) -> Stop:
        """Return the `Stop` for the bytes from `position`, where no whole batch begins, to the next batch."""
        part = self._part
        left = self._end - position
        trusted = self._last is not None and self._is_right(*self._last[:2])
        resumed = self._find_batch(position + 1, self._last[2] if self._last is not None and trusted else -1)
        if resumed is not None:
            return Stop(position, resumed - position, _LONGER if reason == _REASONS[CUT] else reason, torn=False)
        if self._search_left < 0:
            return Stop(position, left, f"{reason}; the search for batches behind it was given up", torn=False)
        if part.ends_log and self._all_zero(position):
            return Stop(position, left, "zero bytes up to the end of the file", torn=True)
        if reason == _REASONS[CUT] and self._is_whole_but_for_its_length(position, left):
            return Stop(position, left, _LONGER, torn=False)
        return Stop(position, left, reason, torn=part.ends_log and reason == _REASONS[CUT])

    def _is_whole_but_for_its_length(self, position: int, left: int) -> bool:
        """Return whether the remaining `left` bytes from `position` on are exactly one batch with a correct CRC. Then only the batch's
        length field is damaged, and the bytes are not a torn write."""
        if not HEADER_BYTES <= left <= BATCH_BYTES_MAX:
            return False
        data = self._file.read_at(position, left)
        return data[MAGIC_END - 1] == MAGIC_V2 and crc32c(data[CRC_START:]) == read_header(data).crc

    def _all_zero(self, position: int) -> bool:
        while position < self._end:
            chunk = self._file.read_at(position, min(WINDOW_BYTES, self._end - position))
            if not chunk or chunk.count(0) != len(chunk):
                return not chunk
            position += len(chunk)
        return True

    def _find_batch(self, position: int, last_offset: int) -> int | None:
        """Return the position of the first batch at or after `position` with a correct CRC and a base offset above `last_offset`. Return
        None if there is none, or if the search exceeds its limit (see SEARCH_TIMES)."""
        end, size = self._end, AFTER_DAMAGE_BYTES
        while end - position >= HEADER_BYTES:
            chunk = self._file.read_at(position, min(size, end - position))
            size = min(2 * size, WINDOW_BYTES)
            if len(chunk) < HEADER_BYTES:
                return None
            for at in _candidates(chunk, last_offset):
                header = read_header(chunk, at)
                if header.size_bytes > end - position - at:
                    continue
                self._search_left -= header.size_bytes + CANDIDATE_BYTES
                if self._search_left < 0:
                    return None
                whole_here = at + header.size_bytes <= len(chunk)
                batch = (
                    memoryview(chunk)[at : at + header.size_bytes] if whole_here else self._file.read_at(position + at, header.size_bytes)
                )
                if crc_ok(batch, header):
                    return position + at
            position += len(chunk) - HEADER_BYTES + 1
        return None


def _candidates(chunk: bytes, last_offset: int) -> list[int]:
    """Return the positions in `chunk` at which a batch header of v2 could begin: with a size and attributes that a batch can have, a record
    count that is not negative, and a base offset above `last_offset`. numpy compares them, because other bytes can have such a magic in
    every place: 4 MiB of 0x02 took 5 s."""
    raw = np.frombuffer(chunk, np.uint8)
    found = np.flatnonzero(raw[MAGIC_END - 1 : len(chunk) - HEADER_BYTES + MAGIC_END] == MAGIC_V2)

    for at, kind, least, most in (
        (MAGIC_END + 4, ">i2", 0, (1 << 7) - 1),
        (8, ">i4", HEADER_BYTES - LOG_OVERHEAD, BATCH_BYTES_MAX - LOG_OVERHEAD),
        (HEADER_BYTES - 4, ">i4", 0, (1 << 31) - 1),
        (0, ">i8", last_offset + 1, (1 << 63) - 1),
    ):
        values = np.ndarray((len(chunk) - HEADER_BYTES + 1,), kind, chunk, at, (1,))[found]
        found = found[(values >= least) & (values <= most)]
    positions: list[int] = found.tolist()
    return positions


class _InMemoryReader(_Reader):
    """Reads batches from bytes in memory, without copying them."""

    def __init__(self, data: memoryview, part: Part) -> None:
        super().__init__(_InMemory(data), part, True, len(data))
        self._data = data.toreadonly()

    def _read(self, position: int, size: int) -> memoryview:
        return self._data[position : position + size]


_LONGER: Final = "a batch longer than the file"
_REASONS: Final = {
    MORE: "",
    CUT: "the file ends inside a batch",
    BAD_LENGTH: "a batch length that no batch can have",
    BAD_MAGIC: "an unknown magic",
    TOO_LARGE: f"a batch longer than the {BATCH_BYTES_MAX >> 20} MiB that are opened",
}
