"""Quotas at Apache Kafka and at Ottla: the same tools say the same."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from client_compat.kafka.reference import ReferenceBroker
from client_compat.kafka.tools import Tools
from client_compat.support.brokers import HOST
from tests.support.apache_kafka import jars_or_skip
from tests.support.kafka_tools import Bootstrap, refused, run
from tests.support.running_broker import RunningBroker


class Kafka:
    """The reference broker as the tools take it."""

    def __init__(self, broker: ReferenceBroker) -> None:
        self.bootstrap = f"{HOST}:{broker.port}"


@pytest.fixture(scope="module")
def tools() -> Tools:
    jars_or_skip()
    return Tools()


@pytest.fixture(scope="module")
def brokers(tools: Tools, tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Bootstrap, Bootstrap]]:
    """Kafka's and ours."""
    directory = tmp_path_factory.mktemp("quotas")
    reference = ReferenceBroker(directory / "kafka")
    reference.format()
    with reference, RunningBroker(directory / "ottla") as ours:
        yield Kafka(reference), ours


ALICE = ("--entity-type", "users", "--entity-name", "alice")
ALICES = (*ALICE, "--entity-type", "clients", "--entity-default")
EVERY_CLIENT = ("--entity-type", "clients", "--entity-default")
ADDRESS = ("--entity-type", "ips", "--entity-name", "127.0.0.9")
STEPS = (
    ("--alter", *ALICE, "--add-config", "producer_byte_rate=1048576,consumer_byte_rate=2048"),
    ("--alter", *ALICES, "--add-config", "request_percentage=12.5"),
    ("--alter", *EVERY_CLIENT, "--add-config", "controller_mutation_rate=10"),
    ("--alter", *ADDRESS, "--add-config", "connection_creation_rate=7"),
    ("--describe", "--entity-type", "users", "--entity-type", "clients"),
    ("--describe", "--entity-type", "clients"),
    ("--describe", "--entity-type", "ips"),
    ("--alter", *ALICES, "--delete-config", "request_percentage"),
    ("--alter", *ALICES, "--add-config", "producer_byte_rate=5"),
    ("--describe", "--entity-type", "users", "--entity-type", "clients"),
)


def test_kafka_configs_sets_and_tells_the_same_quotas(tools: Tools, brokers: tuple[Bootstrap, Bootstrap]) -> None:
    for step in STEPS:
        kafkas, ours = (sorted(run(tools, broker, "kafka-configs", *step).splitlines()) for broker in brokers)
        assert kafkas == ours, step
    assert ours == ["Quota configs for user-principal 'alice', the default client-id are producer_byte_rate=5.0"]


def test_kafka_configs_refuses_the_same_quotas(tools: Tools, brokers: tuple[Bootstrap, Bootstrap]) -> None:
    for wrong in ("producer_byte_rate=0", "consumer_byte_rate=1.5"):
        kafkas, ours = (refused(tools, broker, "kafka-configs", "--alter", *ALICE, "--add-config", wrong) for broker in brokers)
        assert _reason(kafkas) == _reason(ours)
        assert "InvalidRequestException" in ours


def _reason(told: str) -> str:
    """The last exception that is named."""
    return [line for line in told.splitlines() if "Exception: " in line][-1]
