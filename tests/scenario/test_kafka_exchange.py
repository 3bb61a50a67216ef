"""One data directory for two brokers in turn: Apache Kafka on what Ottla wrote and the reverse, stopped cleanly or killed.

The other broker must have the same records, committed offsets, topic ids and configurations, an open transaction (which it ends), and
producer state: a repeated last batch is recognised as a duplicate, and the next one is accepted.
"""

from __future__ import annotations

from pathlib import Path
from time import time_ns
from typing import Any

import pytest

from client_compat.kafka.reference import ReferenceBroker
from ottla.broker.storage.producer_state import BATCHES_REMEMBERED
from ottla.protocol.client import Client
from ottla.protocol.messages.k00_produce import PartitionProduceData, ProduceRequest, TopicProduceData
from ottla.protocol.messages.k01_fetch import FetchPartition, FetchRequest, FetchTopic
from ottla.protocol.messages.k10_find_coordinator import FindCoordinatorRequest
from ottla.protocol.messages.k22_init_producer_id import InitProducerIdRequest
from ottla.protocol.messages.k32_describe_configs import DescribeConfigsRequest, DescribeConfigsResource
from ottla.protocol.messages.k68_consumer_group_heartbeat import TopicPartitions
from ottla.protocol.records.batch import split_batches
from ottla.protocol.records.record import SimpleRecord, build_batch, iter_records
from tests.support import consumer_calls
from tests.support.apache_kafka import jars_or_skip
from tests.support.group_calls import commit, fetch, wait_until
from tests.support.running_broker import HOST, RunningBroker
from tests.support.topic_calls import create, describe, produce
from tests.support.txn_calls import Holder

PRODUCER = 7


@pytest.fixture(scope="module", autouse=True)
def _kafka() -> None:
    jars_or_skip()


class Ledger:
    """The records that either broker has written so far; the next broker must have them."""

    def __init__(self) -> None:
        self.values: list[bytes] = []
        self.topic_id = b""
        self.committed = -1
        self.holder = Holder(None, "tx", -1, -1)  # type: ignore[arg-type] # the connection is set before each use
        self.in_transactions = 0
        self.idle = 0
        """Partitions of the topic "idle" that were written, each once; the others may have no directory."""

    def begin(self, client: Client) -> None:
        """Create the topic with its configuration, and write the first records."""
        self.topic_id = create(client, "t", 2, configs={"retention.ms": "-1", "segment.bytes": str(1 << 20)}).topic_id
        create(client, "idle", 4)
        ready(client)
        for _ in range(3):
            self.write(client)
        self.holder = transactional(client)
        self.open_transaction(client)

    def open_transaction(self, client: Client) -> None:
        """Write one transactional record to partition 1, without a commit or abort."""
        self.holder.client = client
        wait_until(lambda: self.holder.add(("t", 1)) == [0], "the partition is added")
        record = SimpleRecord(None, b"in a transaction", time_ns() // 1_000_000)
        batch = build_batch(
            [record],
            producer_id=self.holder.producer_id,
            producer_epoch=self.holder.epoch,
            base_sequence=self.in_transactions,
            transactional=True,
        )
        data = TopicProduceData("t", partition_data=[PartitionProduceData(1, batch)])
        answer = client.call(ProduceRequest("tx", -1, 10_000, [data]), version=11)
        assert answer.responses[0].partition_responses[0].error_code == 0

    def end_transaction(self, client: Client) -> None:
        """Check that the open transaction is invisible, then commit it."""
        self.holder.client = client
        wait_until(lambda: coordinated(client, 1), "transactions have a coordinator")
        wait_until(lambda: self.holder.describe().transaction_state == "Ongoing", "the transaction is open", 20)
        assert committed(client) == self.in_transactions
        wait_until(lambda: self.holder.end(commit=True).error_code == 0, "the transaction is committed")
        self.in_transactions += 1
        wait_until(lambda: committed(client) == self.in_transactions, "its record is visible")

    def write(self, client: Client) -> None:
        """Write one more batch of two, and commit its offset."""
        at = len(self.values)
        batch = [b"a%d" % at, b"b%d" % at]
        assert produce(client, "t", *batch, producer_id=PRODUCER, base_sequence=at) == at
        self.values += batch
        self.committed = at
        assert commit(client, at) == 0

    def check(self, client: Client, window: int = 1) -> None:
        """Check that everything is as before, and that the last `window` batches are recognised as duplicates."""
        ready(client)
        (topic,) = describe(client, "t")
        assert (topic.topic_id, len(topic.partitions)) == (self.topic_id, 2)
        assert read(client) == self.values
        assert fetch(client)[0] == self.committed
        assert config(client, "retention.ms") == "-1"
        for at in range(max(0, len(self.values) - 2 * window), len(self.values), 2):
            assert produce(client, "t", *self.values[at : at + 2], producer_id=PRODUCER, base_sequence=at) == at
        assert read(client) == self.values
        self.write(client)
        self.end_transaction(client)
        self.open_transaction(client)
        (idle,) = describe(client, "idle")
        assert [p.leader_id for p in idle.partitions] == [1] * 4
        assert produce(client, "idle", b"first", partition=self.idle) == 0
        self.idle += 1
        assert [ready_to_read(client, p, topic="idle").high_watermark for p in range(4)] == [1] * self.idle + [0] * (4 - self.idle)


def ready(client: Client) -> None:
    """Wait until both partitions have leaders and the group's coordinator answers."""
    wait_until(lambda: all(p.leader_id == 1 for topic in describe(client, "t") for p in topic.partitions), "the topic is led")
    wait_until(lambda: ready_to_read(client).error_code == 0, "the leader serves")
    wait_until(lambda: coordinated(client), "there is a coordinator", 20)
    wait_until(lambda: fetch_error(client) == 0, "the coordinator has loaded", 20)


def coordinated(client: Client, kind: int = 0) -> bool:
    (found,) = client.call(FindCoordinatorRequest("", kind, ["g" if kind == 0 else "tx"]), version=4).coordinators
    return bool(found.error_code == 0)


def transactional(client: Client) -> Holder:
    """Get a producer id for "tx", as soon as it has a coordinator."""
    wait_until(lambda: coordinated(client, 1), "transactions have a coordinator", 20)
    answers: list[Any] = []

    def ask() -> bool:
        answers.append(client.call(InitProducerIdRequest("tx", 600_000), version=4))
        return bool(answers[-1].error_code == 0)

    wait_until(ask, "there is a producer id", 20)
    return Holder(client, "tx", answers[-1].producer_id, answers[-1].producer_epoch)


def committed(client: Client) -> int:
    """Return the number of records of partition 1 that read_committed consumers see."""
    data = ready_to_read(client, 1, isolation=1)
    records = bytes(data.records or b"")
    return sum(header.record_count for _, header in split_batches(records) if not header.is_control)


def fetch_error(client: Client) -> int:
    try:
        return fetch(client)[3]
    except AssertionError:
        return -1


def ready_to_read(client: Client, index: int = 0, *, isolation: int = 0, topic: str = "t") -> Any:
    wanted = [FetchTopic(topic, partitions=[FetchPartition(index, fetch_offset=0, partition_max_bytes=1 << 20)])]
    request = FetchRequest(max_wait_ms=0, min_bytes=0, isolation_level=isolation, session_epoch=-1, topics=wanted)
    return client.call(request, version=12).responses[0].partitions[0]


def read(client: Client) -> list[bytes]:
    """Return every value of partition 0."""
    data = ready_to_read(client)
    assert data.error_code == 0
    records = bytes(data.records or b"")
    batches = (records[pos : pos + header.size_bytes] for pos, header in split_batches(records))
    return [bytes(record.value or b"") for batch in batches for record in iter_records(batch)]


def config(client: Client, key: str) -> str | None:
    request = DescribeConfigsRequest([DescribeConfigsResource(2, "t", [key])])
    value: str | None = client.call(request).results[0].configs[0].value
    return value


def end(broker: RunningBroker | ReferenceBroker, kill: bool) -> None:
    if kill:
        broker.kill()
    else:
        broker.stop()


@pytest.mark.parametrize("kill", [False, True], ids=["stopped", "killed"])
def test_kafka_takes_over_this_brokers_directory_and_this_broker_takes_it_back(tmp_path: Path, kill: bool) -> None:
    ledger = Ledger()
    ours = RunningBroker(tmp_path / "data").start()
    with ours.client() as client:
        ledger.begin(client)
    end(ours, kill)
    with ReferenceBroker(tmp_path / "data", static_voters=True) as kafka:
        with Client(HOST, kafka.port) as client:
            ledger.check(client)
        end(kafka, kill)
    with RunningBroker(tmp_path / "data") as again, again.client() as client:
        ledger.check(client, BATCHES_REMEMBERED)
    assert not list((tmp_path / "data").glob("*-stray"))


@pytest.mark.parametrize("kill", [False, True], ids=["stopped", "killed"])
def test_this_broker_takes_over_kafkas_directory_and_kafka_takes_it_back(tmp_path: Path, kill: bool) -> None:
    ledger = Ledger()
    with ReferenceBroker(tmp_path / "data") as kafka:
        with Client(HOST, kafka.port) as client:
            ledger.begin(client)
        end(kafka, kill)
    ours = RunningBroker(tmp_path / "data").start()
    with ours.client() as client:
        ledger.check(client, BATCHES_REMEMBERED)
    end(ours, kill)
    with ReferenceBroker(tmp_path / "data") as again, Client(HOST, again.port) as client:
        ledger.check(client)
    assert not list((tmp_path / "data").glob("*-stray"))


class Members:
    """Two members of the consumer protocol that share the four partitions of "t", and the group's committed offsets."""

    def __init__(self, client: Client) -> None:
        create(client, "t", 4)
        ready(client)
        self.offset = 0
        self.epochs = {"a": 0, "b": 0}
        self.owned: dict[str, list[int]] = {"a": [], "b": []}
        wait_until(lambda: self.step(client) and self.are_even(), "the partitions are shared", 20)
        self.commit(client)

    def are_even(self) -> bool:
        """Return whether each of the two members is assigned two partitions, and both are in the same epoch."""
        return self.epochs["a"] == self.epochs["b"] and len(self.owned["a"]) == len(self.owned["b"]) == 2

    def step(self, client: Client) -> bool:
        """Send a full heartbeat of each with its owned partitions, and adopt the assignments; return whether both were accepted."""
        (topic,) = describe(client, "t")
        errors = []
        for member, epoch in self.epochs.items():
            owns = [TopicPartitions(topic.topic_id, self.owned[member])] if self.owned[member] else []
            answer = consumer_calls.beat(
                client, member, epoch, rebalance_timeout_ms=30_000, subscribed_topic_names=["t"], topic_partitions=owns
            )
            errors.append(answer.error_code)
            if not answer.error_code:
                self.epochs[member], self.owned[member] = answer.member_epoch, consumer_calls.partitions(answer)
        return not any(errors)

    def commit(self, client: Client) -> None:
        self.offset += 1
        assert commit(client, self.offset, member_id="a", generation_id_or_member_epoch=self.epochs["a"]) == 0

    def check(self, client: Client) -> None:
        """Check that the next broker knows both members with their partitions and epoch, so that no rebalance is needed."""
        ready(client)
        epochs, owned = dict(self.epochs), {member: list(had) for member, had in self.owned.items()}
        for _ in range(2):
            assert self.step(client)
        assert (self.epochs, self.owned) == (epochs, owned)
        described = consumer_calls.describe(client)
        assert (described.group_state, described.group_epoch, len(described.members)) == ("Stable", epochs["a"], 2)
        assert fetch(client)[0] == self.offset
        self.commit(client)


@pytest.mark.parametrize("kill", [False, True], ids=["stopped", "killed"])
def test_consumer_group_continues_without_a_rebalance_over_a_takeover_by_kafka_and_back(tmp_path: Path, kill: bool) -> None:
    ours = RunningBroker(tmp_path / "data").start()
    with ours.client() as client:
        members = Members(client)
    end(ours, kill)
    with ReferenceBroker(tmp_path / "data", static_voters=True) as kafka:
        with Client(HOST, kafka.port) as client:
            members.check(client)
        end(kafka, kill)
    with RunningBroker(tmp_path / "data") as again, again.client() as client:
        members.check(client)
