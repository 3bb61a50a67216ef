"""Who waits for a place in a log, and for what: that it is on this replica's disk, or that it is committed.

No wait outlives the leadership of its replica: a high watermark that passes the same offset later may pass other records (KAFKA-20634).
When the same replica is elected again it has kept its log, so a producer waits on; a coordinator does not, whose state is of one epoch.
"""

from __future__ import annotations

from collections import deque
from enum import Enum
from typing import Final, Generic, TypeVar

Ticket = TypeVar("Ticket")


class Condition(Enum):
    """What an acknowledgement waits for. Appended here is none of them: that is so when the append returns."""

    ON_DISK = "on disk"
    """This replica may rely on its own copy: acks=1."""
    REPLICATED = "replicated"
    """Every in-sync replica has it, and they are enough: acks=all."""
    COMMITTED = "committed"
    """Every in-sync replica has it, and the leader epoch is still that of the append: coordinators."""


ON_DISK: Final = Condition.ON_DISK
REPLICATED: Final = Condition.REPLICATED
"""Names of their own, because an enum's member is looked up anew each time, and every append asks for these."""


class Waits(Generic[Ticket]):
    """Tickets by condition, in the order of their offsets, which is that of the appends."""

    __slots__ = ("queues",)

    def __init__(self) -> None:
        self.queues: dict[Condition, deque[tuple[int, Ticket]]] = {}
        """Those that are not empty."""

    def add(self, condition: Condition, last_offset: int, ticket: Ticket) -> None:
        """`ticket` waits until the condition holds for `last_offset`."""
        self.queues.setdefault(condition, deque()).append((last_offset, ticket))

    def reached(self, condition: Condition, end: int) -> list[Ticket]:
        """Whose wait is over, now that the condition holds below `end`."""
        queue = self.queues.get(condition)
        done: list[Ticket] = []
        while queue and queue[0][0] < end:
            done.append(queue.popleft()[1])
        if queue is not None and not queue:
            del self.queues[condition]
        return done

    def drain(self, *conditions: Condition) -> list[Ticket]:
        """All who wait for one of `conditions`: what they wait in is over."""
        return [ticket for condition in conditions for _, ticket in self.queues.pop(condition, ())]
