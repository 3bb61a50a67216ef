"""Splits a byte stream into length-prefixed frames, without any I/O.

Rules: a frame's size is checked before any of its bytes is stored. Memory grows with the received bytes, never with the announced size. A
frame that arrives in one piece is a view of the received data (which must not be changed any more), not a copy. A view takes about 190
bytes, so a receiver that keeps frames of an untrusted peer limits their number (`most`); 256 KiB may have 65,536 empty frames.
"""

from __future__ import annotations

import struct
import sys

from ottla.protocol.errors import FrameTooLarge
from ottla.protocol.wire import Buffer

_SIZE = struct.Struct(">i")
PREFIX_BYTES = _SIZE.size
"""The length of the size prefix before each frame."""


class FrameReader:
    """Takes received bytes and returns complete frames without their size. It cannot be used after it has raised."""

    __slots__ = ("_partial", "_wanted", "max_bytes", "unsplit")

    def __init__(self, max_bytes: int) -> None:
        self.max_bytes = max_bytes
        """The maximum size of a frame; may be changed between two calls of `feed`."""
        self.unsplit: Buffer = b""
        """The bytes after the last frame that the last call of `feed` returned, if there were more frames than it was to return. The caller
        feeds them before later bytes, and sets this to empty bytes."""
        self._partial = bytearray()
        self._wanted = PREFIX_BYTES

    @property
    def held_bytes(self) -> int:
        """The number of bytes of the incomplete frame that were received and stored so far."""
        return len(self._partial)

    def drop(self) -> None:
        """Discard the incomplete frame and the unsplit bytes to free their memory. Call this when no more data will be received."""
        self.unsplit = b""
        self._partial = bytearray()
        self._wanted = PREFIX_BYTES

    def feed(self, data: Buffer, most: int = sys.maxsize) -> list[memoryview]:
        """Return the frames that `data` completes, in order, but at most about `most`; the rest of `data` is `unsplit` then.

        Raises FrameTooLarge for a size that is negative or above the limit; its `frames` were complete before it.
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
            if len(frames) >= most:
                self.unsplit = view[pos:]
                break
        return frames

    def _fill(self, view: memoryview, frames: list[memoryview]) -> int:
        """Append bytes of `view` to the incomplete frame, and add the frame to `frames` if they complete it. Return the number of bytes of
        `view` that were used."""
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
