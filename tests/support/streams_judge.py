"""Apache Kafka's own decisions about streams groups in a Java process (`client_compat/kafka/StreamsJudge.java`), and random questions for
it from a seed."""

from __future__ import annotations

import json
import subprocess
import tempfile
from collections.abc import Iterable
from dataclasses import dataclass, fields, is_dataclass
from random import Random
from typing import Any

from client_compat.kafka.compiled import compiled
from client_compat.kafka.jars import jars, java
from ottla.broker.streams.internal_topics import ConfiguredSubtopology, InternalTopic
from ottla.broker.streams.sticky_assignor import MemberSpec
from ottla.broker.streams.tasks import Tasks, TaskSet, sorted_tasks
from ottla.protocol.messages.streams_group import CopartitionGroup, KeyValue, Subtopology, TopicInfo
from ottla.protocol.streams_group_log import StreamsGroupTopologyValue

OPTIONS = ("-Xmx256m", "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1")
TIMEOUT_S = 120

TOPICS = ("a", "b", "c", "d")
INTERNAL = ("r1", "r2", "r3", "r4", "r5")


@dataclass(frozen=True)
class Group:
    """The input of a task assignment: the members, their tasks and the topology."""

    members: dict[str, MemberSpec]
    subtopologies: dict[str, ConfiguredSubtopology]
    standby_replicas: int


@dataclass(frozen=True)
class Application:
    """The input of a topology check: a streams group's topology, and the partition counts of the existing topics."""

    topology: StreamsGroupTopologyValue
    topics: dict[str, int]


def random_group(random: Random) -> Group:
    """Make a group whose members have tasks from earlier assignments, some of them no longer valid, and report offsets."""
    changelog = {"changelog": InternalTopic("changelog", 1, 0, {})}
    subtopologies = {
        str(number): ConfiguredSubtopology(random.randint(1, 7), state_changelog_topics=changelog if random.random() < 0.6 else {})
        for number in range(random.randint(1, 4))
    }
    processes = [f"process-{random.randrange(1000)}" for _ in range(random.randint(1, 6))]
    names = [f"member-{random.randrange(10_000)}" for _ in range(random.randint(1, 20))]
    return Group(
        {name: MemberSpec(random.choice(processes), TaskSet(_some(random), _some(random)), _offsets(random)) for name in names},
        subtopologies,
        random.choice((0, 0, 1, 1, 2, 3)),
    )


def random_application(random: Random) -> Application:
    """Make a random topology with few topics, so that several rules about topologies apply at once."""
    existing = {topic: random.choice((1, 2, 2, 3)) for topic in TOPICS if random.random() < 0.95}
    existing |= {topic: random.randint(1, 3) for topic in (*INTERNAL, "s0-changelog") if random.random() < 0.1}
    fixed = {topic: random.choice((0, 0, 0, 2, 3)) for topic in INTERNAL}
    subtopologies = [_subtopology(random, number, fixed) for number in range(random.randint(1, 6))]
    return Application(StreamsGroupTopologyValue(random.randint(0, 3), subtopologies), existing)


def _subtopology(random: Random, number: int, fixed: dict[str, int]) -> Subtopology:
    sources = random.sample(TOPICS, random.choice((0, 1, 1, 2)))
    inner = random.sample(INTERNAL, random.choice((0, 1, 1, 2, 3)))
    configs = [KeyValue(key, "1") for key in random.sample(("retention.ms", "cleanup.policy", "segment.bytes"), random.randint(0, 3))]
    groups = []
    if random.random() < 0.6:
        groups.append(CopartitionGroup(list(range(len(sources))), [], list(range(len(inner)))))
    return Subtopology(
        str(number),
        sources,
        [],
        [TopicInfo(f"s{number}-changelog-{i}" if i else f"s{number}-changelog", 0, 0, configs) for i in range(random.randint(0, 2))],
        random.sample(INTERNAL, random.randint(0, 4)),
        [TopicInfo(name, fixed[name], random.choice((0, 3)), []) for name in inner],
        groups,
    )


def _some(random: Random) -> Tasks:
    tasks = {str(number): frozenset(i for i in range(7) if random.random() < 0.2) for number in range(4)}
    return {subtopology: partitions for subtopology, partitions in tasks.items() if partitions}


def _offsets(random: Random) -> dict[tuple[str, int], int]:
    return {(str(number), i): random.randrange(5) for number in range(4) for i in range(7) if random.random() < 0.1}


def kafkas_answers(questions: Iterable[Group | Application]) -> list[dict[str, Any]]:
    """Return the answers of Kafka's own code to the questions, in order. Raises `KafkaMissing`."""
    lines = "".join(json.dumps(_order(request)) + "\n" for request in questions)
    classes = compiled("StreamsJudge")
    with tempfile.TemporaryDirectory() as directory:
        argv = [java(), *OPTIONS, "-Dorg.slf4j.simpleLogger.defaultLogLevel=off", "-cp", f"{classes}:{jars()}/*", "StreamsJudge"]
        done = subprocess.run(argv, input=lines, capture_output=True, text=True, timeout=TIMEOUT_S, check=False, cwd=directory)
    assert done.returncode == 0, done.stderr
    return [json.loads(line) for line in done.stdout.splitlines()]


def _order(request: Group | Application) -> dict[str, Any]:
    if isinstance(request, Application):
        return {"topics": request.topics, "topology": {"version": 0} | as_kafkas_json(request.topology)}
    return {
        "members": {
            name: {
                "process": member.process_id,
                "active": as_lists(member.before.active),
                "standby": as_lists(member.before.standby),
                "offsets": [[*task, offset] for task, offset in member.offsets.items()],
            }
            for name, member in request.members.items()
        },
        "subtopologies": {name: {"tasks": one.number_of_tasks, "stateful": one.is_stateful} for name, one in request.subtopologies.items()},
        "replicas": request.standby_replicas,
    }


def as_lists(tasks: Tasks) -> dict[str, list[int]]:
    """Convert tasks to the form that they have in Kafka's answers."""
    return dict(sorted_tasks(tasks))


def as_kafkas_json(message: Any) -> Any:
    """Return a message as Kafka's JSON converters write it."""
    if isinstance(message, list):
        return [as_kafkas_json(one) for one in message]
    if is_dataclass(message):
        return {_camel(field.name): as_kafkas_json(getattr(message, field.name)) for field in fields(message)}
    return message


def _camel(name: str) -> str:
    first, *rest = name.split("_")
    return first + "".join(word.capitalize() for word in rest)
