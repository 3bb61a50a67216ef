"""Kafka's own tools against Ottla's controller and its brokers."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from client_compat.kafka.tools import Tools
from tests.support.apache_kafka import jars_or_skip
from tests.support.kafka_tools import good, run
from tests.support.running_broker import ServeProcess


@pytest.fixture(scope="module")
def tools() -> Tools:
    jars_or_skip()
    return Tools()


@pytest.fixture(scope="module")
def brokers(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ServeProcess]:
    with ServeProcess(tmp_path_factory.mktemp("cluster") / "data", "--brokers=3") as running:
        yield running


def at_controller(tools: Tools, brokers: ServeProcess, tool: str, *arguments: str) -> str:
    """Run a tool that connects to the controller itself; return its output."""
    controller = brokers.start_line.split("controller on ")[1].split(")")[0]
    return good(tools.run(tool, "--bootstrap-controller", controller, *arguments))


def test_quorum_has_one_voter_with_the_brokers_as_observers(tools: Tools, brokers: ServeProcess) -> None:
    output = at_controller(tools, brokers, "kafka-metadata-quorum", "describe", "--replication")
    roles = [(line.split()[0], line.split()[-1]) for line in output.splitlines()[1:]]
    assert sorted(roles) == [("1", "Observer"), ("2", "Observer"), ("3", "Observer"), ("3000", "Leader")]
    assert "LeaderId:" in run(tools, brokers, "kafka-metadata-quorum", "describe", "--status")


def test_features_are_described_and_changed_through_the_controller(tools: Tools, brokers: ServeProcess) -> None:
    assert "4.4-IV2" in at_controller(tools, brokers, "kafka-features", "describe")
    at_controller(tools, brokers, "kafka-features", "downgrade", "--feature", "share.version=0")
    output = at_controller(tools, brokers, "kafka-features", "describe")
    (share,) = (line for line in output.splitlines() if "share.version" in line)
    assert "FinalizedVersionLevel: 0" in share


def test_broker_configs_are_changed_and_described_through_the_controller(tools: Tools, brokers: ServeProcess) -> None:
    change = ("--alter", "--entity-type", "brokers", "--entity-default", "--add-config", "log.cleaner.threads=2")
    at_controller(tools, brokers, "kafka-configs", *change)
    output = at_controller(tools, brokers, "kafka-configs", "--describe", "--entity-type", "brokers", "--entity-default")
    assert "log.cleaner.threads=2" in output


def test_partition_is_reassigned_and_its_preferred_leader_elected(tools: Tools, brokers: ServeProcess, tmp_path: Path) -> None:
    run(tools, brokers, "kafka-topics", "--create", "--topic", "moves", "--replica-assignment", "1:2")
    plan = tmp_path / "plan.json"
    plan.write_text('{"version":1,"partitions":[{"topic":"moves","partition":0,"replicas":[3,2]}]}')
    run(tools, brokers, "kafka-reassign-partitions", "--reassignment-json-file", str(plan), "--execute")
    while "is completed" not in run(tools, brokers, "kafka-reassign-partitions", "--reassignment-json-file", str(plan), "--verify"):
        pass
    output = run(tools, brokers, "kafka-topics", "--describe", "--topic", "moves")
    assert "Replicas: 3,2" in output


def test_unknown_broker_cannot_be_unregistered(tools: Tools, brokers: ServeProcess) -> None:
    controller = brokers.start_line.split("controller on ")[1].split(")")[0]
    done = tools.run("kafka-cluster", "unregister", "--bootstrap-controller", controller, "--id", "77")
    assert "is not currently registered" in done.out + done.err
