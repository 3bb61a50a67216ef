"""Who waits for a place in a log, and for what: that it is on this replica's disk, or that it is committed.

A wait belongs to the leadership in which its records were appended. When that ends every wait fails: a high watermark that passes the same
offset later may pass other records (KAFKA-20634).
"""

from __future__ import annotations

from collections import deque
from enum import Enum
from typing import Generic, TypeVar

Ticket = TypeVar("Ticket")


class Condition(Enum):
    """What an acknowledgement waits for. Appended here is none of them: that is so when the append returns."""

    ON_DISK = "on disk"
    """This replica may rely on its own copy: acks=1."""
    COMMITTED = "committed"
    """Every in-sync replica has it: acks=all."""


class Waits(Generic[Ticket]):
    """Tickets by condition, in the order of their offsets, which is that of the appends."""

    __slots__ = ("_queues",)

    def __init__(self) -> None:
        self._queues: dict[Condition, deque[tuple[int, Ticket]]] = {}

    def __bool__(self) -> bool:
        return bool(self._queues)

    def add(self, condition: Condition, last_offset: int, ticket: Ticket) -> None:
        """`ticket` waits until the condition holds for `last_offset`."""
        self._queues.setdefault(condition, deque()).append((last_offset, ticket))

    def reached(self, condition: Condition, end: int) -> list[Ticket]:
        """Whose wait is over, now that the condition holds below `end`."""
        queue = self._queues.get(condition)
        done: list[Ticket] = []
        while queue and queue[0][0] < end:
            done.append(queue.popleft()[1])
        if queue is not None and not queue:
            del self._queues[condition]
        return done

    def drain(self) -> list[Ticket]:
        """All who wait: the leadership is over."""
        left = [ticket for queue in self._queues.values() for _, ticket in queue]
        self._queues.clear()
        return left
