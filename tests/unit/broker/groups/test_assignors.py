from __future__ import annotations

from collections import Counter
from collections.abc import Mapping

from hypothesis import given
from hypothesis import strategies as st

from ottla.broker.groups.assignors import Subscriber, assign_range, assign_uniform
from ottla.broker.groups.consumer_member import Assignment
from tests.support.consumer_groups import topic_id

A, B, C = topic_id("a"), topic_id("b"), topic_id("c")


def readers(assigned: Mapping[str, Assignment]) -> Counter[tuple[bytes, int]]:
    return Counter((topic, p) for of in assigned.values() for topic, partitions in of.items() for p in partitions)


def sizes(assigned: Mapping[str, Assignment]) -> dict[str, int]:
    return {member_id: sum(map(len, of.values())) for member_id, of in assigned.items()}


def test_uniform_balances_the_partition_counts_over_all_topics() -> None:
    members = {name: Subscriber(frozenset({A, B})) for name in ("x", "y", "z")}
    assigned = assign_uniform(members, {A: 4, B: 3})
    assert sorted(sizes(assigned).values()) == [2, 2, 3]
    assert readers(assigned) == Counter([(A, p) for p in range(4)] + [(B, p) for p in range(3)])


def test_uniform_moves_only_what_balance_needs_for_a_new_member() -> None:
    before = assign_uniform({"x": Subscriber(frozenset({A})), "y": Subscriber(frozenset({A}))}, {A: 6})
    after = assign_uniform({name: Subscriber(frozenset({A}), before=before.get(name, {})) for name in ("x", "y", "z")}, {A: 6})
    assert sizes(after) == {"x": 2, "y": 2, "z": 2}
    assert after["x"][A] < before["x"][A]
    assert after["y"][A] < before["y"][A]


def test_uniform_keeps_a_balanced_assignment() -> None:
    before = {"x": {A: frozenset({1, 3})}, "y": {A: frozenset({0, 2, 4})}}
    assert assign_uniform({name: Subscriber(frozenset({A}), before=before[name]) for name in before}, {A: 5}) == before


def test_uniform_drops_deleted_partitions_and_topics() -> None:
    before: Assignment = {A: frozenset({0, 9}), B: frozenset({0})}
    assert assign_uniform({"x": Subscriber(frozenset({A}), before=before)}, {A: 1}) == {"x": {A: frozenset({0})}}


def test_uniform_moves_partitions_along_a_chain_if_no_single_move_helps() -> None:
    """x has three of A, y has two of B, z one of C. x shares no topic with z; y can take one of x and give one to z."""
    members = {
        "x": Subscriber(frozenset({A}), before={A: frozenset({0, 1, 2})}),
        "y": Subscriber(frozenset({A, B}), before={B: frozenset({0, 1})}),
        "z": Subscriber(frozenset({B, C}), before={C: frozenset({0})}),
    }
    assert sizes(assign_uniform(members, {A: 3, B: 2, C: 1})) == {"x": 2, "y": 2, "z": 2}


def test_range_assigns_ranges_of_each_topic_static_members_first() -> None:
    members = {
        "m1": Subscriber(frozenset({A, B})),
        "m0": Subscriber(frozenset({A, B})),
        "m9": Subscriber(frozenset({A, B}), instance_id="i"),
    }
    assigned = assign_range(members, {A: 4, B: 4})
    for topic in (A, B):
        assert assigned["m9"][topic] == {0, 1}
        assert assigned["m0"][topic] == {2}
        assert assigned["m1"][topic] == {3}


def test_range_gives_nothing_to_surplus_members_and_non_subscribers() -> None:
    members = {"m0": Subscriber(frozenset({A})), "m1": Subscriber(frozenset({A})), "m2": Subscriber(frozenset({B}))}
    assert assign_range(members, {A: 1}) == {"m0": {A: frozenset({0})}, "m1": {}, "m2": {}}


def test_topics_without_subscribers_are_not_assigned() -> None:
    for assign in (assign_uniform, assign_range):
        assert assign({}, {A: 3}) == {}
        assert assign({"x": Subscriber(frozenset())}, {A: 3}) == {"x": {}}


TOPICS = [topic_id(name) for name in "abcd"]
topic_counts = st.dictionaries(st.sampled_from(TOPICS), st.integers(1, 6), min_size=1)


@st.composite
def groups(draw: st.DrawFn) -> tuple[dict[str, Subscriber], dict[bytes, int]]:
    """Draw members with random subscriptions and previous assignments, which may overlap or be out of date, and the topics."""
    topics = draw(topic_counts)
    same = draw(st.booleans())
    common = frozenset(draw(st.sets(st.sampled_from(sorted(topics)))))
    members = {}
    for i in range(draw(st.integers(1, 6))):
        of = common if same else frozenset(draw(st.sets(st.sampled_from(sorted(topics)))))
        before = draw(st.dictionaries(st.sampled_from(TOPICS), st.frozensets(st.integers(0, 7), min_size=1)))
        members[f"m{i}"] = Subscriber(of, None, before)
    return members, topics


@given(groups())
def test_uniform_gives_every_partition_one_subscriber_in_balance(
    group: tuple[dict[str, Subscriber], dict[bytes, int]],
) -> None:
    members, topics = group
    assigned = assign_uniform(members, topics)
    wanted = Counter((topic, p) for topic, n in topics.items() for p in range(n) if any(topic in m.topics for m in members.values()))
    assert readers(assigned) == wanted
    assert all(topic in members[member_id].topics for member_id, of in assigned.items() for topic in of)
    load = sizes(assigned)
    for giver, of in assigned.items():
        for topic in of:
            assert all(load[giver] - load[taker] <= 1 for taker, member in members.items() if topic in member.topics), load
    again = assign_uniform({name: Subscriber(m.topics, None, assigned[name]) for name, m in members.items()}, topics)
    assert again == assigned, "a balanced assignment stays"


@given(groups())
def test_range_gives_every_partition_one_subscriber(group: tuple[dict[str, Subscriber], dict[bytes, int]]) -> None:
    members, topics = group
    assigned = assign_range(members, topics)
    assert readers(assigned) == Counter((t, p) for t, n in topics.items() for p in range(n) if any(t in m.topics for m in members.values()))
    for topic, count in topics.items():
        subscribers = [m for m, member in members.items() if topic in member.topics]
        for member_id in subscribers:
            assert len(assigned[member_id].get(topic, ())) in {count // len(subscribers), -(-count // len(subscribers))}
