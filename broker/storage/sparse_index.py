"""The common part of offset and time index: fixed-size entries in memory, searched by bisection, and their file.

Invariants:
* Keys strictly increase. The file has exactly the entries in order, so its length is a multiple of the entry size.
* The active segment's entries are in memory and written by `save` (roll, flush, close). After a crash the indexes of segments beyond the
  recovery point are rebuilt from the log, as in Kafka; `save` precedes every move of the recovery point.
* Kafka preallocates an active segment's file with zeros, which remain after a crash; loading drops such a tail. A file of a single entry
  has no tail: an entry of zeros means that the first record's timestamp is 0.
"""

from __future__ import annotations

import struct
from bisect import bisect_right
from itertools import pairwise
from pathlib import Path
from typing import ClassVar, Final

from ottla.broker.storage.files import Files

REWRITE: Final = -1
"""The value of `SparseIndex._saved` if the index file has other contents than the entries in memory and must be rewritten whole. Otherwise
`_saved` is the number of bytes of these entries that the file has."""


class SparseIndex:
    """Base class of `OffsetIndex` and `TimeIndex`: an index of fixed-size entries (Kafka's AbstractIndex). If `fresh`, the index has no
    file yet and no entries."""

    ENTRY: ClassVar[struct.Struct]
    __slots__ = ("_data", "_files", "_saved", "base_offset", "path")

    def __init__(self, files: Files, path: Path, base_offset: int, *, fresh: bool) -> None:
        self._files = files
        self.path = path
        self.base_offset = base_offset
        self._data: bytearray | None = bytearray() if fresh else None
        self._saved = 0

    def __len__(self) -> int:
        return len(self._entries()) // self.ENTRY.size

    def _entries(self) -> bytearray:
        if self._data is None:
            self.load()
            assert self._data is not None
        return self._data

    def load(self) -> None:
        """Load the index file, unless its entries are in memory. Raises `OSError`."""
        if self._data is not None:
            return
        size = self.ENTRY.size
        try:
            raw = self._files.read_bytes(self.path)
        except FileNotFoundError:
            raw = b""
        used = len(raw.rstrip(b"\0")) if len(raw) > size else len(raw)
        self._data = bytearray(raw[: -(-used // size) * size])
        if len(self._data) % size:  # a torn last entry
            del self._data[-(len(self._data) % size) :]
        self._saved = len(self._data) if len(self._data) == len(raw) else REWRITE

    def _floor(self, target: int) -> int:
        """Return the number of the last entry whose key (the first value of `entry`) is at most `target`; -1 if there is none."""
        return bisect_right(range(len(self)), target, key=self.key) - 1

    def key(self, number: int) -> int:
        raise AssertionError("each index has its own key")  # pragma: no cover - abstract

    def is_sorted(self) -> bool:
        """Return whether the index entries' keys strictly increase; recovery drops an index for which they do not."""
        keys = [self.key(i) for i in range(len(self))]
        return all(a < b for a, b in pairwise(keys))

    def is_full(self, max_bytes: int) -> bool:
        """Return whether a file of `max_bytes` (segment.index.bytes) has at most one free slot, which the segment's last entry needs
        when the segment is closed (TimeIndex.isFull)."""
        return len(self._data or self._entries()) // self.ENTRY.size >= max_bytes // self.ENTRY.size - 1

    def clear(self) -> None:
        self._data = bytearray()
        self._saved = REWRITE

    def _keep(self, count: int) -> None:
        data = self._entries()
        size = count * self.ENTRY.size
        if size < len(data):
            del data[size:]
            self._saved = REWRITE

    @property
    def dirty(self) -> bool:
        return self._data is not None and self._saved != len(self._data)

    def save(self) -> bool:
        """Write the index file if it differs from the entries in memory. Return whether it was written. Raises `OSError`."""
        data = self._data
        if data is None or self._saved == len(data):
            return False
        self._files.break_hard_links(self.path)
        fd = self._files.open(self.path)
        try:
            with memoryview(data) as view:
                start = max(self._saved, 0)
                self._files.pwrite(fd, [view[start:]], start)
            if self._files.size(fd) != len(data):
                self._files.truncate(fd, len(data))
        finally:
            self._files.close(fd)
        self._saved = len(data)
        return True

    def create_file(self) -> None:
        """Create an empty index file, because Kafka rebuilds a segment whose index files are missing."""
        self._files.close(self._files.open(self.path))

    def release(self) -> None:
        """Free the memory of the index, unless it has entries that are not in the file. The next use loads the entries again."""
        if not self.dirty:
            self._data = None
