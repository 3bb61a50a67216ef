"""`.txnindex`: the aborted transactions whose marker is in a segment (Kafka's TransactionIndex).

An entry is 34 bytes: i16 version 0, i64 producer id, i64 first offset, i64 last offset (the marker's), i64 last stable offset at that time.
The entries are in the order of their last offsets. Without entries there is no file.
"""

from __future__ import annotations

import struct
from array import array
from bisect import bisect_left
from pathlib import Path
from typing import Final, NamedTuple

from ottla.broker.storage.files import Files

_ENTRY: Final = struct.Struct(">hqqqq")


class AbortedTxn(NamedTuple):
    """An entry of the transaction index: an aborted transaction. `last_offset` is its marker's offset."""

    producer_id: int
    first_offset: int
    last_offset: int
    last_stable_offset: int


Row = tuple[int, int, int, int]
"""The fields of an `AbortedTxn`, without the named tuple: a Fetch may need thousands of them."""


class _Columns:
    """The entries of an index, one array for each field: a segment can have millions of entries, and a named tuple takes six times the
    memory."""

    __slots__ = ("first_offsets", "last_offsets", "producer_ids", "stable_offsets")

    def __init__(self) -> None:
        self.producer_ids, self.first_offsets, self.last_offsets, self.stable_offsets = array("q"), array("q"), array("q"), array("q")

    def __len__(self) -> int:
        return len(self.last_offsets)

    def append(self, producer_id: int, first_offset: int, last_offset: int, stable_offset: int) -> None:
        self.producer_ids.append(producer_id)
        self.first_offsets.append(first_offset)
        self.last_offsets.append(last_offset)
        self.stable_offsets.append(stable_offset)

    def rows(self, begin: int, end: int | None = None) -> list[Row]:
        """Return the entries from number `begin` on, up to number `end` (excluded)."""
        columns = (self.producer_ids, self.first_offsets, self.last_offsets, self.stable_offsets)
        return list(zip(*(column[begin:end] for column in columns), strict=True))


class TxnIndex:
    __slots__ = ("_columns", "_files", "_saved", "base_offset", "path")

    def __init__(self, files: Files, path: Path, base_offset: int, *, fresh: bool) -> None:
        self._files = files
        self.path = path
        self.base_offset = base_offset
        self._columns: _Columns | None = _Columns() if fresh else None
        self._saved = 0

    def __len__(self) -> int:
        return len(self.load())

    def load(self) -> _Columns:
        """Load the file unless it is loaded, and return the entries. Raises `OSError`, and `ValueError` if the file is not a transaction
        index of this segment."""
        if self._columns is None:
            try:
                raw = self._files.read_bytes(self.path)
            except FileNotFoundError:
                raw = b""
            self._columns = _decode(raw, self.base_offset)
            self._saved = len(self._columns)
        return self._columns

    def entries(self) -> list[AbortedTxn]:
        """Return all entries of the index. Raises the errors of `load`."""
        return [AbortedTxn(*row) for row in self.load().rows(0)]

    def append(self, txn: AbortedTxn) -> None:
        columns = self.load()
        assert not columns or columns.last_offsets[-1] < txn.last_offset
        columns.append(*txn)

    def collect(self, fetch_offset: int, upper_bound: int) -> tuple[list[Row], bool]:
        """Return the aborted transactions that overlap [fetch_offset, upper_bound), and True if no later segment can have another one.
        False means that the caller must search the next segment, too (TransactionIndex.collectAbortedTxns)."""
        columns = self.load()
        begin = bisect_left(columns.last_offsets, fetch_offset)
        # The last stable offset of an entry is at most one past its last offset, so no entry before `inside` reaches the bound.
        inside = bisect_left(columns.last_offsets, upper_bound - 1, begin)
        found = columns.rows(begin, inside)
        for at in range(inside, len(columns)):
            if columns.first_offsets[at] < upper_bound:
                found += columns.rows(at, at + 1)
            if columns.stable_offsets[at] >= upper_bound:
                return found, True
        return found, False

    def truncate_to(self, offset: int) -> None:
        entries = self.entries()
        kept = [txn for txn in entries if txn.last_offset < offset]
        if len(kept) < len(entries):
            self.clear()
            for txn in kept:
                self.append(txn)

    def clear(self) -> None:
        self._columns = _Columns()
        self._saved = -1

    @property
    def dirty(self) -> bool:
        return self._columns is not None and self._saved != len(self._columns)

    def save(self) -> bool:
        """Write the index file if it differs from the entries in memory, or remove it if there are no entries. Return whether it differed.
        Raises `OSError`."""
        columns = self._columns
        if columns is None or self._saved == len(columns):
            return False
        if not columns:
            self._files.remove(self.path)
        else:
            self._write(columns)
        self._saved = len(columns)
        return True

    def _write(self, columns: _Columns) -> None:
        start = max(self._saved, 0)
        self._files.break_hard_links(self.path)
        fd = self._files.open(self.path)
        try:
            self._files.pwrite(fd, [b"".join(_ENTRY.pack(0, *row) for row in columns.rows(start))], start * _ENTRY.size)
            self._files.truncate(fd, len(columns) * _ENTRY.size)
        finally:
            self._files.close(fd)

    def release(self) -> None:
        """Free the memory of the index, unless it has entries that are not in the file. The next use loads the entries again."""
        if not self.dirty:
            self._columns = None


def _decode(raw: bytes, base_offset: int) -> _Columns:
    if len(raw) % _ENTRY.size:
        raise ValueError(f"{len(raw)} bytes is not a multiple of {_ENTRY.size}")
    columns = _Columns()
    for version, producer_id, first_offset, last_offset, stable_offset in _ENTRY.iter_unpack(raw):
        if version != 0 or last_offset < base_offset:
            raise ValueError(f"entry of version {version} with last offset {last_offset} in a segment based at {base_offset}")
        columns.append(producer_id, first_offset, last_offset, stable_offset)
    return columns
