"""What one connection does with bytes: frames in, replies out in order, and when to pause or close. No I/O, no loop, no clock.

Rules:
* requests are handled in the order they came, each the moment it may be; responses leave in the same order, whatever finishes first;
* a request without a response (acks=0) takes no place in that order;
* nothing further is started while unsent output (answers that wait for those before them included), what parked requests may bring,
  requests in flight, or the memory of all connections are at their limit, nor before others had their turn after REQUESTS_PER_TURN; what
  was read stays in the backlog (at most one read's worth), and the shell is told to stop reading;
* bytes that cannot be trusted, or a CLOSE reply, end the session once everything before them is answered. No later frame is handled.
"""

from __future__ import annotations

import logging
from collections import deque
from collections.abc import Callable
from typing import Protocol

from broker.api.reply import CLOSE, Action, Buffer, LastWords, Reply
from broker.core import limits
from broker.core.peer_log import PEERS
from protocol.errors import FrameTooLarge, ProtocolError
from protocol.frame import FrameReader

peer_logger = logging.getLogger(PEERS)


class PendingReply(Protocol):
    """The part of an asyncio.Future that the session needs."""

    def add_done_callback(self, callback: Callable[[PendingReply], object], /) -> None: ...
    def cancelled(self) -> bool: ...
    def result(self) -> Reply: ...


class Promises(Protocol):
    """The part of a peer that the session looks at."""

    promised_bytes: int
    """What the pending replies may bring."""


Handle = Callable[[Buffer], "Reply | PendingReply"]


class ByteBudget:
    """Bytes that all connections together hold: partly read frames, backlogs, answers that wait for their turn, unsent output."""

    __slots__ = ("limit", "used")

    def __init__(self, limit: int = limits.TOTAL_BUFFERED_BYTES) -> None:
        self.limit = limit
        self.used = 0

    @property
    def exhausted(self) -> bool:
        """True while no connection may start another frame."""
        return self.used >= self.limit

    @property
    def overdrawn(self) -> bool:
        """True when the frames that were begun before the limit was reached took as much again: those that grow further are given up."""
        return self.used >= 2 * self.limit


class _Slot:
    """The place of one response in the order; `reply` is set when it is there."""

    __slots__ = ("done", "reply")

    def __init__(self) -> None:
        self.done = False
        self.reply: Reply = None


class Session:
    """One connection's requests and responses. `on_output` is called when a pending reply made output (or room) outside of `receive`."""

    def __init__(
        self, handle: Handle, on_output: Callable[[], None], budget: ByteBudget, max_request_bytes: int, promises: Promises
    ) -> None:
        self._handle = handle
        self._on_output = on_output
        self._budget = budget
        self._promises = promises
        self._reader = FrameReader(max_request_bytes)
        self._backlog: deque[Buffer] = deque()
        self._slots: deque[_Slot] = deque()
        self._out: list[Buffer] = []
        self._out_bytes = 0
        self._queued_bytes = 0
        self._held = 0
        self.unframed = 0
        """Bytes of a frame that has not come whole."""
        self._ending = False
        self.write_blocked = False
        """Set by the shell while the transport holds more unsent bytes than it should."""

    @property
    def in_flight(self) -> int:
        """Requests that have a place in the order and are not answered yet."""
        return len(self._slots)

    @property
    def finished(self) -> bool:
        """True when nothing more will be read or written: close the transport."""
        return self._ending and not self._slots and not self._out

    @property
    def paused(self) -> bool:
        """True while the shell must not read."""
        return self._ending or bool(self._backlog) or self._full or (self._budget.exhausted and not self.unframed)

    @property
    def runnable(self) -> bool:
        """True when `run` would handle at least one request."""
        return bool(self._backlog) and not self._ending and not self._full

    @property
    def _full(self) -> bool:
        return (
            self.write_blocked
            or len(self._slots) >= limits.IN_FLIGHT_REQUESTS
            or self._out_bytes + self._queued_bytes >= limits.WRITE_HIGH_BYTES
            or self._promises.promised_bytes >= limits.PROMISED_BYTES
        )

    def receive(self, data: Buffer) -> None:
        """Take what the socket gave; handle every request that is complete and allowed."""
        if self._ending:
            return
        try:
            self._backlog.extend(self._reader.feed(data))
        except FrameTooLarge as error:
            self._backlog.extend(error.frames)
            while self.runnable:
                self.run()
            self._end(error)
            return
        self.unframed = self._reader.held_bytes
        self.run()
        if self.unframed or self._held or self._backlog:
            self._account()
            if self.unframed and self._budget.overdrawn:
                peer_logger.warning("Closing a connection amid a request: all connections hold %d bytes", self._budget.used)
                self.lost()

    def run(self) -> None:
        """Handle requests of the backlog until it is empty, a limit is reached, or others have to have their turn."""
        backlog = self._backlog
        turn = limits.REQUESTS_PER_TURN
        while backlog and turn and not self._ending and not self._full:
            turn -= 1
            try:
                reply = self._handle(backlog.popleft())
            except ProtocolError as error:
                self._end(error)
                return
            if type(reply) is list and not self._slots:
                self._out += reply
                for buffer in reply:
                    self._out_bytes += len(buffer)
            elif reply is not None:
                self._place(reply)
        if self._held or self._queued_bytes:
            self._account()

    def take_output(self) -> list[Buffer]:
        """What is to be written now, in order."""
        out, self._out, self._out_bytes = self._out, [], 0
        return out

    def stop_reading(self) -> None:
        """Graceful stop: answer what was started, handle nothing more."""
        self._ending = True
        self._drop_backlog()

    def lost(self) -> None:
        """The connection is gone: forget everything that would be written."""
        self._ending = True
        self._drop_backlog()
        self._forget_slots()
        self._out.clear()
        self.unframed = 0
        self._account()

    def _place(self, reply: Action | list[Buffer] | PendingReply) -> None:
        if isinstance(reply, Action):
            self._ending = True
            self._drop_backlog()
            return
        slot = _Slot()
        self._slots.append(slot)
        if isinstance(reply, list):
            self._fill(slot, reply)
            return

        def completed(pending: PendingReply) -> None:
            reply = CLOSE if pending.cancelled() else pending.result()
            if self._slots:
                self._fill(slot, reply)
                self._account()
                self._on_output()

        reply.add_done_callback(completed)

    def _fill(self, slot: _Slot, reply: Reply) -> None:
        slot.reply, slot.done = reply, True
        if isinstance(reply, list):
            self._queued_bytes += sum(map(len, reply))
        self._release()

    def _release(self) -> None:
        """Move the replies at the head of the order to the output."""
        slots = self._slots
        while slots and slots[0].done:
            reply = slots.popleft().reply
            if isinstance(reply, list):
                size = sum(map(len, reply))
                self._queued_bytes -= size
                self._out_bytes += size
                self._out += reply
            if isinstance(reply, Action | LastWords):
                self._ending = True
                self._forget_slots()
                self._drop_backlog()

    def _forget_slots(self) -> None:
        self._slots.clear()
        self._queued_bytes = 0

    def _end(self, error: ProtocolError) -> None:
        peer_logger.warning("Closing a connection: %s", error)
        self._ending = True
        self._drop_backlog()

    def _drop_backlog(self) -> None:
        self._backlog.clear()
        self._account()

    def _account(self) -> None:
        held = self.unframed + sum(map(len, self._backlog)) + self._queued_bytes
        self._budget.used += held - self._held
        self._held = held
