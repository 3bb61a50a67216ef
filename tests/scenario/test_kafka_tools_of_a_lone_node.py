"""Kafka's own tools at a node of its own, where they ask for what a controller decides in a cluster."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from client_compat.kafka.tools import Tools
from tests.support.apache_kafka import jars_or_skip
from tests.support.kafka_tools import create, run
from tests.support.running_broker import RunningBroker


@pytest.fixture(scope="module")
def tools() -> Tools:
    jars_or_skip()
    return Tools()


@pytest.fixture(scope="module")
def broker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RunningBroker]:
    with RunningBroker(tmp_path_factory.mktemp("tools") / "data") as running:
        yield running


def test_the_node_is_its_quorum(tools: Tools, broker: RunningBroker) -> None:
    status = run(tools, broker, "kafka-metadata-quorum", "describe", "--status")
    assert "LeaderId:" in status
    told = run(tools, broker, "kafka-metadata-quorum", "describe", "--replication")
    assert [(line.split()[0], line.split()[-1]) for line in told.splitlines()[1:]] == [("1", "Leader")]


def test_no_leader_has_to_be_elected_and_no_partition_moves(tools: Tools, broker: RunningBroker, tmp_path: Path) -> None:
    create(tools, broker, "t")
    place = ["--election-type", "preferred", "--topic", "t", "--partition", "0"]
    assert "Valid replica already elected" in run(tools, broker, "kafka-leader-election", *place)
    assert "No partition reassignments found." in run(tools, broker, "kafka-reassign-partitions", "--list")
    plan = tmp_path / "plan.json"
    plan.write_text('{"version":1,"partitions":[{"topic":"t","partition":0,"replicas":[1]}]}')
    run(tools, broker, "kafka-reassign-partitions", "--reassignment-json-file", str(plan), "--execute")
    done = run(tools, broker, "kafka-reassign-partitions", "--reassignment-json-file", str(plan), "--verify")
    assert "Reassignment of partition t-0 is completed." in done


def test_a_feature_is_lowered_and_raised(tools: Tools, broker: RunningBroker) -> None:
    for verb, level in (("downgrade", "1"), ("upgrade", "2")):
        run(tools, broker, "kafka-features", verb, "--feature", f"transaction.version={level}")
        told = run(tools, broker, "kafka-features", "describe")
        (line,) = (line for line in told.splitlines() if "transaction.version" in line)
        assert f"FinalizedVersionLevel: {level}" in line
