"""Distributes replicas over racks, and within racks over brokers (Kafka's `StripedReplicaPlacer`).

Invariants:
- A partition's first replica is on an unfenced broker, and no two replicas are on one broker; fenced brokers come last.
- Racks, and the brokers of a rack, are taken round-robin from a random start, which advances by one per partition. After as many
  partitions as there are unfenced brokers, racks and brokers are shuffled.
- Random numbers are drawn in Kafka's order. With the numbers of Java's generator, the placement would equal Kafka's.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import NamedTuple, TypeVar

from ottla.broker.core.java_hash import in_hash_order, string_hash
from ottla.broker.core.rejected import Rejected
from ottla.protocol.error_codes import ErrorCode

T = TypeVar("T")
RandomBelow = Callable[[int], int]
"""A function that returns a random integer from 0 up to, but excluding, its argument."""


class UsableBroker(NamedTuple):
    """A broker on which replicas of new partitions can be placed."""

    broker_id: int
    rack: str | None
    fenced: bool


def place_replicas(brokers: Iterable[UsableBroker], partitions: int, replicas: int, below: RandomBelow) -> list[list[int]]:
    """Return the broker ids of each of `partitions` new partitions with `replicas` replicas, the preferred leader first. Raises Rejected
    (INVALID_REPLICATION_FACTOR) if `replicas` is not positive or exceeds the number of `brokers`, or if all brokers are fenced."""
    racks = _Racks(brokers, below)
    _check(replicas, racks)
    if racks.size == 1:
        return [racks.place(1)] * partitions
    return [racks.place(replicas) for _ in range(partitions)]


def _check(replicas: int, racks: _Racks) -> None:
    code = ErrorCode.INVALID_REPLICATION_FACTOR
    if replicas <= 0:
        raise Rejected(code, f"Invalid replication factor {replicas}: the replication factor must be positive.")
    if not racks.unfenced:
        raise Rejected(code, "All brokers are currently fenced, or have all their log directories cordoned.")
    if replicas > racks.size:
        text = (
            f"The target replication factor of {replicas} cannot be reached because only {racks.size} broker(s) are registered"
            " or some brokers have all their log directories cordoned."
        )
        raise Rejected(code, text)


class _Ring:
    """The fenced or the unfenced brokers of one rack, taken round-robin. The placement of one partition is a round, in which `next` returns
    each broker once and then None. Each round starts one broker further than the last.
    """

    def __init__(self) -> None:
        self.brokers: list[int] = []
        self._given = 0
        self._offset = 0
        self._round = 0

    def begin(self, below: RandomBelow) -> None:
        if self.brokers:
            self.brokers.sort()
            self._offset = below(len(self.brokers))

    def next(self, round_number: int) -> int | None:
        size = len(self.brokers)
        if not size:
            return None
        if self._round != round_number:
            self._round, self._given, self._offset = round_number, 0, (self._offset + 1) % size
        if self._given >= size:
            return None
        self._given += 1
        return self.brokers[(self._given - 1 + self._offset) % size]


class _Rack:
    def __init__(self) -> None:
        self.fenced = _Ring()
        self.unfenced = _Ring()

    def next(self, round_number: int) -> int | None:
        found = self.unfenced.next(round_number)
        return self.fenced.next(round_number) if found is None else found


class _Racks:
    """The racks of the cluster, taken round-robin: the placement of each new partition starts one rack further."""

    def __init__(self, brokers: Iterable[UsableBroker], below: RandomBelow) -> None:
        self._below = below
        self.size = self.unfenced = self._round = 0
        racks: dict[str | None, _Rack] = {}
        for broker in brokers:
            rack = racks.setdefault(broker.rack, _Rack())
            (rack.fenced if broker.fenced else rack.unfenced).brokers.append(broker.broker_id)
            self.size += 1
            self.unfenced += not broker.fenced
        self._racks = [racks[name] for name in in_hash_order(racks, lambda name: 0 if name is None else string_hash(name))]
        for rack in self._racks:
            rack.fenced.begin(below)
            rack.unfenced.begin(below)
        self._in_turn = [racks[name] for name in sorted(racks, key=lambda name: (name is not None, name or ""))]
        self._offset = below(len(racks)) if racks else 0

    def place(self, replicas: int) -> list[int]:
        if self._round == self.unfenced and self.unfenced > 1:
            self._shuffle_all()
        if self._offset == len(self._in_turn):
            self._offset = 0
        first_rack, leader = self._first()
        placed = [leader]
        at = self._offset
        passed_over = False
        while len(placed) < replicas:
            if at == first_rack and not passed_over:
                passed_over = True  # the leader has taken this rack's first turn
            elif (found := self._in_turn[at].next(self._round)) is not None:
                placed.append(found)
            at = (at + 1) % len(self._in_turn)
        self._round += 1
        self._offset += 1
        return placed

    def _first(self) -> tuple[int, int]:
        """Return the rack index and the broker id of the partition's first replica: an unfenced broker of the first rack that has one. The
        racks are tried round-robin, from the rack at which this partition starts.
        """
        at = self._offset
        while (found := self._in_turn[at].unfenced.next(self._round)) is None:
            at = (at + 1) % len(self._in_turn)
        return at, found

    def _shuffle_all(self) -> None:
        _shuffle(self._in_turn, self._below)
        for rack in self._racks:
            _shuffle(rack.fenced.brokers, self._below)
            _shuffle(rack.unfenced.brokers, self._below)
        self._round = 0


def _shuffle(items: list[T], below: RandomBelow) -> None:
    """Shuffle `items` in place, with the algorithm of `java.util.Collections.shuffle`; `below(n)` returns a random integer in [0, n)."""
    for size in range(len(items), 1, -1):
        other = below(size)
        items[size - 1], items[other] = items[other], items[size - 1]
