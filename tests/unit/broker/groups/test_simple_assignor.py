from __future__ import annotations

import random

import pytest

from ottla.broker.groups.assignors import Subscriber
from ottla.broker.groups.consumer_member import Assignment
from ottla.broker.groups.simple_assignor import assign_simple

T, U = b"t" * 16, b"u" * 16


def members(*names: str, topics: frozenset[bytes] = frozenset({T}), before: dict[str, Assignment] | None = None) -> dict[str, Subscriber]:
    return {name: Subscriber(topics, before=(before or {}).get(name, {})) for name in names}


def holders(targets: dict[str, Assignment], topic_id: bytes, partition: int) -> int:
    return sum(partition in target.get(topic_id, ()) for target in targets.values())


def test_one_member_gets_every_partition() -> None:
    assert assign_simple(members("a"), {T: frozenset({0, 1, 2})}) == {"a": {T: frozenset({0, 1, 2})}}


def test_partitions_are_divided_among_fewer_members() -> None:
    targets = assign_simple(members("a", "b"), {T: frozenset(range(4))})
    assert [holders(targets, T, partition) for partition in range(4)] == [1] * 4
    assert [len(targets[name][T]) for name in "ab"] == [2, 2]


def test_a_partition_is_shared_by_more_members() -> None:
    targets = assign_simple(members("a", "b", "c", "d", "e"), {T: frozenset({0, 1})})
    assert all(len(target[T]) >= 1 for target in targets.values())
    assert sorted(holders(targets, T, partition) for partition in (0, 1)) == [3, 3]


def test_members_only_lose_partitions_when_another_member_joins() -> None:
    before = assign_simple(members("a", "b"), {T: frozenset(range(4))})
    after = assign_simple(members("a", "b", "c", before=before), {T: frozenset(range(4))})
    for name in "ab":
        assert after[name][T] <= before[name][T]
    assert all(holders(after, T, partition) == 1 for partition in range(4))


def test_a_member_gets_partitions_of_its_own_topics_only() -> None:
    group = members("a") | members("b", topics=frozenset({U})) | members("c", topics=frozenset({T, U}))
    targets = assign_simple(group, {T: frozenset({0, 1}), U: frozenset({0})})
    assert (U in targets["a"], T in targets["b"]) == (False, False)
    assert [holders(targets, T, partition) for partition in (0, 1)] == [1, 1]
    assert holders(targets, U, 0) == 2


def test_partitions_without_state_are_not_assigned() -> None:
    assert assign_simple(members("a", topics=frozenset({T, U})), {T: frozenset({1})}) == {"a": {T: frozenset({1})}}
    assert assign_simple(members("a"), {}) == {"a": {}}
    assert assign_simple({}, {T: frozenset({0})}) == {}


@pytest.mark.parametrize("seed", range(50))
def test_every_assignable_partition_has_a_member(seed: int) -> None:
    print(f"seed {seed}")
    drawn = random.Random(seed)
    assignable = {topic: frozenset(range(drawn.randrange(5))) for topic in (T, U)}
    group: dict[str, Subscriber] = {}
    for step in range(20):
        group = {name: member for name, member in group.items() if drawn.random() < 0.8}
        group[f"m{step}"] = Subscriber(frozenset(drawn.sample((T, U), drawn.randint(1, 2))))
        targets = assign_simple(group, assignable)
        for name, target in targets.items():
            assert target.keys() <= group[name].topics
        for topic in frozenset().union(*(member.topics for member in group.values())):
            assert all(holders(targets, topic, partition) for partition in assignable[topic]), (step, targets)
        group = {name: Subscriber(member.topics, before=targets[name]) for name, member in group.items()}
