"""What one connection does with bytes: frames in, replies out in order, and when to pause or close. No I/O, no loop, no clock.

Rules:
* requests are handled in the order they came, and none before the reply of the one in front of it is there: what a later one sees or does
  is never older than an answer that was given before it (Kafka mutes a channel until its response is sent);
* while the byte budget is exhausted, what comes whole with one read is handled, and a frame that needs more reads waits; one that was
  begun before is read to its end (`shedding` says who gives memory back);
* nothing is handled either while unsent output is at its limit, nor before others had their turn after REQUESTS_PER_TURN or SLICE_MS; what
  was read stays in the backlog. The shell is told to stop reading, but for what comes behind a request that waits: a peer that hangs up
  is noticed by reading, so one read's worth of it is taken;
* bytes that cannot be trusted, or a CLOSE reply, end the session once everything before them is answered. No later frame is handled.
"""

from __future__ import annotations

import logging
from collections import deque
from collections.abc import Callable, Sequence
from typing import Final, Protocol

from ottla.broker.api.reply import CLOSE, Action, Buffer, LastWords, Reply
from ottla.broker.core import limits
from ottla.broker.core.peer_log import PEERS
from ottla.protocol.errors import FrameTooLarge, ProtocolError
from ottla.protocol.frame import PREFIX_BYTES, FrameReader

peer_logger = logging.getLogger(PEERS)


class PendingReply(Protocol):
    """The part of an asyncio.Future that the session needs."""

    def add_done_callback(self, callback: Callable[[PendingReply], object], /) -> None: ...
    def cancelled(self) -> bool: ...
    def result(self) -> Reply: ...


_SLICE_NS: Final = limits.SLICE_MS * 1_000_000
Handle = Callable[[Buffer], "Reply | PendingReply"]
AtOnce = Callable[[bytes, int], "tuple[Reply, int] | None"]
"""The reply to the frame at a place of what was read, and where the next one begins; None where the frame goes to Handle."""


class ByteBudget:
    """Bytes that all connections together hold: partly read frames, backlogs, unsent output."""

    __slots__ = ("limit", "used")

    def __init__(self, limit: int = limits.TOTAL_BUFFERED_BYTES) -> None:
        self.limit = limit
        self.used = 0

    def is_exhausted(self) -> bool:
        """True while a frame that is begun waits for its second read."""
        return self.used >= self.limit


class Session:
    """One connection's requests and responses. `on_answered` is called when a reply that was waited for is there; `at_once` is asked
    first about frames that come while nothing is in front of them; `spent_ns` is the clock that ends a turn."""

    def __init__(
        self,
        handle: Handle,
        on_answered: Callable[[], None],
        budget: ByteBudget,
        max_request_bytes: int,
        at_once: AtOnce = lambda _data, _at: None,
        *,
        spent_ns: Callable[[], int] = lambda: 0,
    ) -> None:
        self._handle = handle
        self._at_once = at_once
        self._spent_ns = spent_ns
        self._on_answered = on_answered
        self._budget = budget
        self._reader = FrameReader(max_request_bytes)
        self._backlog: deque[Buffer] = deque()
        self._untrusted: FrameTooLarge | None = None
        """What is wrong with the bytes behind the backlog."""
        self._pending: PendingReply | None = None
        self._out: list[Buffer] = []
        self._out_bytes = 0
        self._accounted = 0
        self._ending = False
        self.unhandled = 0
        """Bytes that came and were not handled: the backlog, and the frame that has not come whole."""
        self._begun_late = False
        """Whether no part of the frame that has not come whole was read while the budget was not exhausted."""
        self.write_blocked = False
        """Set by the shell while the transport holds more unsent bytes than it should."""
        self.throttled = False
        """Set by the shell while nothing more is handled, because the client used more than its quota (KIP-219)."""

    def serve(self, handle: Handle, at_once: AtOnce, max_request_bytes: int) -> None:
        """From the next frame on: who answers, and how much a frame may have."""
        self._handle, self._at_once = handle, at_once
        self._reader.max_bytes = max_request_bytes

    @property
    def waiting(self) -> bool:
        """True while a request was handled and its reply is not there."""
        return self._pending is not None

    @property
    def finished(self) -> bool:
        """True when nothing more will be read or written: close the transport."""
        return self._ending and self._pending is None and not self._out

    @property
    def paused(self) -> bool:
        """True while the shell must not read."""
        if self._ending or self._untrusted is not None or self.waits_for_memory:
            return True
        if self._pending is not None or self.throttled:
            return self.unhandled >= limits.READ_CHUNK_BYTES
        return bool(self._backlog) or self.write_blocked or self._out_bytes >= limits.WRITE_HIGH_BYTES

    @property
    def waits_for_memory(self) -> bool:
        """True while the rest of a frame is not read because the budget is exhausted."""
        return self._begun_late and self._budget.is_exhausted()

    @property
    def runnable(self) -> bool:
        """True when `run` would do something; then it is paused, too."""
        return (bool(self._backlog) or self._untrusted is not None) and not self._ending and not self._is_full()

    def _is_full(self) -> bool:
        return self._pending is not None or self.throttled or self.write_blocked or self._out_bytes >= limits.WRITE_HIGH_BYTES

    def receive(self, data: Buffer) -> None:
        """Take what the socket gave; handle every request that is complete and allowed."""
        if self._ending or self._untrusted is not None:
            return
        in_front = self.unhandled or self._pending is not None or self.throttled or self.write_blocked
        if not in_front and type(data) is bytes:
            data = self._answer_at_once(data)
            if not data:
                return
        self.unhandled += len(data)
        reader = self._reader
        goes_on, memory_is_short = reader.held_bytes, self._budget.is_exhausted()
        frames: Sequence[Buffer]
        try:
            frames = reader.feed(data)
        except FrameTooLarge as error:
            frames = error.frames
            self._untrusted = error.with_traceback(None)  # its frames would keep what was read until the collector finds the session
        self._backlog.extend(frames)
        self.run()
        if not memory_is_short:
            self._begun_late = False
        elif frames or not goes_on:
            self._begun_late = bool(reader.held_bytes)

    def _answer_at_once(self, data: bytes) -> Buffer:
        """Answer what needs no more than a look, up to the first frame that does; what is left."""
        at, end = 0, len(data)
        turn, turn_end_ns = limits.REQUESTS_PER_TURN, 0
        while at < end and turn and self._out_bytes < limits.WRITE_HIGH_BYTES:
            if at:
                turn_end_ns = turn_end_ns or self._spent_ns() + _SLICE_NS
                if self._spent_ns() >= turn_end_ns:
                    break
            turn -= 1
            found = self._at_once(data, at)
            if found is None:
                break
            reply, at = found
            if type(reply) is list:
                self._out += reply
                self._out_bytes += len(reply[0])
            else:
                self._take(reply)
        return memoryview(data)[at:] if at else data

    def run(self) -> None:
        """Handle requests of the backlog until it is empty, one has to wait, a limit is reached, or others have to have their turn."""
        backlog = self._backlog
        turn, turn_end_ns = limits.REQUESTS_PER_TURN, 0
        while backlog and turn and not self._is_full():
            turn_end_ns = turn_end_ns or self._spent_ns() + _SLICE_NS
            if self._spent_ns() >= turn_end_ns:
                break
            turn -= 1
            frame = backlog.popleft()
            self.unhandled -= PREFIX_BYTES + len(frame)
            try:
                reply = self._handle(frame)
            except ProtocolError as error:
                self._distrust(error)
                break
            if type(reply) is list:
                self._out += reply
                for buffer in reply:
                    self._out_bytes += len(buffer)
            elif reply is not None:
                self._take(reply)
        if self._untrusted is not None and not backlog and not self._is_full():
            self._distrust(self._untrusted)
        if self.unhandled != self._accounted:
            self._account()

    def take_output(self) -> list[Buffer]:
        """What is to be written now, in order."""
        out, self._out, self._out_bytes = self._out, [], 0
        return out

    def stop_reading(self) -> None:
        """Graceful stop: answer what was started, handle nothing more."""
        self._ending = True
        self._backlog.clear()
        self._reader.drop()
        self._untrusted = None
        self.unhandled = 0
        self._account()

    def lost(self) -> None:
        """The connection is gone: forget everything that would be written."""
        self.stop_reading()
        self._pending = None
        self._out.clear()

    def _take(self, reply: Reply | PendingReply) -> None:
        if isinstance(reply, list):
            self._out += reply
            self._out_bytes += sum(map(len, reply))
        elif not isinstance(reply, Action | None):
            self._pending = reply
            reply.add_done_callback(self._answered)
        if isinstance(reply, Action | LastWords):
            self.stop_reading()

    def _answered(self, pending: PendingReply) -> None:
        if pending is self._pending:  # else the connection is gone
            self._pending = None
            self._take(CLOSE if pending.cancelled() else pending.result())
            self._on_answered()

    def _distrust(self, error: ProtocolError) -> None:
        peer_logger.warning("Closing a connection: %s", error)
        self.stop_reading()

    def _account(self) -> None:
        self._budget.used += self.unhandled - self._accounted
        self._accounted = self.unhandled
