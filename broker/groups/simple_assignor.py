"""Kafka's assignor `simple`, which shares partitions among the members of a share group.

Invariants:

* Each assignable partition has at least one member if a member subscribes to its topic; a member has partitions of its topics only.
* With more members than partitions, a partition has several members, as evenly as possible.
* A member keeps as many partitions of its previous target as the balance allows.
* Members and partitions are processed in the order of Java's hash maps, so that equal groups get equal assignments from Kafka and Ottla.

Source: Kafka's SimpleAssignor, SimpleHomogeneousAssignmentBuilder, SimpleHeterogeneousAssignmentBuilder.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from math import ceil

from ottla.broker.core.java_hash import in_hash_order, string_hash, uuid_hash
from ottla.broker.groups.assignors import Subscriber
from ottla.broker.groups.consumer_member import Assignment

SIMPLE = "simple"

_TopicIdPartition = tuple[bytes, int]
"""A topic id and a partition."""


def assign_simple(members: Mapping[str, Subscriber], assignable: Mapping[bytes, frozenset[int]]) -> dict[str, Assignment]:
    """Return each member's partitions by Kafka's assignor `simple`. `assignable` has the partitions that can be assigned, by topic id, of
    existing topics.
    """
    order = in_hash_order(members, string_hash)
    topics = frozenset().union(*(member.topics for member in members.values()))
    if len({member.topics for member in members.values()}) == 1:
        parts = [_Distribution(order, _tps(topics, assignable), _hash_of_tp)]
    else:
        parts = [
            _Distribution(
                [member_id for member_id in order if topic_id in members[member_id].topics],
                _tps({topic_id}, assignable),
                _partition_of_tp,
            )
            for topic_id in sorted(topics)
        ]
    assigned: dict[str, list[_TopicIdPartition]] = {member_id: [] for member_id in order}
    for part in parts:
        part.keep(members)
        part.hand_out()
        for member_id, tps in part.kept.items():
            assigned[member_id] += tps
    return {member_id: _assignment(tps) for member_id, tps in assigned.items()}


class _Distribution:
    """The distribution of partitions (`tps`) among members that all subscribe to the partitions' topics. `hash_of` returns Java's hash of a
    partition.
    """

    def __init__(self, order: list[str], tps: list[_TopicIdPartition], hash_of: Callable[[_TopicIdPartition], int]) -> None:
        self.kept: dict[str, list[_TopicIdPartition]] = {}
        """The partitions assigned so far, by member id."""
        self._tps = tps
        self._hash_of = hash_of
        self._holders: dict[_TopicIdPartition, list[str]] = {}
        self._members_per_partition = ceil(len(order) / len(tps)) if tps else 0
        """The number of members that each partition should have."""
        precise = self._members_per_partition * len(tps) / len(order)
        self._partitions_per_member = {member_id: ceil(precise * (i + 1)) - ceil(precise * i) for i, member_id in enumerate(order)}
        """The number of partitions that each member should have, by member id."""

    def keep(self, members: Mapping[str, Subscriber]) -> None:
        """Start from the previous target assignment. A member with more partitions than it should have loses the first of them in Java's
        hash order. Then a partition with more members than it should have is taken from the first of these members."""
        assignable = set(self._tps)
        for member_id, wanted in self._partitions_per_member.items():
            before = [(topic_id, partition) for topic_id, own in members[member_id].before.items() for partition in sorted(own)]
            had = in_hash_order((tp for tp in before if tp in assignable), self._hash_of)
            self.kept[member_id] = had[max(len(had) - wanted, 0) :]
            for tp in self.kept[member_id]:
                self._holders.setdefault(tp, []).append(member_id)
        for tp in self._in_order(self._holders):
            while len(self._holders[tp]) > self._members_per_partition:
                self.kept[self._holders[tp].pop(0)].remove(tp)

    def hand_out(self) -> None:
        """Give partitions that have too few members to members that have too few partitions, in turn.

        A partition keeps too few members if every member with too few partitions already has it.
        """
        unfilled = [member_id for member_id, wanted in self._partitions_per_member.items() if len(self.kept[member_id]) < wanted]
        turn, given = 0, False
        for tp in self._in_order([*self._holders, *self._tps]):
            missing = self._members_per_partition - len(self._holders.get(tp, ()))
            while missing > 0 and unfilled:
                if turn >= len(unfilled):
                    if not given:
                        break
                    turn, given = 0, False
                member_id = unfilled[turn]
                if tp in self.kept[member_id]:
                    turn += 1
                    continue
                self.kept[member_id].append(tp)
                missing, given = missing - 1, True
                if len(self.kept[member_id]) >= self._partitions_per_member[member_id]:
                    del unfilled[turn]
                else:
                    turn += 1

    def _in_order(self, tps: Iterable[_TopicIdPartition]) -> list[_TopicIdPartition]:
        """Return the partitions in the iteration order of a Java HashMap with room for all of them (Kafka's AssignorHelpers.newHashMap)."""
        return in_hash_order(tps, self._hash_of, int((len(self._tps) + 1) / 0.75 + 1))


def _tps(topics: Iterable[bytes], assignable: Mapping[bytes, frozenset[int]]) -> list[_TopicIdPartition]:
    return [(topic_id, partition) for topic_id in sorted(topics) for partition in sorted(assignable.get(topic_id, ()))]


def _assignment(tps: Iterable[_TopicIdPartition]) -> Assignment:
    found: dict[bytes, frozenset[int]] = {}
    for topic_id, partition in tps:
        found[topic_id] = found.get(topic_id, frozenset()) | {partition}
    return found


def _hash_of_tp(tp: _TopicIdPartition) -> int:
    return (31 * uuid_hash(tp[0]) + tp[1]) & 0xFFFFFFFF


def _partition_of_tp(tp: _TopicIdPartition) -> int:
    return tp[1]
