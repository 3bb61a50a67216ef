"""Kafka's classes and Ottla's assign the same tasks and configure the same topologies, given the same groups and topics."""

from __future__ import annotations

from collections import Counter
from random import Random
from typing import Any

import pytest

from client_compat.kafka.jars import KafkaMissing
from ottla.broker.core.rejected import Rejected
from ottla.broker.streams.internal_topics import InternalTopic, configure
from ottla.broker.streams.sticky_assignor import assign
from ottla.broker.streams.topology import Topology
from ottla.protocol.error_codes import ErrorCode
from tests.support.streams_judge import Application, Group, as_kafkas_json, as_lists, kafkas_answers, random_application, random_group

SEED = 20261124
QUESTIONS = 10_000


@pytest.fixture(scope="module")
def random() -> Random:
    return Random(SEED)


def theirs(questions: list[Any]) -> list[dict[str, Any]]:
    try:
        return kafkas_answers(questions)
    except KafkaMissing as missing:
        pytest.skip(str(missing))


def assigned(group: Group) -> dict[str, Any]:
    targets = assign(group.members, group.subtopologies, group.standby_replicas, by_offsets=True)
    return {name: {"active": as_lists(tasks.active), "standby": as_lists(tasks.standby)} for name, tasks in targets.items()}


def test_every_assignment_of_tasks_is_kafkas(random: Random) -> None:
    groups = [random_group(random) for _ in range(QUESTIONS)]
    wrong = [(group, kafkas, mine) for group, kafkas in zip(groups, theirs(groups), strict=True) if kafkas != (mine := assigned(group))]
    assert not wrong, f"{len(wrong)} of {QUESTIONS} differ (seed {SEED}), the first: {wrong[0]}"


def configured(application: Application) -> dict[str, Any]:
    try:
        found = configure(Topology.of(application.topology), 0, application.topics.get)
    except Rejected as rejected:
        error = {ErrorCode.STREAMS_INVALID_TOPOLOGY: "StreamsInvalidTopologyException"}[rejected.code]
        return {"error": [error, rejected.message]}
    answer = {
        "topology": as_kafkas_json(found.described()),
        "tasks": {name: one.number_of_tasks for name, one in (found.subtopologies or {}).items()},
        "create": [creatable(topic) for topic in found.internal_topics_to_create.values()],
    }
    return answer if found.problem is None else answer | {"problem": list(found.problem)}


def creatable(topic: InternalTopic) -> dict[str, Any]:
    return {
        "name": topic.name,
        "numPartitions": topic.partitions,
        "replicationFactor": topic.replication_factor or -1,
        "assignments": [],
        "configs": [{"name": name, "value": value} for name, value in topic.configs.items()],
    }


def test_every_topology_is_configured_as_in_kafka(random: Random) -> None:
    applications = [random_application(random) for _ in range(QUESTIONS)]
    answers = theirs(applications)
    wrong = [(one, kafkas, mine) for one, kafkas in zip(applications, answers, strict=True) if kafkas != (mine := configured(one))]
    assert not wrong, f"{len(wrong)} of {QUESTIONS} differ (seed {SEED}), the first: {wrong[0]}"
    kinds = Counter(answer.get("problem", answer.get("error", ["ready"]))[0] for answer in answers)
    assert min(kinds[kind] for kind in (1, 2, 3, "ready", "StreamsInvalidTopologyException")) > QUESTIONS / 200, kinds
