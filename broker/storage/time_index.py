"""`.timeindex`: maps timestamps to offsets (Kafka's TimeIndex).

An entry is 12 bytes: i64 timestamp in ms, i32 offset relative to the segment's base offset. It means that no record up to and including
that offset has a greater timestamp. An entry whose timestamp would not be greater than the last one's is omitted.
"""

from __future__ import annotations

import struct
from typing import ClassVar

from ottla.broker.storage.sparse_index import SparseIndex


class TimeIndex(SparseIndex):
    ENTRY: ClassVar[struct.Struct] = struct.Struct(">qi")
    __slots__ = ()

    def maybe_append(self, timestamp: int, offset: int) -> None:
        last = self.last()
        if last is None or timestamp > last[0]:
            self._entries().extend(self.ENTRY.pack(timestamp, offset - self.base_offset))

    def key(self, number: int) -> int:
        return self.entry(number)[0]

    def entry(self, number: int) -> tuple[int, int]:
        """Return the entry with this number (from 0): (timestamp in ms, absolute offset)."""
        timestamp, relative = self.ENTRY.unpack_from(self._entries(), number * 12)
        return timestamp, self.base_offset + relative

    def last(self) -> tuple[int, int] | None:
        count = len(self)
        return self.entry(count - 1) if count else None

    def lookup(self, timestamp: int) -> int:
        """Return an offset such that no earlier record has a timestamp of at least `timestamp` (ms): a scan for the first such record
        starts there."""
        number = self._floor(timestamp - 1)
        return self.entry(number)[1] if number >= 0 else self.base_offset

    def truncate_to(self, offset: int) -> None:
        """Remove the index entries for offsets from `offset` on."""
        count = len(self)
        while count and self.entry(count - 1)[1] >= offset:
            count -= 1
        self._keep(count)
