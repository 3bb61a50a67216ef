"""Kafka's server-side assignors `uniform` and `range`, which assign partitions to the members of a consumer group.

Invariants:

* Every partition of a subscribed topic is assigned to exactly one member, which subscribes to the topic. Others are not assigned.
* `uniform` is balanced: no partition can be moved, directly or by a chain of moves, so that two members' loads get closer. Among balanced
  assignments it keeps most of the current one: a member with an unchanged subscription loses a partition only for balance.
* `range` assigns each topic's partitions in ranges to its subscribers in a fixed order, so that equal topics are divided equally
  (co-partitioned). It is not sticky.
* The same input gives the same output: members and topics are always processed in sorted order.

Source: Kafka's UniformAssignor (its two builders), RangeAssignor; for differing subscriptions the cost-reducing paths of optimal
semi-matchings (Harvey, Ladner, Lovász, Tamir 2006), where Kafka only makes single moves.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from heapq import heapify, heapreplace

from ottla.broker.groups.consumer_member import Assignment

UNIFORM = "uniform"
RANGE = "range"


@dataclass(frozen=True, slots=True)
class Subscriber:
    """One member's part of an assignor's input: `topics` has the ids of its subscribed topics that exist, `before` is its previous target
    assignment."""

    topics: frozenset[bytes]
    instance_id: str | None = None
    before: Assignment = field(default_factory=dict)


Assignor = Callable[[Mapping[str, Subscriber], Mapping[bytes, int]], dict[str, Assignment]]
"""A server-side assignor: a function that gets the members by id and the partition counts by topic id, and returns each member's assignment
by member id.
"""

_Mutable = dict[str, dict[bytes, set[int]]]


def assign_range(members: Mapping[str, Subscriber], topics: Mapping[bytes, int]) -> dict[str, Assignment]:
    """Return each member's partitions by Kafka's assignor `range`: static members first, by instance id, then the others by member id."""
    assigned: _Mutable = {member_id: {} for member_id in members}
    order = sorted(members, key=lambda member_id: _range_order(member_id, members[member_id]))
    for topic_id, count in topics.items():
        subscribers = [member_id for member_id in order if topic_id in members[member_id].topics]
        start = 0
        for i, member_id in enumerate(subscribers):
            size = count // len(subscribers) + (i < count % len(subscribers))
            if size:
                assigned[member_id][topic_id] = set(range(start, start + size))
            start += size
    return _frozen(assigned)


def assign_uniform(members: Mapping[str, Subscriber], topics: Mapping[bytes, int]) -> dict[str, Assignment]:
    """Return each member's partitions by Kafka's default assignor `uniform`; `topics` has the partition counts by topic id."""
    if not members:
        return {}
    same = len({member.topics for member in members.values()}) == 1
    builder = _AssignmentBuilder(members, topics)
    if same:
        builder.trim_to_quota()
    builder.hand_out_rest()
    if not same:
        builder.balance()
    return _frozen(builder.assigned)


ASSIGNORS: dict[str, Assignor] = {UNIFORM: assign_uniform, RANGE: assign_range}


class _AssignmentBuilder:
    """An assignment under construction. Initially each member has the partitions of its previous target assignment, without those of
    topics that were deleted or that it no longer subscribes to."""

    def __init__(self, members: Mapping[str, Subscriber], topics: Mapping[bytes, int]) -> None:
        self.members = dict(sorted(members.items()))
        self.topics = dict(sorted(topics.items()))
        self.subscribers = {topic_id: [m for m, one in self.members.items() if topic_id in one.topics] for topic_id in self.topics}
        self.assigned: _Mutable = {member_id: {} for member_id in self.members}
        self.count = dict.fromkeys(self.members, 0)
        self.rest: dict[bytes, set[int]] = {
            topic_id: set(range(count)) for topic_id, count in self.topics.items() if self.subscribers[topic_id]
        }
        for member_id, member in self.members.items():
            for topic_id, partitions in sorted(member.before.items()):
                if topic_id in member.topics:
                    self._give(member_id, topic_id, self.rest.get(topic_id, set()) & partitions)

    def trim_to_quota(self) -> None:
        """If all members have the same subscription, unassign the partitions that exceed each member's share.

        The share is the number of partitions divided by the number of members, rounded down. If the remainder is n, the first n members
        that have more partitions than the share keep one partition above it.
        """
        total = sum(self.topics[topic_id] for topic_id in self.rest)
        share, extra = divmod(total, len(self.members))
        for member_id in self.members:
            quota = share
            if extra and self.count[member_id] > share:
                quota, extra = share + 1, extra - 1
            for _ in range(self.count[member_id] - quota):
                topic_id, partition = self._last_of(member_id)
                self._take(member_id, topic_id, {partition})
                self.rest[topic_id].add(partition)

    def hand_out_rest(self) -> None:
        """Give each unassigned partition to that subscriber of its topic which has the fewest partitions. Topics with few subscribers are
        processed first."""
        for topic_id in sorted(self.rest, key=lambda topic_id: (len(self.subscribers[topic_id]), topic_id)):
            if not self.rest[topic_id]:
                continue
            heap = [(self.count[member_id], member_id) for member_id in self.subscribers[topic_id]]
            heapify(heap)
            for partition in sorted(self.rest[topic_id]):
                count, member_id = heap[0]
                self._give(member_id, topic_id, {partition})
                heapreplace(heap, (count + 1, member_id))

    def balance(self) -> None:
        """Move partitions along chains of members (each member gives one partition to the next) until there is no chain whose first member
        has at least two partitions more than its last."""
        moved = True
        while moved:
            moved = False
            for member_id in sorted(self.members, key=lambda one: -self.count[one]):
                while (chain := self._chain_from(member_id)) is not None:
                    moved = True
                    for giver, topic_id, taker in chain:
                        partition = max(self.assigned[giver][topic_id])
                        self._take(giver, topic_id, {partition})
                        self.assigned[taker].setdefault(topic_id, set()).add(partition)
                        self.count[taker] += 1

    def _chain_from(self, start: str) -> list[tuple[str, bytes, str]] | None:
        """Return the shortest chain of moves (giver, topic, taker) from `start` to a member with at least two partitions less; None if
        there is none."""
        came_from: dict[str, tuple[str, bytes]] = {}
        seen, seen_topics, queue = {start}, set(), deque([start])
        while queue:
            giver = queue.popleft()
            for topic_id in self.assigned[giver]:
                if topic_id in seen_topics:
                    continue
                seen_topics.add(topic_id)
                for taker in self.subscribers[topic_id]:
                    if taker in seen:
                        continue
                    seen.add(taker)
                    came_from[taker] = (giver, topic_id)
                    if self.count[taker] <= self.count[start] - 2:
                        return self._chain_to(taker, start, came_from)
                    queue.append(taker)
        return None

    @staticmethod
    def _chain_to(end: str, start: str, came_from: dict[str, tuple[str, bytes]]) -> list[tuple[str, bytes, str]]:
        chain = []
        while end != start:
            giver, topic_id = came_from[end]
            chain.append((giver, topic_id, end))
            end = giver
        return chain

    def _give(self, member_id: str, topic_id: bytes, partitions: set[int]) -> None:
        if partitions:
            self.assigned[member_id].setdefault(topic_id, set()).update(partitions)
            self.count[member_id] += len(partitions)
            self.rest[topic_id] -= partitions

    def _take(self, member_id: str, topic_id: bytes, partitions: set[int]) -> None:
        left = self.assigned[member_id][topic_id]
        left -= partitions
        self.count[member_id] -= len(partitions)
        if not left:
            del self.assigned[member_id][topic_id]

    def _last_of(self, member_id: str) -> tuple[bytes, int]:
        topic_id = max(self.assigned[member_id])
        return topic_id, max(self.assigned[member_id][topic_id])


def _range_order(member_id: str, member: Subscriber) -> tuple[bool, str]:
    return member.instance_id is None, member.instance_id or member_id


def _frozen(assigned: _Mutable) -> dict[str, Assignment]:
    return {
        member_id: {topic_id: frozenset(partitions) for topic_id, partitions in topics.items()} for member_id, topics in assigned.items()
    }
