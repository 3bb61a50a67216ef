"""`ottla transactions` as an operator types it, against Ottla and against Apache Kafka, with the same output."""

from __future__ import annotations

import json
import subprocess
import sys
import time
from collections.abc import Iterator
from typing import Any

import pytest

from client_compat.kafka.jars import KafkaMissing
from client_compat.kafka.reference import ReferenceBroker
from client_compat.support.brokers import ottla
from ottla.broker.cli.cluster import TRANSACTION, AdminClient, TopicPartition
from ottla.protocol.client import Client
from ottla.protocol.messages.k19_create_topics import CreatableTopic, CreateTopicsRequest
from ottla.protocol.messages.k22_init_producer_id import InitProducerIdRequest
from ottla.protocol.messages.k24_add_partitions_to_txn import AddPartitionsToTxnRequest, AddPartitionsToTxnTopic
from ottla.protocol.messages.k26_end_txn import EndTxnRequest
from ottla.protocol.records.record import SimpleRecord, build_batch
from tests.support.group_calls import wait_until
from tests.support.transactions import committed_values, fetch, produce_as

TIMEOUT_S = 60
VERIFICATION_OFF = {"transaction.partition.verification.enable": "false"}
LONG_AGO_MS = 3_600_000
INTERNAL_PARTITIONS = ["--set=offsets.topic.num.partitions=4", "--set=transaction.state.log.num.partitions=4"]


@pytest.fixture(scope="module", params=["ottla", "kafka"])
def bootstrap(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """A broker without transaction verification, like every Kafka before 3.6, so that transactions can hang."""
    data_dir = tmp_path_factory.mktemp("tx-cli") / "data"
    if request.param == "ottla":
        off = [f"--set={name}={value}" for name, value in VERIFICATION_OFF.items()]
        with ottla(data_dir, options=[*INTERNAL_PARTITIONS, *off]) as ours:
            yield ours.bootstrap
        return
    try:
        kafka = ReferenceBroker(data_dir, VERIFICATION_OFF)
        with kafka:
            yield kafka.bootstrap
    except KafkaMissing as missing:
        pytest.skip(str(missing))


@pytest.fixture
def client(bootstrap: str) -> Iterator[Client]:
    host, _, port = bootstrap.partition(":")
    with Client(host, int(port)) as client:
        yield client


@pytest.fixture
def topic(request: pytest.FixtureRequest, client: Client) -> str:
    name = "".join(char if char.isalnum() else "-" for char in request.node.name)
    created = client.call(CreateTopicsRequest([CreatableTopic(name, 2, 1)]))
    assert [each.error_code for each in created.topics] == [0]
    wait_until(lambda: fetch(client, name).error_code == 0, "the topic is there")
    return name


def run(bootstrap: str, *arguments: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "ottla", "transactions", *arguments, "--bootstrap-server", bootstrap]
    return subprocess.run(command, capture_output=True, text=True, timeout=TIMEOUT_S, check=False)


def json_of(bootstrap: str, *arguments: str, code: int = 0) -> Any:
    """Run the command; return its JSON output."""
    done = run(bootstrap, *arguments, "--json")
    assert done.returncode == code, done.stdout + done.stderr
    return json.loads(done.stdout)


def refused(bootstrap: str, *arguments: str, code: int = 1) -> str:
    done = run(bootstrap, *arguments)
    assert done.returncode == code, done.stdout
    assert "Traceback" not in done.stderr
    return done.stderr


def producer(bootstrap: str, transactional_id: str) -> tuple[int, int]:
    """Return a transactional id's producer id and epoch."""
    answers: list[Any] = []

    def given() -> bool:
        with AdminClient(bootstrap) as cluster:
            answers.append(cluster.coordinator(transactional_id, InitProducerIdRequest(transactional_id, 60_000), TRANSACTION))
        return bool(answers[-1].error_code == 0)

    wait_until(given, "the coordinator has answered", TIMEOUT_S)
    return answers[-1].producer_id, answers[-1].producer_epoch


def write(client: Client, topic: str, transactional_id: str, holder: tuple[int, int], sequence: int = 0) -> None:
    """Write a transactional batch with a timestamp of an hour ago to partition 1, as a producer of transaction version 1."""
    record = SimpleRecord(None, b"v", int(time.time() * 1_000) - LONG_AGO_MS)
    batch = build_batch([record], producer_id=holder[0], producer_epoch=holder[1], base_sequence=sequence, transactional=True)
    assert produce_as(client, transactional_id, batch, topic=topic, index=1, version=11).error_code == 0


def begin(client: Client, topic: str, transactional_id: str, holder: tuple[int, int]) -> None:
    added = client.call(AddPartitionsToTxnRequest([], transactional_id, *holder, [AddPartitionsToTxnTopic(topic, [1])]), version=3)
    assert [p.partition_error_code for t in added.results_by_topic_v3_and_below for p in t.results_by_partition] == [0]


def test_a_hanging_transaction_is_found_and_aborted(bootstrap: str, client: Client, topic: str) -> None:
    holder = producer(bootstrap, topic)
    write(client, topic, topic, holder)
    assert fetch(client, topic, index=1).last_stable_offset == 0
    (found,) = json_of(bootstrap, "find-hanging", "--topic", topic, code=1)
    assert (found["topic"], found["partition"], found["producer id"], found["producer epoch"], found["start offset"]) == (
        topic,
        1,
        *holder,
        0,
    )
    json_of(bootstrap, "find-hanging", "--topic", topic, "--partition", "0")
    done = run(bootstrap, "abort", topic, "1", "--start-offset", "0", "--yes")
    assert done.returncode == 0, done.stderr
    assert json_of(bootstrap, "find-hanging", "--topic", topic) == []
    wait_until(lambda: fetch(client, topic, index=1).last_stable_offset == 2, "readers go on")
    assert committed_values(client, topic, index=1) == []


def test_a_transaction_that_its_coordinator_knows_does_not_hang_and_is_not_aborted(bootstrap: str, client: Client, topic: str) -> None:
    holder = producer(bootstrap, topic)
    begin(client, topic, topic, holder)
    write(client, topic, topic, holder)
    assert json_of(bootstrap, "find-hanging", "--topic", topic) == []
    assert "does not hang" in refused(bootstrap, "abort", topic, "1", "--start-offset", "0", "--yes")
    assert client.call(EndTxnRequest(topic, *holder, True), version=3).error_code == 0
    wait_until(lambda: committed_values(client, topic, index=1) == [b"v"], "the commit is readable")


def test_recent_writes_are_not_reported_as_a_hanging_transaction(bootstrap: str, client: Client, topic: str) -> None:
    write(client, topic, topic, producer(bootstrap, topic))
    assert json_of(bootstrap, "find-hanging", "--topic", topic, "--max-transaction-timeout", "90") == []
    assert len(json_of(bootstrap, "find-hanging", "--topic", topic, "--max-transaction-timeout", "30", code=1)) == 1
    run(bootstrap, "abort", topic, "1", "--start-offset", "0", "--yes")


def test_transactions_are_listed_and_described(bootstrap: str, client: Client, topic: str) -> None:
    holder = producer(bootstrap, topic)
    begin(client, topic, topic, holder)
    (listed,) = [each for each in json_of(bootstrap, "list") if each["transactional id"] == topic]
    assert (listed["producer id"], listed["state"]) == (holder[0], "Ongoing")
    assert [each["transactional id"] for each in json_of(bootstrap, "list", "--producer-id", str(holder[0]))] == [topic]
    assert topic not in {each["transactional id"] for each in json_of(bootstrap, "list", "--state", "Empty")}
    assert [each["transactional id"] for each in json_of(bootstrap, "list", "--transactional-id-pattern", f"{topic[:-1]}.")] == [topic]
    assert topic not in {each["transactional id"] for each in json_of(bootstrap, "list", "--duration-filter", "3600000")}
    described = json_of(bootstrap, "describe", topic)
    assert described["partitions"] == [f"{topic}-1"]
    assert (described["state"], described["producer epoch"], described["timeout ms"]) == ("Ongoing", holder[1], 60_000)
    assert 0 <= described["running ms"] < 60_000
    assert "Ongoing" in run(bootstrap, "describe", topic).stdout
    assert client.call(EndTxnRequest(topic, *holder, False), version=3).error_code == 0
    wait_until(lambda: json_of(bootstrap, "describe", topic)["state"] == "CompleteAbort", "the transaction is ended")
    assert json_of(bootstrap, "describe", topic)["running ms"] is None


def test_unknown_transactional_ids_partitions_and_states_are_reported(bootstrap: str, topic: str) -> None:
    assert "TRANSACTIONAL_ID_NOT_FOUND" in refused(bootstrap, "describe", "nobody")
    assert "no open transaction" in refused(bootstrap, "abort", topic, "0", "--start-offset", "5", "--yes")
    assert "no partition 9" in refused(bootstrap, "abort", topic, "9", "--start-offset", "5", "--yes")
    assert "no partition 9" in refused(bootstrap, "find-hanging", "--topic", topic, "--partition", "9", code=2)
    assert "--partition needs one --topic" in refused(bootstrap, "find-hanging", "--partition", "9", code=2)
    assert "is not a state" in refused(bootstrap, "list", "--state", "Sleeping")
    with AdminClient(bootstrap) as cluster:
        assert cluster.by_leader([TopicPartition(topic, 0)])
