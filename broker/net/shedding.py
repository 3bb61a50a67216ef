"""The choice of connections to close when all of them hold too much memory.

Rules:
* Only received bytes and bytes that the peer has not read count, not the announced size of a frame.
* Memory is short while the byte budget is exhausted. A connection that holds nothing is still read, so that small requests are answered.
  A request that was begun meanwhile and needs a second read waits; earlier ones are read to their end.
* LOOK_MS after memory became short, connections that moved too small a part of their bytes since then are closed, the largest first,
  until a part of the budget is free. This repeats while memory is short.
* Requests that were begun before may exceed the budget by one largest request or response. Above that the largest holders are closed at
  once, however fast they are.

Kafka's SimpleMemoryPool (queued.max.request.bytes) allows the same excess and has no rule against slow peers.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable
from typing import Protocol

from ottla.broker.core import limits
from ottla.broker.core.peer_log import PEERS
from ottla.broker.core.timers import Timers
from ottla.broker.net.session import ByteBudget

peer_logger = logging.getLogger(PEERS)


class Holder(Protocol):
    """A connection that may hold memory."""

    def held_bytes(self) -> int:
        """Return the bytes of unhandled requests and of responses that the peer has not read; 0 after the close."""

    def moved_bytes(self) -> int:
        """Return by how much `held_bytes` changed since the last call, in either direction."""

    def abort(self) -> None: ...


class Shedding:
    """The memory watch of a broker's connections. `largest` is the size of the largest request or response. `wake` is called when
    connections that wait for memory may read again.
    """

    def __init__(self, budget: ByteBudget, largest: int, timers: Timers, mono_ms: Callable[[], int], wake: Callable[[], None]) -> None:
        self._budget = budget
        self._most = budget.limit + largest
        self._timers = timers
        self._mono_ms = mono_ms
        self._wake = wake
        self._is_watching = False

    def memory_is_short(self, holders: Iterable[Holder]) -> None:
        """Start watching `holders`. If even the excess is used up, close the largest at once."""
        if self._budget.used > self._most:
            self._close([(holder.held_bytes(), holder) for holder in holders], self._budget.limit)
        if not self._is_watching:
            self._watch(holders)

    def _watch(self, holders: Iterable[Holder]) -> None:
        self._is_watching = True
        for holder in holders:
            holder.moved_bytes()
        self._timers.schedule(self._mono_ms() + limits.LOOK_MS, lambda: self._look(holders))

    def _look(self, holders: Iterable[Holder]) -> None:
        """Close slow holders, even if memory is not short at this moment: it was, and they hold memory that other connections need."""
        self._is_watching = False
        found = [(holder.held_bytes(), holder, holder.moved_bytes()) for holder in holders]
        slow = [(held, holder) for held, holder, moved in found if moved * limits.MOVED_PART < held]
        self._close(slow, self._budget.limit - self._budget.limit // limits.FREED_PART)
        self._wake()
        if self._budget.is_exhausted() and not self._is_watching:
            self._watch(holders)

    def _close(self, candidates: Iterable[tuple[int, Holder]], enough: int) -> None:
        """Close the largest candidates until all connections hold at most `enough` bytes."""
        left = self._budget.used
        for held, holder in sorted(candidates, key=lambda candidate: -candidate[0]):
            if left <= enough or not held:
                return
            peer_logger.warning("Closing a connection that holds %d bytes of memory and is too slow: all connections hold %d", held, left)
            left -= held
            holder.abort()
