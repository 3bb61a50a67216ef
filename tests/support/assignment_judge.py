"""Apache Kafka's own reconciliation of group members in a Java process (`client_compat/kafka/AssignmentJudge.java`), and random steps for
it from a seed."""

from __future__ import annotations

import json
import subprocess
import tempfile
from collections.abc import Iterable
from pathlib import Path
from random import Random
from typing import Any, NamedTuple

from client_compat.kafka.jars import jars, java
from ottla.broker.groups.consumer_member import MemberState

SOURCE = Path(__file__).parents[2] / "client_compat" / "kafka" / "AssignmentJudge.java"
OPTIONS = ("-Xmx256m", "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1", "-Dorg.slf4j.simpleLogger.defaultLogLevel=off")
TIMEOUT_S = 120

TOPICS = (1, 2, 3)
"""The topic numbers in the random steps. The topics 1 and 2 exist; topic 3 was deleted or never created."""
PARTITIONS = [(topic, partition) for topic in TOPICS for partition in range(3)]

Place = tuple[int, int]


class Step(NamedTuple):
    """A group member, its target assignment and its heartbeat, as input of the reconciliation. `assigned` and `pending` map the member's
    partitions to their assignment epochs."""

    state: MemberState
    epoch: int
    previous: int
    assigned: dict[Place, int]
    pending: dict[Place, int]
    target_epoch: int
    target: set[Place]
    held: set[Place]
    owned: set[Place] | None
    subscribed: set[int]
    changed: bool


def random_step(random: Random) -> Step:
    """Make a random step with few partitions and epochs, so that several rules of the reconciliation apply at once."""
    epoch = random.randint(1, 4)
    places = random.sample(PARTITIONS, len(PARTITIONS))
    mine, waived = random.randint(0, 4), random.choice((0, 0, 1, 2))
    assigned = {place: random.randint(1, epoch) for place in places[:mine]}
    pending = {place: random.randint(1, epoch) for place in places[mine : mine + waived]}
    others = {place for place in places[mine + waived :] if random.random() < 0.3}
    known = [*assigned, *pending, *random.sample(PARTITIONS, 1)]
    owned = None if random.random() < 0.3 else {place for place in known if random.random() < random.choice((0, 0.5, 1))}
    return Step(
        state=random.choice((*MemberState, MemberState.STABLE, MemberState.UNREVOKED_PARTITIONS)),
        epoch=epoch,
        previous=random.randint(0, epoch),
        assigned=assigned,
        pending=pending,
        target_epoch=epoch + random.choice((0, 0, 1, 2)),
        target={place for place in PARTITIONS if random.random() < 0.4},
        held={*assigned, *pending, *others},
        owned=owned,
        subscribed={topic for topic in TOPICS if random.random() < 0.8},
        changed=random.random() < 0.4,
    )


def kafkas_members(steps: Iterable[Step]) -> list[dict[str, Any] | None]:
    """Return each member after its step as Kafka computes it, None if it was fenced. Raises `KafkaMissing`."""
    orders = "".join(json.dumps(_order(step)) + "\n" for step in steps)
    with tempfile.TemporaryDirectory() as directory:
        argv = [java(), *OPTIONS, "-cp", f"{jars()}/*", str(SOURCE)]
        done = subprocess.run(argv, input=orders, capture_output=True, text=True, timeout=TIMEOUT_S, check=False, cwd=directory)
    assert done.returncode == 0, done.stderr
    return [json.loads(line) for line in done.stdout.splitlines()]


def _order(step: Step) -> dict[str, object]:
    return {
        "topics": 2,
        "state": int(step.state),
        "epoch": step.epoch,
        "previous": step.previous,
        "assigned": [[*place, epoch] for place, epoch in step.assigned.items()],
        "pending": [[*place, epoch] for place, epoch in step.pending.items()],
        "target_epoch": step.target_epoch,
        "target": sorted(step.target),
        "held": sorted(step.held),
        "owned": None if step.owned is None else sorted(step.owned),
        "subscribed": [str(topic) for topic in sorted(step.subscribed)],
        "changed": step.changed,
    }
