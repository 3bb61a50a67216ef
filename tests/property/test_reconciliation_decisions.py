"""Kafka's CurrentAssignmentBuilder and ours choose the same next step for a member, given the same members, targets and heartbeats."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from random import Random
from typing import Any

import pytest

from client_compat.kafka.jars import KafkaMissing
from ottla.broker.core.rejected import Rejected
from ottla.broker.groups.consumer_member import Assignment, ConsumerMember, MemberState
from ottla.broker.groups.reconciliation import Target, reconcile
from tests.support.assignment_judge import Place, Step, kafkas_members, random_step

SEED = 20261123
STEPS = 20_000
EXISTING = {1, 2}


def topic_id(topic: int) -> bytes:
    return topic.to_bytes(16, "big")


def nested(places: Iterable[Place]) -> Assignment:
    nested: dict[bytes, frozenset[int]] = {}
    for topic, partition in places:
        nested[topic_id(topic)] = nested.get(topic_id(topic), frozenset()) | {partition}
    return nested


def ours(step: Step) -> dict[str, Any] | None:
    member = ConsumerMember(
        member_id="m",
        state=step.state,
        epoch=step.epoch,
        previous_epoch=step.previous,
        assigned=nested(step.assigned),
        pending_revocation=nested(step.pending),
        epochs={(topic_id(topic), index): epoch for (topic, index), epoch in {**step.assigned, **step.pending}.items()},
    )
    target = Target(
        epoch=step.target_epoch,
        assignment=nested(step.target),
        is_free=lambda topic, partition: (int.from_bytes(topic, "big"), partition) not in step.held,
        subscribed=frozenset(topic_id(topic) for topic in step.subscribed & EXISTING),
        subscription_changed=step.changed,
    )
    try:
        after = reconcile(member, target, None if step.owned is None else nested(step.owned))
    except Rejected:
        return None

    def rows(assignment: Assignment) -> list[list[int]]:
        places = sorted((topic, partition) for topic, partitions in assignment.items() for partition in partitions)
        return [[int.from_bytes(topic, "big"), partition, after.epochs[topic, partition]] for topic, partition in places]

    return {
        "state": int(after.state),
        "epoch": after.epoch,
        "previous": after.previous_epoch,
        "assigned": rows(after.assigned),
        "pending": rows(after.pending_revocation),
    }


def test_reconciliation_step_of_a_member_equals_kafkas() -> None:
    random = Random(SEED)
    steps = [random_step(random) for _ in range(STEPS)]
    try:
        theirs = kafkas_members(steps)
    except KafkaMissing as missing:
        pytest.skip(str(missing))
    wrong = [(step, kafkas, mine) for step, kafkas in zip(steps, theirs, strict=True) if kafkas != (mine := ours(step))]
    assert not wrong, f"{len(wrong)} of {STEPS} differ (seed {SEED}), the first: {wrong[0]}"
    states = Counter("fenced" if kafkas is None else MemberState(kafkas["state"]).name for kafkas in theirs)
    assert min(states[name] for name in ("fenced", "STABLE", "UNREVOKED_PARTITIONS", "UNRELEASED_PARTITIONS")) > STEPS / 50, states
