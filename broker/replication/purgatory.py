"""Pending acknowledgements of appends, by condition and offset.

A wait never outlives the leadership of its replica, because a later high watermark may pass the same offset with other records
(KAFKA-20634). When the same replica is elected again, its log is unchanged, so the acknowledgements of producers stay pending. Those of
group and transaction coordinators fail, because a coordinator's state belongs to one leader epoch.
"""

from __future__ import annotations

from collections import deque
from enum import Enum
from typing import Final, Generic, TypeVar

PendingT = TypeVar("PendingT")


class Condition(Enum):
    """The condition under which an append is acknowledged. There is none for acks=0, which is not acknowledged."""

    IN_OWN_LOG = "in own log"
    """The leader's log has the record, synced to disk if flush.messages requires it: acks=1."""
    REPLICATED = "replicated"
    """Every in-sync replica has the record, and the ISR is large enough: acks=all."""
    COMMITTED = "committed"
    """Every in-sync replica has the record, and the leader epoch is still that of the append: writes of a coordinator."""


IN_OWN_LOG: Final = Condition.IN_OWN_LOG
REPLICATED: Final = Condition.REPLICATED
"""Each member of `Condition` is also a constant of this module, because every append uses the members, and an attribute lookup on an enum
class is slower."""


class Purgatory(Generic[PendingT]):
    """The pending acknowledgements of each condition, in offset order, which is the order of the appends."""

    __slots__ = ("queues",)

    def __init__(self) -> None:
        self.queues: dict[Condition, deque[tuple[int, PendingT]]] = {}
        """The pending acknowledgements of each condition, in pairs with the last offset of their append; an empty queue is removed."""

    def add(self, condition: Condition, last_offset: int, pending: PendingT) -> None:
        """Add a pending acknowledgement, which waits until the condition holds for the record at `last_offset`."""
        self.queues.setdefault(condition, deque()).append((last_offset, pending))

    def reached(self, condition: Condition, end: int) -> list[PendingT]:
        """Remove and return the acknowledgements that are due, now that the condition holds below offset `end`."""
        queue = self.queues.get(condition)
        done: list[PendingT] = []
        while queue and queue[0][0] < end:
            done.append(queue.popleft()[1])
        if queue is not None and not queue:
            del self.queues[condition]
        return done

    def drain(self, *conditions: Condition) -> list[PendingT]:
        """Remove and return all pending acknowledgements that wait for one of `conditions`. The caller fails them."""
        return [pending for condition in conditions for _, pending in self.queues.pop(condition, ())]
