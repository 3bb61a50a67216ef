"""Cuts a byte stream into length-prefixed frames. Touches nothing but bytes.

Rules: a frame's size is checked before a byte is kept for it; memory grows with the bytes that came, never with the size announced;
a frame that arrives whole is a view of the data that brought it (so that data must not change any more), not a copy.
"""

from __future__ import annotations

import struct

from ottla.protocol.errors import FrameTooLarge
from ottla.protocol.wire import Buffer

_SIZE = struct.Struct(">i")
PREFIX_BYTES = _SIZE.size
"""What goes before each frame: its size."""


class FrameReader:
    """Feed it what the socket gave; get the frames that are complete, without their size prefix. Of no use after it raised."""

    __slots__ = ("_partial", "_wanted", "max_bytes")

    def __init__(self, max_bytes: int) -> None:
        self.max_bytes = max_bytes
        """May change between two calls of `feed`."""
        self._partial = bytearray()
        self._wanted = PREFIX_BYTES

    @property
    def held_bytes(self) -> int:
        """What is kept of a frame that has not come whole."""
        return len(self._partial)

    def drop(self) -> None:
        """Forget the frame that has not come whole: its memory is free at once."""
        self._partial = bytearray()
        self._wanted = PREFIX_BYTES

    def feed(self, data: Buffer) -> list[memoryview]:
        """The frames that `data` completes, in order.

        Raises FrameTooLarge for a size that is negative or above the limit; its `frames` are those that were complete before it.
        """
        frames: list[memoryview] = []
        view = memoryview(data)
        pos = self._fill(view, frames) if self._partial else 0
        end = len(view)
        while pos < end:
            start = pos + PREFIX_BYTES
            stop = start + self._size(view, pos, frames) if start <= end else start
            if stop > end:
                self._partial += view[pos:]
                self._wanted = stop - pos
                break
            frames.append(view[start:stop])
            pos = stop
        return frames

    def _fill(self, view: memoryview, frames: list[memoryview]) -> int:
        """Add to the frame that an earlier chunk began, and return how much of this chunk that took."""
        partial = self._partial
        pos = 0
        if len(partial) < PREFIX_BYTES:
            pos = min(PREFIX_BYTES - len(partial), len(view))
            partial += view[:pos]
            if len(partial) < PREFIX_BYTES:
                return pos
            self._wanted = PREFIX_BYTES + self._size(partial, 0, frames)
        start, pos = pos, min(pos + self._wanted - len(partial), len(view))
        partial += view[start:pos]
        if len(partial) == self._wanted:
            frames.append(memoryview(partial)[PREFIX_BYTES:])
            self._partial = bytearray()
        return pos

    def _size(self, data: Buffer, pos: int, frames: list[memoryview]) -> int:
        size: int = _SIZE.unpack_from(data, pos)[0]
        if not 0 <= size <= self.max_bytes:
            raise FrameTooLarge(size, self.max_bytes, frames)
        return size
