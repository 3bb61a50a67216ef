"""The segments of one log, by base offset. The list is never empty once the log is open, and its last segment is the active one."""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Iterable, Iterator

from ottla.broker.storage.segment import Segment


class SegmentList:
    """The segments of one log in the order of their base offsets. `active` is the last one."""

    __slots__ = ("_bases", "_segments", "active")

    def __init__(self, segments: Iterable[Segment]) -> None:
        self._segments = sorted(segments, key=lambda s: s.base_offset)
        self._bases = [s.base_offset for s in self._segments]
        self.active = self._segments[-1]

    def __iter__(self) -> Iterator[Segment]:
        return iter(list(self._segments))

    def __len__(self) -> int:
        return len(self._segments)

    def __getitem__(self, number: int) -> Segment:
        return self._segments[number]

    @property
    def first(self) -> Segment:
        return self._segments[0]

    @property
    def base_offsets(self) -> tuple[int, ...]:
        return tuple(self._bases)

    def add(self, segment: Segment) -> None:
        """Append a segment to the list. It becomes the active one."""
        assert not self._bases or segment.base_offset > self._bases[-1]
        self._segments.append(segment)
        self._bases.append(segment.base_offset)
        self.active = segment

    def floor_number(self, offset: int) -> int:
        """Return the list index of the last segment whose base offset is at most `offset`; 0 if there is none."""
        return max(bisect_right(self._bases, offset) - 1, 0)

    def from_offset(self, offset: int) -> list[Segment]:
        """Return the segment that contains `offset`, and all later ones, oldest first."""
        return self._segments[self.floor_number(offset) :]

    def before(self, offset: int) -> list[Segment]:
        """Return the segments whose base offset is below `offset`, newest first."""
        return self._segments[: bisect_left(self._bases, offset)][::-1]

    def next_base(self, segment: Segment) -> int | None:
        """Return the base offset of the next segment, None for the active one."""
        number = bisect_right(self._bases, segment.base_offset)
        return self._bases[number] if number < len(self._bases) else None

    def replace(self, old: Iterable[Segment], new: Iterable[Segment]) -> None:
        """Replace the segments `old` by `new` in the list, in one step; at least one segment must remain."""
        gone = set(map(id, old))
        kept = [s for s in self._segments if id(s) not in gone]
        self._segments = sorted([*kept, *new], key=lambda s: s.base_offset)
        assert self._segments, "a log without segments"
        self._bases = [s.base_offset for s in self._segments]
        self.active = self._segments[-1]

    @property
    def size_bytes(self) -> int:
        return sum(s.size for s in self._segments)
