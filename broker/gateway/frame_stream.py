"""Splits a byte stream into Kafka's frames. Most frames pass: their bytes are forwarded as they arrive, and never stored.

Rules:
- For each frame, the function `decide` gets the first bytes and returns a `FrameDecision`, for example to forward the frame (PASS) or to
  collect it (COLLECT). A collected frame is passed to the function `take` when it is complete; its size is checked before a byte of it is
  stored.
- Neighbouring frames that pass stay one buffer, which is a view of the received data.
"""

from __future__ import annotations

import struct
from collections.abc import Callable
from enum import Enum

from ottla.protocol.errors import FrameTooLarge
from ottla.protocol.frame import PREFIX_BYTES
from ottla.protocol.wire import Buffer

_SIZE = struct.Struct(">i")


class FrameDecision(Enum):
    """A decision about a frame: forward its bytes as they arrive (PASS), store it until it is complete (COLLECT), decide when more of it
    has arrived (MORE), or wait for `FrameStream.resume` (WAIT).
    """

    PASS = "pass"
    COLLECT = "collect"
    MORE = "more"
    """Decide again when more of the frame has arrived."""
    WAIT = "wait"
    """Process no frame, from this one on, before `resume` is called."""


Decide = Callable[[memoryview, int, int, int], FrameDecision]
"""A function that returns a `FrameDecision` about a frame. Its arguments are a buffer, the position of the frame's start in the buffer, the
position after the frame's last byte that has arrived, and the frame's size. After any decision but PASS it may be called again for the same
frame."""


class FrameStream:
    """One direction of a connection, split into frames. `decide` returns for each frame whether it is forwarded as it arrives or collected.
    `take` gets each collected frame, without its 4-byte size prefix; `max_collected` is the largest size of such a frame. After an
    exception the stream cannot be used."""

    __slots__ = ("_decide", "_left", "_stored", "_take", "_waiting", "_wanted", "max_collected")

    def __init__(self, decide: Decide, take: Callable[[memoryview], object], max_collected: int) -> None:
        self._decide = decide
        self._take = take
        self.max_collected = max_collected
        self._left = 0
        self._stored = bytearray()
        self._wanted = 0
        self._waiting: memoryview | None = None

    def release(self) -> None:
        """Drop the references to `decide` and `take`, which may refer to the stream's owner. The stream cannot be used afterwards."""
        del self._decide, self._take

    @property
    def held_bytes(self) -> int:
        """The number of stored bytes: of an incomplete collected frame, and of frames that wait for `resume`."""
        return len(self._stored) + (0 if self._waiting is None else len(self._waiting))

    @property
    def is_waiting(self) -> bool:
        """Whether frames wait for `resume`. No incomplete collected frame is stored then."""
        return self._waiting is not None

    @property
    def in_frame(self) -> bool:
        """Whether a forwarded frame is incomplete: the rest of it has not arrived yet."""
        return self._left > 0

    def feed(self, data: Buffer, out: list[Buffer]) -> None:
        """Process received bytes; append the bytes of forwarded frames to `out`. Raises ProtocolError for an invalid frame, or one that is
        too large to collect."""
        view = memoryview(data)
        if self._waiting is not None:
            waiting, self._waiting = self._waiting, None
            view = memoryview(bytes(waiting) + data)
        elif self._stored:
            if self._wanted:
                at = min(self._wanted - len(self._stored), len(view))
                self._stored += view[:at]
                if len(self._stored) < self._wanted:
                    return
                frame, self._stored, self._wanted = self._stored, bytearray(), 0
                self._take(memoryview(frame)[PREFIX_BYTES:])
                view = view[at:]
            else:
                joined, self._stored = self._stored, bytearray()
                joined += view
                view = memoryview(joined)
        self._split(view, out)

    def resume(self, out: list[Buffer]) -> None:
        """Continue with the frame for which `decide` returned WAIT, if there is one; append the bytes of forwarded frames to `out`. Raises
        ProtocolError for an invalid frame."""
        if self._waiting is not None:
            view, self._waiting = self._waiting, None
            self._split(view, out)

    def _split(self, view: memoryview, out: list[Buffer]) -> None:
        end = len(view)
        pos = min(self._left, end)
        self._left -= pos
        passed = 0
        while pos < end:
            start = pos + PREFIX_BYTES
            decision, size = FrameDecision.MORE, 0
            if start <= end:
                (size,) = _SIZE.unpack_from(view, pos)
                if size < 0:
                    raise FrameTooLarge(size, self.max_collected)
                decision = self._decide(view, start, min(start + size, end), size)
            stop = start + size
            if decision is FrameDecision.PASS:
                pos = min(stop, end)
                self._left = stop - pos
                continue
            if decision is FrameDecision.COLLECT and size > self.max_collected:
                raise FrameTooLarge(size, self.max_collected)
            if pos > passed:
                out.append(view[passed:pos])
            if decision is FrameDecision.WAIT:
                self._waiting = view[pos:]
                return
            if decision is FrameDecision.MORE or stop > end:
                self._stored += view[pos:]
                self._wanted = stop - pos if decision is FrameDecision.COLLECT else 0
                return
            self._take(view[start:stop])
            passed = pos = stop
        if end > passed:
            out.append(view[passed:])
