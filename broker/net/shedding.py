"""Decides which connections give back memory when all of them together hold too much of it.

Rules:
* Only bytes that arrived, or that the peer has not taken, count; an announced size does not.
* Memory is short while the byte budget is spent. A connection that holds nothing is read all the same, so that small requests are
  answered; a request that was begun meanwhile and needs a second read waits, and earlier ones are read to their end.
* LOOK_MS after memory became short, the connections are closed that moved too small a part of what they hold since then, the largest of
  them first, until a part of the budget is free again. This repeats while memory is short.
* What was begun before may exceed the budget by one largest request or response. Beyond it the largest holders are closed at once, whatever
  they move.

Kafka's SimpleMemoryPool (queued.max.request.bytes) allows the same excess, and has no rule against slow peers.
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
        """Bytes of requests that were not handled and of responses that the peer has not taken; 0 once it is closed."""

    def moved_bytes(self) -> int:
        """By how much these changed since the last call."""

    def abort(self) -> None: ...


class Shedding:
    """Watches the connections of a broker. `largest`: bytes of the largest request or response. `wake` is called when connections that wait
    for memory may read on."""

    def __init__(self, budget: ByteBudget, largest: int, timers: Timers, mono_ms: Callable[[], int], wake: Callable[[], None]) -> None:
        self._budget = budget
        self._most = budget.limit + largest
        self._timers = timers
        self._mono_ms = mono_ms
        self._wake = wake
        self._is_watching = False

    def memory_is_short(self, holders: Iterable[Holder]) -> None:
        """Begin to watch `holders`; close the largest at once where even the excess is used up."""
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
        """Close slow holders, also where memory is not short at this very moment: it was, and they hold what others are to have."""
        self._is_watching = False
        found = [(holder.held_bytes(), holder, holder.moved_bytes()) for holder in holders]
        slow = [(held, holder) for held, holder, moved in found if moved * limits.MOVED_PART < held]
        self._close(slow, self._budget.limit - self._budget.limit // limits.FREED_PART)
        self._wake()
        if self._budget.is_exhausted() and not self._is_watching:
            self._watch(holders)

    def _close(self, candidates: Iterable[tuple[int, Holder]], enough: int) -> None:
        """Close the largest of them until all connections hold no more than `enough`."""
        left = self._budget.used
        for held, holder in sorted(candidates, key=lambda candidate: -candidate[0]):
            if left <= enough or not held:
                return
            peer_logger.warning("Closing a connection that holds %d bytes of memory and is too slow: all connections hold %d", held, left)
            left -= held
            holder.abort()
