"""Classic groups: sharing, rebalances, assignors, static members, commits."""

from __future__ import annotations

import time

from client_compat.clients.options import ConsumerOptions
from client_compat.matrix.control import ClientError
from client_compat.matrix.facades import Consumer, Partition
from client_compat.matrix.membership import Members, filled, group_truth, member, partitions_of
from client_compat.matrix.scenario import ScenarioContext, expect, poll_until, same, scenario

COUNT = 40
PARTITIONS = 4


def _filled(context: ScenarioContext, partitions: int = PARTITIONS, count: int = COUNT) -> str:
    return filled(context, partitions, count)


def _options(group: str, **more: object) -> ConsumerOptions:
    return _joining(group, **{"auto_commit": False, **more})


def _joining(group: str, **more: object) -> ConsumerOptions:
    options: ConsumerOptions = {"group": group, "reset": "earliest"}
    options.update(more)  # type: ignore[typeddict-item]  # scenarios give names of ConsumerOptions only
    return options


def _member(context: ScenarioContext, group: str, *topics: str, **more: object) -> Consumer:
    """Return a member of the group, in its own client program, that subscribes to `topics` and commits as its client does by default.
    `more` are further consumer options."""
    return member(context, _joining(group, **more), topics)


@scenario("The only member of a group gets all partitions and every record once.", quick=True)
def group_alone(context: ScenarioContext) -> None:
    topic, group = _filled(context), context.name("group")
    members = Members([_member(context, group, topic)])
    taken = members.read(PARTITIONS * COUNT)
    same(len(taken), PARTITIONS * COUNT, "records, of which none twice")
    same(members.assignments(), [partitions_of(topic, count=PARTITIONS)], "the assignment")
    members.close()


@scenario(
    "When a member joins, the partitions are shared; when it leaves, the other member gets all of them; no record is missed.", quick=True
)
def group_join_and_leave(context: ScenarioContext) -> None:
    topic, group = _filled(context), context.name("group")
    every = partitions_of(topic, count=PARTITIONS)
    members = Members([_member(context, group, topic)])
    members.wait_for_assignment(every, [4])
    members.add(_member(context, group, topic))
    members.wait_for_assignment(every, [2, 2])
    context.truth.write_values(topic, [b"shared"], partition=0)
    members.read(PARTITIONS * COUNT + 1)
    members.consumers.pop(0).close()
    members.wait_for_assignment(every, [4])
    context.truth.write_values(topic, [b"alone"], partition=1)
    places = {(topic, index, number) for index in range(PARTITIONS) for number in range(COUNT)}
    members.read(len(places) + 2)
    expect(places <= members.places(), "records are missing")
    members.close()


@scenario("The partitions of a killed member go to the other one after its session timeout.")
def group_member_killed(context: ScenarioContext) -> None:
    topic, group = _filled(context), context.name("group")
    every = partitions_of(topic, count=PARTITIONS)
    first = _member(context, group, topic, session_timeout_ms=6_000)
    killed = context.another()
    second = killed.consumer(**_joining(group, session_timeout_ms=6_000))
    second.subscribe([topic])
    members = Members([first, second])
    members.wait_for_assignment(every, [2, 2])
    killed.program.kill()
    del members.consumers[1]
    members.wait_for_assignment(every, [4])
    members.close()


@scenario("With more members than partitions, one member has none, and takes over when another leaves.")
def group_spare_member(context: ScenarioContext) -> None:
    topic, group = _filled(context, 1), context.name("group")
    every = partitions_of(topic, count=1)
    members = Members([_member(context, group, topic), _member(context, group, topic)])
    assignments = members.wait_for_assignment(every, [0, 1])
    busy = next(index for index, each in enumerate(assignments) if each)
    members.consumers.pop(busy).close()
    members.wait_for_assignment(every, [1])
    members.close()


@scenario("Two groups on one topic each read all of it.")
def group_of_ones_own(context: ScenarioContext) -> None:
    topic = _filled(context, 2)
    for _ in range(2):
        members = Members([_member(context, context.name("group"), topic)])
        members.read(2 * COUNT)
        members.close()


def _two_topics(context: ScenarioContext, assignor: str, sizes: list[int]) -> tuple[set[Partition], list[set[Partition]], list[str]]:
    """Let two members share two topics of three partitions with the given assignor. `sizes` are the expected numbers of partitions of the
    members. Return all partitions, the assignments, and the topic names in order."""
    topics = sorted(_filled(context, 3, 2) for _ in range(2))
    group, every = context.name("group"), partitions_of(*topics, count=3)
    members = Members([_member(context, group, *topics, assignor=assignor) for _ in range(2)])
    assignments = members.wait_for_assignment(every, sizes)
    members.close()
    return every, assignments, topics


@scenario("The range assignor gives the first of two members two of three partitions, of each topic.")
def assignor_range(context: ScenarioContext) -> None:
    _, assignments, topics = _two_topics(context, "range", [4, 2])
    first = {(topic, index) for topic in topics for index in (0, 1)}
    expect(first in assignments, f"the assignments are {[sorted(each) for each in assignments]}")


@scenario("The round robin assignor gives the partitions of two topics to two members in turn.")
def assignor_roundrobin(context: ScenarioContext) -> None:
    every, assignments, _ = _two_topics(context, "roundrobin", [3, 3])
    dealt = {one for place, one in enumerate(sorted(every)) if place % 2 == 0}
    expect(dealt in assignments, f"the assignments are {[sorted(each) for each in assignments]}")


@scenario("The sticky assignor shares evenly, and a remaining member keeps its partitions when another leaves.")
def assignor_sticky(context: ScenarioContext) -> None:
    _kept_partitions(context, "sticky")


@scenario("The cooperative sticky assignor shares evenly, and moves no partition that need not move.")
def assignor_cooperative_sticky(context: ScenarioContext) -> None:
    _kept_partitions(context, "cooperative-sticky")


def _kept_partitions(context: ScenarioContext, assignor: str) -> None:
    topic, group = _filled(context, 6, 2), context.name("group")
    every = partitions_of(topic, count=6)
    members = Members([_member(context, group, topic, assignor=assignor)])
    members.wait_for_assignment(every, [6])
    members.add(_member(context, group, topic, assignor=assignor))
    members.wait_for_assignment(every, [3, 3])
    members.add(_member(context, group, topic, assignor=assignor))
    before = members.wait_for_assignment(every, [2, 2, 2])
    members.consumers.pop(0).close()
    after = members.wait_for_assignment(every, [3, 3])
    for had, has in zip(before[1:], after, strict=True):
        expect(had <= has, f"a member had {sorted(had)} and has {sorted(has)}")
    members.close()


@scenario("A static member that is killed and returns within its session timeout gets its partitions back, and no other partitions move.")
def static_member_returns(context: ScenarioContext) -> None:
    topic, group = _filled(context), context.name("group")
    every = partitions_of(topic, count=PARTITIONS)
    stays = _member(context, group, topic, instance_id="stays", session_timeout_ms=40_000)
    killed = context.another()
    goes = killed.consumer(**_joining(group, instance_id="goes", session_timeout_ms=40_000))
    goes.subscribe([topic])
    members = Members([stays, goes])
    before = members.wait_for_assignment(every, [2, 2])
    killed.program.kill()
    began = time.monotonic()
    del members.consumers[1]
    members.poll(1_500)
    same(stays.assignment(), before[0], "what the other has while it is away")
    members.add(_member(context, group, topic, instance_id="goes", session_timeout_ms=40_000))
    after = members.wait_until_stable(lambda assignments: bool(assignments[1]), "the static member has partitions again", 30.0)
    same(after, before, "the assignments")
    expect(time.monotonic() - began < 35.0, "it came back only after the session timeout")
    members.close()


@scenario("A second member with the same instance id fences the first one.")
def static_member_fenced(context: ScenarioContext) -> None:
    topic, group = _filled(context, 1), context.name("group")
    every = partitions_of(topic, count=1)
    older = Members([_member(context, group, topic, instance_id="one")])
    older.wait_for_assignment(every, [1])
    newer = Members([_member(context, group, topic, instance_id="one")])
    newer.wait_for_assignment(every, [1])
    try:
        for _ in range(20):
            older.poll(500)
            older.consumers[0].commit({(topic, 0): 1})
    except ClientError as error:
        expect(bool(error.code), "the error has no code")
        newer.consumers[0].commit({(topic, 0): 7})
        same(group_truth(context).offsets(group, [(topic, 0)]), {(topic, 0): 7}, "what is committed")
        return
    expect(False, "the first one still commits, and no error came")


@scenario("The next member of the group starts at the committed offsets.", quick=True)
def commit_and_resume(context: ScenarioContext) -> None:
    topic, group = _filled(context, 1), context.name("group")
    first = context.consumer(**_options(group))
    first.subscribe([topic])
    poll_until(first, COUNT)
    first.commit({(topic, 0): 25}, mode="sync")
    same(group_truth(context).offsets(group, [(topic, 0)]), {(topic, 0): 25}, "what is committed")
    same(first.committed([(topic, 0)]), {(topic, 0): 25}, "what the client says is committed")
    first.close()
    second = context.consumer(**_options(group))
    second.subscribe([topic])
    same([one.offset for one in poll_until(second, COUNT - 25)], list(range(25, COUNT)), "offsets of the next member")
    second.close()


@scenario("A commit without offsets commits the positions: one past the last polled record.", quick=True)
def commit_positions(context: ScenarioContext) -> None:
    topic, group = _filled(context, 2), context.name("group")
    consumer = context.consumer(**_options(group))
    consumer.subscribe([topic])
    poll_until(consumer, 2 * COUNT)
    consumer.commit(mode="sync")
    same(group_truth(context).offsets(group, [(topic, 0), (topic, 1)]), {(topic, 0): COUNT, (topic, 1): COUNT}, "what is committed")
    consumer.close()


@scenario("An asynchronous commit takes effect shortly after the call.")
def commit_async(context: ScenarioContext) -> None:
    topic, group = _filled(context, 1), context.name("group")
    consumer = context.consumer(**_options(group))
    consumer.subscribe([topic])
    poll_until(consumer, COUNT)
    consumer.commit({(topic, 0): 11}, mode="async")
    group_truth(context).wait_until_committed(group, {(topic, 0): 11}, lambda: consumer.poll(1, 200))
    consumer.close()


@scenario("A commit's metadata is stored and returned.")
def commit_metadata(context: ScenarioContext) -> None:
    topic, group = _filled(context, 1), context.name("group")
    consumer = context.consumer(**_options(group))
    consumer.subscribe([topic])
    poll_until(consumer, COUNT)
    consumer.commit({(topic, 0): (12, "a note, größer")}, mode="sync")
    same(group_truth(context).committed(group, [(topic, 0)]), {(topic, 0): (12, "a note, größer")}, "what is committed")
    offset, metadata = consumer.committed_metadata([(topic, 0)])[topic, 0]
    same(offset, 12, "the offset that the client says is committed")
    expect(metadata in {"", "a note, größer"}, f"the client says that the metadata is {metadata!r}")
    consumer.close()


@scenario("With automatic commits, polled records are committed after the interval, and when the member leaves.")
def auto_commit(context: ScenarioContext) -> None:
    topic, group = _filled(context, 1), context.name("group")
    consumer = context.consumer(**_options(group, auto_commit=True, auto_commit_interval_ms=500))
    consumer.subscribe([topic])
    poll_until(consumer, COUNT)
    group_truth(context).wait_until_committed(group, {(topic, 0): COUNT}, lambda: consumer.poll(1, 300))
    context.truth.write_values(topic, [b"late"])
    poll_until(consumer, 1)
    consumer.poll(1, 1_000)
    consumer.close()
    same(group_truth(context).offsets(group, [(topic, 0)]), {(topic, 0): COUNT + 1}, "what is committed after it left")


@scenario("Without automatic commits, nothing is committed without a call.")
def no_auto_commit(context: ScenarioContext) -> None:
    topic, group = _filled(context, 1), context.name("group")
    consumer = context.consumer(**_options(group))
    consumer.subscribe([topic])
    poll_until(consumer, COUNT)
    consumer.poll(1, 1_000)
    same(consumer.committed([(topic, 0)]), {(topic, 0): None}, "what the client says is committed")
    consumer.close()
    same(group_truth(context).offsets(group, [(topic, 0)]), {(topic, 0): -1}, "what is committed after it left")


@scenario("A consumer with a manual assignment can commit for a group without members, and starts there next time.")
def commit_without_membership(context: ScenarioContext) -> None:
    topic, group = _filled(context, 1), context.name("group")
    consumer = context.consumer(**_options(group))
    consumer.assign([(topic, 0)])
    poll_until(consumer, COUNT)
    consumer.commit({(topic, 0): 30}, mode="sync")
    consumer.close()
    same(group_truth(context).offsets(group, [(topic, 0)]), {(topic, 0): 30}, "what is committed")
    again = context.consumer(**_options(group))
    again.assign([(topic, 0)])
    same([one.offset for one in poll_until(again, COUNT - 30)], list(range(30, COUNT)), "offsets afterwards")
    again.close()


@scenario("A member can seek back and read again; its commits follow its position.")
def rewind(context: ScenarioContext) -> None:
    topic, group = _filled(context, 1), context.name("group")
    consumer = context.consumer(**_options(group))
    consumer.subscribe([topic])
    poll_until(consumer, COUNT)
    consumer.seek((topic, 0), 5)
    same([one.offset for one in poll_until(consumer, COUNT - 5)], list(range(5, COUNT)), "offsets after the seek")
    consumer.commit(mode="sync")
    same(group_truth(context).offsets(group, [(topic, 0)]), {(topic, 0): COUNT}, "what is committed")
    consumer.close()


@scenario("A subscription by pattern covers exactly the topics whose names match.")
def subscribe_pattern(context: ScenarioContext) -> None:
    prefix, group = context.name("pattern"), context.name("group")
    for name in (f"{prefix}-a", f"{prefix}-b", f"other-{prefix}"):
        context.truth.create_topic(name)
        context.truth.write_values(name, [name.encode()])
    consumer = context.another().consumer(**_joining(group))
    consumer.subscribe(pattern=f"^{prefix}-.*")
    members = Members([consumer])
    members.wait_for_assignment({(f"{prefix}-a", 0), (f"{prefix}-b", 0)}, [2])
    same({one.topic for one in members.read(2)}, {f"{prefix}-a", f"{prefix}-b"}, "topics read")
    members.close()


@scenario("Commits and memberships survive a restart of the broker.", durable=True, timeout_s=150.0)
def group_over_a_restart(context: ScenarioContext) -> None:
    topic, group = _filled(context, 1), context.name("group")
    consumer = context.consumer(**_options(group))
    consumer.subscribe([topic])
    poll_until(consumer, COUNT)
    consumer.commit({(topic, 0): COUNT}, mode="sync")
    context.broker.stop()
    context.broker.start()
    context.truth.wait_until_led(topic)
    context.truth.write_values(topic, [b"after"])
    expect(b"after" in {one.value for one in poll_until(consumer, 1, timeout_ms=60_000)}, "the record after the restart did not come")
    consumer.commit({(topic, 0): COUNT + 1}, mode="sync")
    same(group_truth(context).offsets(group, [(topic, 0)]), {(topic, 0): COUNT + 1}, "what is committed")
    consumer.close()
