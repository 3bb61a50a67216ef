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

_Place = tuple[bytes, int]
"""A topic id and a partition."""


def assign_simple(members: Mapping[str, Subscriber], assignable: Mapping[bytes, frozenset[int]]) -> dict[str, Assignment]:
    """Return each member's partitions. `assignable` has the partitions by topic id, of topics that exist."""
    order = in_hash_order(members, string_hash)
    topics = frozenset().union(*(member.topics for member in members.values()))
    if len({member.topics for member in members.values()}) == 1:
        parts = [_Sharing(order, _places(topics, assignable), _hash_of_place)]
    else:
        parts = [
            _Sharing(
                [member_id for member_id in order if topic_id in members[member_id].topics],
                _places({topic_id}, assignable),
                _partition_of_place,
            )
            for topic_id in sorted(topics)
        ]
    assigned: dict[str, list[_Place]] = {member_id: [] for member_id in order}
    for part in parts:
        part.keep(members)
        part.hand_out()
        for member_id, places in part.kept.items():
            assigned[member_id] += places
    return {member_id: _assignment(places) for member_id, places in assigned.items()}


class _Sharing:
    """Partitions that are shared among members who all subscribe to their topics. `hash_of` is Java's hash of a partition."""

    def __init__(self, order: list[str], places: list[_Place], hash_of: Callable[[_Place], int]) -> None:
        self.kept: dict[str, list[_Place]] = {}
        """The partitions of each member."""
        self._places = places
        self._hash_of = hash_of
        self._holders: dict[_Place, list[str]] = {}
        self._sharing = ceil(len(order) / len(places)) if places else 0
        """The number of members that each partition should have."""
        precise = self._sharing * len(places) / len(order)
        self._wanted = {member_id: ceil(precise * (i + 1)) - ceil(precise * i) for i, member_id in enumerate(order)}
        """The number of partitions that each member should have."""

    def keep(self, members: Mapping[str, Subscriber]) -> None:
        """Start from the previous target assignment: a member with more partitions than it should have loses its first ones, and then a
        partition with more members than it should have loses its first ones, in Java's hash order."""
        assignable = set(self._places)
        for member_id, wanted in self._wanted.items():
            before = [(topic_id, partition) for topic_id, own in members[member_id].before.items() for partition in sorted(own)]
            had = in_hash_order((place for place in before if place in assignable), self._hash_of)
            self.kept[member_id] = had[max(len(had) - wanted, 0) :]
            for place in self.kept[member_id]:
                self._holders.setdefault(place, []).append(member_id)
        for place in self._in_order(self._holders):
            while len(self._holders[place]) > self._sharing:
                self.kept[self._holders[place].pop(0)].remove(place)

    def hand_out(self) -> None:
        """Give partitions that have too few members to members that have too few partitions, in turn.

        A partition keeps too few members if every member with too few partitions already has it.
        """
        unfilled = [member_id for member_id, wanted in self._wanted.items() if len(self.kept[member_id]) < wanted]
        turn, given = 0, False
        for place in self._in_order([*self._holders, *self._places]):
            missing = self._sharing - len(self._holders.get(place, ()))
            while missing > 0 and unfilled:
                if turn >= len(unfilled):
                    if not given:
                        break
                    turn, given = 0, False
                member_id = unfilled[turn]
                if place in self.kept[member_id]:
                    turn += 1
                    continue
                self.kept[member_id].append(place)
                missing, given = missing - 1, True
                if len(self.kept[member_id]) >= self._wanted[member_id]:
                    del unfilled[turn]
                else:
                    turn += 1

    def _in_order(self, places: Iterable[_Place]) -> list[_Place]:
        """Return places in the iteration order of a Java HashMap that has room for all partitions (Kafka's AssignorHelpers.newHashMap)."""
        return in_hash_order(places, self._hash_of, int((len(self._places) + 1) / 0.75 + 1))


def _places(topics: Iterable[bytes], assignable: Mapping[bytes, frozenset[int]]) -> list[_Place]:
    return [(topic_id, partition) for topic_id in sorted(topics) for partition in sorted(assignable.get(topic_id, ()))]


def _assignment(places: Iterable[_Place]) -> Assignment:
    found: dict[bytes, frozenset[int]] = {}
    for topic_id, partition in places:
        found[topic_id] = found.get(topic_id, frozenset()) | {partition}
    return found


def _hash_of_place(place: _Place) -> int:
    return (31 * uuid_hash(place[0]) + place[1]) & 0xFFFFFFFF


def _partition_of_place(place: _Place) -> int:
    return place[1]
