"""Consumer groups of KIP-848: the broker assigns partitions and members receive them in heartbeat responses."""

from __future__ import annotations

from client_compat.clients.options import ConsumerOptions
from client_compat.matrix.facades import Consumer
from client_compat.matrix.membership import Members, filled, group_truth, member, partitions_of
from client_compat.matrix.scenario import ScenarioContext, expect, same, scenario

COUNT = 30
PARTITIONS = 4


def _filled(context: ScenarioContext, partitions: int = PARTITIONS) -> str:
    return filled(context, partitions, COUNT)


def _options(group: str, **more: object) -> ConsumerOptions:
    options: ConsumerOptions = {"group": group, "group_protocol": "consumer", "reset": "earliest", "auto_commit": False}
    options.update(more)  # type: ignore[typeddict-item]  # scenarios give names of ConsumerOptions only
    return options


def _member(context: ScenarioContext, group: str, *topics: str, **more: object) -> Consumer:
    return member(context, _options(group, **more), topics)


@scenario("The only member of a consumer group (KIP-848) reads everything once, and the next one starts where it committed.", quick=True)
def consumer_group_alone(context: ScenarioContext) -> None:
    topic, group = _filled(context, 1), context.name("group")
    members = Members([_member(context, group, topic)])
    same([one.offset for one in members.read(COUNT)], list(range(COUNT)), "offsets")
    members.consumers[0].commit({(topic, 0): 20}, mode="sync")
    members.close()
    same(group_truth(context).offsets(group, [(topic, 0)]), {(topic, 0): 20}, "what is committed")
    members = Members([_member(context, group, topic)])
    same([one.offset for one in members.read(COUNT - 20)], list(range(20, COUNT)), "offsets of the next member")
    members.close()


@scenario(
    "When a member joins a consumer group, the partitions are shared; when it leaves, the other gets all of them; no record is missed.",
    timeout_s=180.0,
)
def consumer_group_join_and_leave(context: ScenarioContext) -> None:
    topic, group = _filled(context), context.name("group")
    every = partitions_of(topic, count=PARTITIONS)
    members = Members([_member(context, group, topic)])
    members.wait_for_assignment(every, [4])
    members.add(_member(context, group, topic))
    members.wait_for_assignment(every, [2, 2])
    members.consumers.pop(0).close()
    members.wait_for_assignment(every, [4])
    context.truth.write_values(topic, [b"late"], partition=3)
    members.read(PARTITIONS * COUNT + 1)
    members.close()


@scenario("The uniform assignor shares the partitions of two topics evenly between two members.")
def consumer_group_uniform(context: ScenarioContext) -> None:
    topics = [_filled(context, 3) for _ in range(2)]
    group = context.name("group")
    members = Members([_member(context, group, *topics, assignor="uniform") for _ in range(2)])
    members.wait_for_assignment(partitions_of(*topics, count=3), [3, 3])
    members.close()


@scenario("The broker's range assignor gives one of two members the first two of three partitions, of each topic.")
def consumer_group_range(context: ScenarioContext) -> None:
    topics = [_filled(context, 3) for _ in range(2)]
    group = context.name("group")
    members = Members([_member(context, group, *topics, assignor="range") for _ in range(2)])
    assignments = members.wait_for_assignment(partitions_of(*topics, count=3), [2, 4])
    expect(
        {(topic, index) for topic in topics for index in (0, 1)} in assignments,
        f"the assignments are {[sorted(each) for each in assignments]}",
    )
    members.close()


@scenario(
    "A static member of a consumer group that leaves temporarily and returns gets its partitions back; no others move.",
    timeout_s=150.0,
)
def consumer_group_static(context: ScenarioContext) -> None:
    topic, group = _filled(context), context.name("group")
    members = Members([_member(context, group, topic, instance_id=name) for name in ("stays", "goes")])
    before = members.wait_for_assignment(partitions_of(topic, count=PARTITIONS), [2, 2])
    members.consumers.pop(1).close()
    members.poll(1_000)
    same(members.assignments(), before[:1], "what the other has while it is away")
    members.add(_member(context, group, topic, instance_id="goes"))
    after = members.wait_until_stable(lambda assignments: bool(assignments[1]), "the static member has partitions again", 30.0)
    same(after, before, "the assignments")
    members.close()


@scenario("A consumer group can subscribe by a pattern that the broker evaluates, and reads no other topic.")
def consumer_group_pattern(context: ScenarioContext) -> None:
    prefix, group = context.name("pattern"), context.name("group")
    for name in (f"{prefix}-a", f"other-{prefix}"):
        context.truth.create_topic(name)
    consumer = context.another().consumer(**_options(group))
    consumer.subscribe(pattern=f"^{prefix}-.*")
    members = Members([consumer])
    members.wait_for_assignment({(f"{prefix}-a", 0)}, [1])
    members.close()


@scenario(
    "When a member with the new protocol joins a classic group, it becomes a consumer group, and both members keep reading.",
    timeout_s=150.0,
)
def classic_group_becomes_consumer_group(context: ScenarioContext) -> None:
    topic, group = _filled(context), context.name("group")
    every = partitions_of(topic, count=PARTITIONS)
    # Opened first, so that a client without the new protocol is reported as unsupported at once.
    context.consumer(**_options(context.name("group"))).close()
    classic = context.another().consumer(group=group, group_protocol="classic", reset="earliest", auto_commit=False, assignor="range")
    classic.subscribe([topic])
    members = Members([classic])
    members.wait_for_assignment(every, [4])
    members.add(_member(context, group, topic))
    members.wait_for_assignment(every, [2, 2])
    members.consumers.pop(0).close()
    members.wait_for_assignment(every, [4])
    context.truth.write_values(topic, [b"late"], partition=2)
    members.read(PARTITIONS * COUNT + 1)
    members.close()
