"""`.index`: maps offsets to positions in a segment's file (Kafka's OffsetIndex).

An entry is 8 bytes: i32 offset relative to the segment's base, i32 byte position. The offset is the last one of the batch at that position.
"""

from __future__ import annotations

import struct
from typing import ClassVar

from ottla.broker.storage.sparse_index import SparseIndex


class OffsetIndex(SparseIndex):
    ENTRY: ClassVar[struct.Struct] = struct.Struct(">ii")
    __slots__ = ()

    def append(self, offset: int, position: int) -> None:
        self._entries().extend(self.ENTRY.pack(offset - self.base_offset, position))

    def key(self, number: int) -> int:
        return self.entry(number)[0]

    def entry(self, number: int) -> tuple[int, int]:
        """Return the entry with this number (from 0): (absolute offset, byte position)."""
        relative, position = self.ENTRY.unpack_from(self._entries(), number * 8)
        return self.base_offset + relative, position

    def last(self) -> tuple[int, int] | None:
        count = len(self)
        return self.entry(count - 1) if count else None

    def lookup(self, offset: int) -> int:
        """Return the byte position of the batch with `offset` or of an earlier batch: a scan for that offset starts there."""
        number = self._floor(offset)
        return self.entry(number)[1] if number >= 0 else 0

    def offset_at_or_after(self, position: int) -> int | None:
        """Return the offset of the first entry at or after byte `position`; None if there is no such entry. It is an upper bound of the
        offsets in a fetch that ends at `position` (OffsetIndex.fetchUpperBoundOffset)."""
        count = len(self)
        low, high = 0, count
        while low < high:
            middle = (low + high) // 2
            if self.entry(middle)[1] < position:
                low = middle + 1
            else:
                high = middle
        return self.entry(low)[0] if low < count else None

    def is_full(self, max_bytes: int) -> bool:
        return len(self._data or self._entries()) // 8 >= max_bytes // 8

    def truncate_to(self, offset: int) -> None:
        """Remove the index entries for offsets from `offset` on."""
        self._keep(self._floor(offset - 1) + 1)
