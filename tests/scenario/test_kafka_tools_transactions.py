"""Apache Kafka's transaction tool against Ottla: open and hanging transactions, and how an operator ends them."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from client_compat.kafka.tools import Tools
from ottla.protocol.client import Client
from tests.support import topic_calls
from tests.support.apache_kafka import jars_or_skip
from tests.support.kafka_tools import run, table
from tests.support.running_broker import RunningBroker
from tests.support.transactions import Transactional, latest

HUNG_FOR_MINUTES = "0"
"""The tool's limit: a transaction that the coordinator does not know counts as hanging from its first minute on."""


@pytest.fixture(scope="module")
def tools() -> Tools:
    jars_or_skip()
    return Tools()


@pytest.fixture(scope="module")
def broker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RunningBroker]:
    """A broker without transaction verification, so that a transaction can hang."""
    settings = {"transaction.partition.verification.enable": "false"}
    with RunningBroker(tmp_path_factory.mktemp("tools") / "data", settings) as running:
        yield running


@pytest.fixture
def client(broker: RunningBroker) -> Iterator[Client]:
    with broker.client() as connected:
        yield connected


def producers(tools: Tools, broker: RunningBroker, topic: str) -> list[dict[str, str]]:
    return table(run(tools, broker, "kafka-transactions", "describe-producers", "--topic", topic, "--partition", "0"), "ProducerId")


def test_open_transaction_is_listed_and_described_with_its_producer(tools: Tools, broker: RunningBroker, client: Client) -> None:
    topic_calls.create(client, "open")
    holder = Transactional(broker, "open-tx").init()
    assert holder.produce(client, 0, b"a", b"b", topic="open").error_code == 0
    (row,) = [
        row for row in table(run(tools, broker, "kafka-transactions", "list"), "TransactionalId") if row["TransactionalId"] == "open-tx"
    ]
    assert (row["Coordinator"], row["ProducerId"], row["TransactionState"]) == ("1", str(holder.producer_id), "Ongoing")
    (described,) = table(run(tools, broker, "kafka-transactions", "describe", "--transactional-id", "open-tx"), "CoordinatorId")
    assert (described["ProducerEpoch"], described["TransactionTimeoutMs"], described["TopicPartitions"]) == (
        str(holder.epoch),
        "60000",
        "open-0",
    )
    (state,) = producers(tools, broker, "open")
    assert (state["ProducerId"], state["LastSequence"], state["CurrentTransactionStartOffset"]) == (str(holder.producer_id), "1", "0")


@pytest.mark.parametrize("way", ["start offset", "producer id"])
def test_hanging_transaction_is_found_and_aborted_by_kafkas_tool(tools: Tools, broker: RunningBroker, client: Client, way: str) -> None:
    topic = f"hung-by-{way.replace(' ', '-')}"
    topic_calls.create(client, topic)
    lost = Transactional(broker, f"{topic}-tx", version=1).init()
    assert lost.produce(client, 0, topic=topic).error_code == 0
    assert latest(client, topic=topic, committed=True) == 0
    find = ["find-hanging", "--broker-id", "1", "--topic", topic, "--max-transaction-timeout", HUNG_FOR_MINUTES]
    (found,) = table(run(tools, broker, "kafka-transactions", *find), "Topic")
    assert (found["Topic"], found["ProducerId"], found["StartOffset"]) == (topic, str(lost.producer_id), "0")
    named = {
        "start offset": ["--start-offset", "0"],
        "producer id": ["--producer-id", str(lost.producer_id), "--producer-epoch", str(lost.epoch), "--coordinator-epoch", "0"],
    }[way]
    run(tools, broker, "kafka-transactions", "abort", "--topic", topic, "--partition", "0", *named)
    assert latest(client, topic=topic, committed=True) == 2
    (state,) = producers(tools, broker, topic)
    assert state["CurrentTransactionStartOffset"] == "None"
