"""Chooses the connections to close when all connections together hold too much memory.

Rules:
* A connection's memory is the received bytes that are not handled, a large request that waits, and the responses that its peer has not
  read. The announced size of a frame does not count.
* The byte budget is the limit on the memory of all connections together; memory is short while the budget is exhausted. A connection
  without memory is still read, so that small requests are answered. If a request begins while memory is short and needs a second read, that
  read waits; a request that began earlier is read to its end.
* SLOW_CHECK_MS after memory became short, slow connections are closed, the largest first, until 1/FREED_PART of the budget is free. A
  connection is slow if its memory has changed by less than 1/MOVED_PART since. This is repeated every SLOW_CHECK_MS while memory is short.
  Connections whose read waits for memory are closed last: the broker stopped them, so nobody knows whether their peers are slow.
* Requests that began earlier may exceed the budget by the size of the largest request or response. Above that, the connections with the
  most memory are closed at once, even if they are fast.

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


class MemoryHolder(Protocol):
    """A connection whose memory can be measured, and that can be closed."""

    def held_bytes(self) -> int:
        """Return the bytes of unhandled requests and of responses that the peer has not read; 0 after the close."""

    def moved_bytes(self) -> int:
        """Return by how many bytes `held_bytes` changed since the last call, in either direction."""

    @property
    def waits_for_memory(self) -> bool:
        """Whether the broker does not read from the connection because memory is short."""

    def abort(self) -> None: ...


class MemoryPressure:
    """Closes connections while all connections together hold more memory than the limit `budget`. `largest` is the size in bytes of the
    largest request or response. `wake` is called after each check, so that connections that wait for memory are read again if memory is
    free."""

    def __init__(self, budget: ByteBudget, largest: int, timers: Timers, mono_ms: Callable[[], int], wake: Callable[[], None]) -> None:
        self._budget = budget
        self._max_bytes = budget.limit + largest
        self._timers = timers
        self._mono_ms = mono_ms
        self._wake = wake
        self._is_watching = False

    def memory_is_short(self, holders: Iterable[MemoryHolder]) -> None:
        """Start watching `holders`, the open connections. If together they exceed the limit on memory by more than `largest` bytes (the
        size of the largest request or response), close the connections with the most memory at once."""
        if self._budget.used > self._max_bytes:
            largest_first = sorted(((holder.held_bytes(), holder) for holder in holders), key=lambda candidate: -candidate[0])
            self._close(largest_first, self._budget.limit, "one of the largest")
        if not self._is_watching:
            self._watch(holders)

    def _watch(self, holders: Iterable[MemoryHolder]) -> None:
        self._is_watching = True
        for holder in holders:
            holder.moved_bytes()
        self._timers.schedule(self._mono_ms() + limits.SLOW_CHECK_MS, lambda: self._close_slow(holders))

    def _close_slow(self, holders: Iterable[MemoryHolder]) -> None:
        """Close slow connections until 1/FREED_PART of the byte budget (the limit on the memory of all connections) is free. Resume the
        connections that wait for memory, and schedule the next check while the budget is exhausted. Slow connections are closed even if the
        budget is not exhausted any more, because other connections still wait for memory."""
        self._is_watching = False
        found = [(holder.held_bytes(), holder, holder.moved_bytes()) for holder in holders]
        slow = [(held, holder) for held, holder, moved in found if moved * limits.MOVED_PART < held]
        slow.sort(key=lambda candidate: (candidate[1].waits_for_memory, -candidate[0]))
        self._close(slow, self._budget.limit - self._budget.limit // limits.FREED_PART, "too slow")
        self._wake()
        if self._budget.is_exhausted() and not self._is_watching:
            self._watch(holders)

    def _close(self, candidates: Iterable[tuple[int, MemoryHolder]], enough: int, reason: str) -> None:
        """Close candidates in their order until all connections together hold at most `enough` bytes. A candidate is a pair: the bytes that
        a connection holds, and the connection. `reason` is for the log.
        """
        left = self._budget.used
        for held, holder in candidates:
            if left <= enough:
                return
            if not held:
                continue
            peer_logger.warning(
                "Closing a connection that holds %d bytes of memory and is %s: all connections hold %d bytes", held, reason, left
            )
            left -= held
            holder.abort()
