"""Limits file descriptors and index memory: at most `max_open` segments of a directory are open; the one opened first is closed first.

A closed segment opens its file and loads its indexes again when it is used. A start with thousands of partitions therefore opens few files.
"""

from __future__ import annotations

from typing import Protocol


class Closable(Protocol):
    def release(self) -> None: ...


class OpenFiles:
    """The segments with an open descriptor, in the order in which they were opened."""

    __slots__ = ("_open", "max_open")

    def __init__(self, max_open: int) -> None:
        self.max_open = max_open
        self._open: dict[Closable, None] = {}

    def __len__(self) -> int:
        return len(self._open)

    def opened(self, segment: Closable) -> None:
        if len(self._open) >= self.max_open:
            next(iter(self._open)).release()
        self._open[segment] = None

    def closed(self, segment: Closable) -> None:
        self._open.pop(segment, None)
