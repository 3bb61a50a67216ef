"""The requests and responses of one client connection: splits bytes into frames, keeps responses in order, and decides when to pause
reading and when to close. No I/O, no event loop, no clock: these belong to the asyncio protocol around it, `connection.Connection`.

Rules:
* Requests are handled in order, each after the response to the previous one is ready. So a request never sees a state older than an earlier
  response (Kafka mutes a channel until its response is sent).
* The byte budget is the limit on the memory of all connections together. While it is exhausted, a frame that arrives whole in one read is
  handled. If a frame needs more reads, they wait, unless the frame was begun before the budget was exhausted (`memory_pressure` decides
  which connections are closed to free memory).
* No request is handled while unsent output is at its limit. After REQUESTS_PER_TURN requests or SLICE_MS, other connections have their
  turn. The remaining requests stay in the backlog, and the connection stops reading. One exception: while a request is pending or the
  client is throttled, one more read is accepted, because only a read detects that the peer has closed the connection. The exception does
  not apply while a Produce with acks=0 is pending, or the client is throttled, if a Produce is in the backlog: the peer may close the
  connection behind a Produce with acks=0, which must still be handled.
* Behind unhandled requests, received bytes are stored without being split into frames, so that the memory of very many small frames is
  that of their bytes.
* Invalid bytes, or a handler's reply CLOSE, end the session after everything before them is answered. No later frame is handled.
"""

from __future__ import annotations

import logging
from collections import deque
from collections.abc import Callable, Sequence
from typing import Protocol

from ottla.broker.api.reply import CLOSE, Action, FinalResponse, Reply
from ottla.broker.core import limits
from ottla.broker.core.peer_log import PEERS
from ottla.protocol.api_keys import ApiKey
from ottla.protocol.codec import acks_of
from ottla.protocol.errors import FrameTooLarge, ProtocolError
from ottla.protocol.frame import PREFIX_BYTES, FrameReader
from ottla.protocol.wire import Buffer

peer_logger = logging.getLogger(PEERS)

_PRODUCE_KEY = ApiKey.PRODUCE.to_bytes(2, "big")
"""The first bytes of a Produce request: its API key."""


class PendingReply(Protocol):
    """The methods of an asyncio.Future that the session calls on a reply that is not ready yet."""

    def add_done_callback(self, callback: Callable[[PendingReply], object], /) -> None: ...
    def cancelled(self) -> bool: ...
    def result(self) -> Reply: ...


Handle = Callable[[Buffer], "Reply | PendingReply"]
TryFastPath = Callable[[bytes, int], "tuple[Reply, int] | None"]
"""The fast path (`dispatch.try_fast_path`): takes received data and the position of a frame in it; returns the reply to that frame and the
position of the next one. Returns None if the frame is incomplete or needs `Handle`, the ordinary path."""


class ByteBudget:
    """The limit on the memory of all connections together, and the number of bytes that they hold now (`used`): partly read frames,
    unhandled requests and unsent output."""

    __slots__ = ("limit", "used")

    def __init__(self, limit: int = limits.TOTAL_BUFFERED_BYTES) -> None:
        self.limit = limit
        self.used = 0

    def is_exhausted(self) -> bool:
        """Return whether all connections together hold at least `limit` bytes. While they do, a connection does not read the rest of a
        frame that begins now."""
        return self.used >= self.limit


def _closed(_frame: Buffer) -> Action:
    return CLOSE


def _no_fast_path(_data: bytes, _at: int) -> None:
    return None


def _nothing() -> None:
    return None


class Session:
    """The requests and responses of one connection. `on_answered` is called when a pending reply is ready. `try_fast_path` is called first
    for frames that arrive while no request is pending. `spent_ns` is a clock in nanoseconds, by which the handling of requests is
    interrupted after SLICE_MS."""

    def __init__(
        self,
        handle: Handle,
        on_answered: Callable[[], None],
        budget: ByteBudget,
        max_request_bytes: int,
        try_fast_path: TryFastPath = _no_fast_path,
        *,
        spent_ns: Callable[[], int] = lambda: 0,
    ) -> None:
        self._handle = handle
        self._try_fast_path = try_fast_path
        self._spent_ns = spent_ns
        self._on_answered = on_answered
        self._budget = budget
        self._reader = FrameReader(max_request_bytes)
        self._backlog: deque[Buffer] = deque()
        self._frame_error: FrameTooLarge | None = None
        """The error of a frame with an invalid size that follows the backlog; None without such a frame. The session ends with this error
        when the backlog is handled."""
        self._pending: PendingReply | None = None
        self._pending_has_no_response = False
        """Whether the pending request is a Produce with acks=0. It does not wait for anybody but this broker."""
        self._out: list[Buffer] = []
        self._out_bytes = 0
        self._accounted = 0
        self._ending = False
        self.unhandled = 0
        """The number of received bytes that were not handled: those of the backlog and of the incomplete frame."""
        self._begun_while_exhausted = False
        """Whether the frame that is only partly received was begun while the byte budget, the limit on the memory of all connections, was
        exhausted."""
        self._arrived_while_exhausted = False
        """Whether the byte budget was exhausted when the last bytes arrived. They may be split into frames much later."""
        self.write_blocked = False
        """True while the transport holds too many unsent bytes. The connection sets it."""
        self.throttled = False
        """True while a quota throttles the client (KIP-219). The connection sets it."""

    def serve(self, handle: Handle, try_fast_path: TryFastPath, max_request_bytes: int) -> None:
        """Replace the session's handlers and its limit for a frame's size, from the next frame on."""
        self._handle, self._try_fast_path = handle, try_fast_path
        self._reader.max_bytes = max_request_bytes

    @property
    def waiting(self) -> bool:
        """Whether the reply to the request that was handled last is not ready yet."""
        return self._pending is not None

    @property
    def finished(self) -> bool:
        """Whether nothing more will be read or written, so that the transport can be closed."""
        return self._ending and self._pending is None and not self._out

    @property
    def paused(self) -> bool:
        """Whether the connection must not read from its socket now: too much is unhandled or unsent, or the session ends."""
        if self._ending or self._frame_error is not None or self.waits_for_memory:
            return True
        if self._pending is not None or self.throttled:
            if self.unhandled >= limits.READ_CHUNK_BYTES:
                return True
            handles_soon = self._pending is None or self._pending_has_no_response
            return handles_soon and any(frame[:2] == _PRODUCE_KEY for frame in self._backlog)
        return bool(self._backlog) or self.write_blocked or self._out_bytes >= limits.WRITE_HIGH_BYTES

    @property
    def waits_for_memory(self) -> bool:
        """Whether the rest of a partly received frame is not read, because the byte budget (the limit on the memory of all connections) is
        exhausted."""
        return self._begun_while_exhausted and self._budget.is_exhausted()

    @property
    def runnable(self) -> bool:
        """Whether `run` would do something: handle a request, or end the session because of invalid bytes. If so, `paused` is true, too."""
        return (bool(self._backlog) or self._frame_error is not None) and not self._ending and not self._is_full()

    def _is_full(self) -> bool:
        return self._pending is not None or self.throttled or self.write_blocked or self._out_bytes >= limits.WRITE_HIGH_BYTES

    def receive(self, data: Buffer) -> None:
        """Split received bytes into requests and handle those that need not wait (see `run`). Bytes after the end of the session are
        ignored.
        """
        if self._ending or self._frame_error is not None:
            return
        in_front = self.unhandled or self._pending is not None or self.throttled or self.write_blocked
        if not in_front and type(data) is bytes:
            data = self._answer_by_fast_path(data)
            if not data:
                return
        self.unhandled += len(data)
        self._arrived_while_exhausted = self._budget.is_exhausted()
        if self._backlog:
            self._keep_unsplit(data)
        else:
            self._split(data)
        self.run()

    def _keep_unsplit(self, data: Buffer) -> None:
        """Append received bytes to those that are not split into frames yet, because earlier frames are not handled yet."""
        reader = self._reader
        if type(reader.unsplit) is not bytearray:
            reader.unsplit = bytearray(reader.unsplit)
        reader.unsplit += data

    def _split(self, data: Buffer) -> None:
        """Move the first frames of `data`, as many as one turn may handle, to the backlog. The bytes after them remain unsplit, because a
        frame takes 190 bytes of memory besides its own."""
        reader = self._reader
        memory_is_short = self._arrived_while_exhausted
        goes_on = memory_is_short and reader.held_bytes
        frames: Sequence[Buffer]
        try:
            frames = reader.feed(data, limits.REQUESTS_PER_TURN)
        except FrameTooLarge as error:
            frames = error.frames
            # its traceback would keep the received data alive until the garbage collector finds the session
            self._frame_error = error.with_traceback(None)
        self._backlog.extend(frames)
        if not memory_is_short:
            self._begun_while_exhausted = False
        elif frames or not goes_on:
            self._begun_while_exhausted = bool(reader.held_bytes)

    def _answer_by_fast_path(self, data: bytes) -> Buffer:
        """Answer requests in `data` with `try_fast_path`, until it returns None for a request, output is at its limit, or the turn is over.
        Return the bytes that were not handled.
        """
        at, end, turn_end_ns = 0, len(data), 0
        for _ in range(limits.REQUESTS_PER_TURN):
            if self._out_bytes >= limits.WRITE_HIGH_BYTES or self.throttled:
                break
            found = self._try_fast_path(data, at)
            if found is None:
                break
            reply, at = found
            if type(reply) is list:
                self._out += reply
                self._out_bytes += len(reply[0])
            else:
                self._take(reply)
            if at >= end:  # most reads have one request, and do not look at the clock
                break
            if not turn_end_ns:
                turn_end_ns = self._spent_ns() + limits.SLICE_NS
            elif self._spent_ns() >= turn_end_ns:
                break
        return memoryview(data)[at:] if at else data

    def run(self) -> None:
        """Handle requests from the backlog (received, but not handled yet), in order, until one of these is true: the backlog is empty; a
        request's reply is not ready yet; the client is throttled, or unsent output is at its limit; this connection's turn is over
        (REQUESTS_PER_TURN or SLICE_MS). Invalid bytes end the session.
        """
        backlog = self._backlog
        turn = limits.REQUESTS_PER_TURN
        turn_end_ns = self._spent_ns() + limits.SLICE_NS if len(backlog) > 1 else 0
        while backlog and turn and not self._is_full():
            turn -= 1
            frame = backlog.popleft()
            self.unhandled -= PREFIX_BYTES + len(frame)
            try:
                reply = self._handle(frame)
            except ProtocolError as error:
                self._fail(error)
                break
            if type(reply) is list:
                self._out += reply
                for buffer in reply:
                    self._out_bytes += len(buffer)
            elif reply is not None:
                self._take(reply)
                if self._pending is not None:
                    self._pending_has_no_response = frame[:2] == _PRODUCE_KEY and acks_of(frame, int.from_bytes(frame[2:4], "big")) == 0
            if backlog:
                if self._spent_ns() >= turn_end_ns:
                    break
            elif self._reader.unsplit:
                data, self._reader.unsplit = self._reader.unsplit, b""
                self._split(data)
                turn_end_ns = turn_end_ns or self._spent_ns() + limits.SLICE_NS
        if self._frame_error is not None and not backlog and not self._is_full():
            self._fail(self._frame_error)
        if self.unhandled != self._accounted:
            self._account()

    def take_output(self) -> list[Buffer]:
        """Remove the unsent responses from the session and return them, in order."""
        out, self._out, self._out_bytes = self._out, [], 0
        return out

    def stop_reading(self) -> None:
        """End the session gracefully: a pending request is still answered; requests that were received but not handled are dropped."""
        self._ending = True
        self._backlog.clear()
        self._reader.drop()
        self._frame_error = None
        self.unhandled = 0
        self._account()

    def lost(self) -> None:
        """Drop all state, because the connection is closed.

        The handlers are dropped, too. They refer to the connection, which refers to the session, and such a cycle is freed only by the next
        full garbage collection. Until then, clients that connect and fail to authenticate 1,000 times a second would fill the memory.
        """
        self.stop_reading()
        self._pending = None
        self._out.clear()
        self._handle, self._try_fast_path, self._on_answered = _closed, _no_fast_path, _nothing

    def _take(self, reply: Reply | PendingReply) -> None:
        if isinstance(reply, list):
            self._out += reply
            self._out_bytes += sum(map(len, reply))
        elif not isinstance(reply, Action | None):
            self._pending = reply
            reply.add_done_callback(self._answered)
        if isinstance(reply, Action | FinalResponse):
            self.stop_reading()

    def _answered(self, pending: PendingReply) -> None:
        if pending is self._pending:  # otherwise the connection is closed
            self._pending = None
            self._take(CLOSE if pending.cancelled() else pending.result())
            self._on_answered()

    def _fail(self, error: ProtocolError) -> None:
        peer_logger.warning("Closing a connection: %s", error)
        self.stop_reading()

    def _account(self) -> None:
        self._budget.used += self.unhandled - self._accounted
        self._accounted = self.unhandled
