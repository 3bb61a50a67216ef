"""One data directory, two brokers in turn: Apache Kafka on what this broker wrote and the other way round, stopped cleanly and killed.

What has to be the same on the other side: the records, the committed offsets, the topics' ids and configurations, and the producers' state:
the last batch again is known as a duplicate, the next one is taken.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from client_compat.kafka.jars import KafkaMissing, jars
from client_compat.kafka.reference import ReferenceBroker
from protocol.client import Client
from protocol.messages.k01_fetch import FetchPartition, FetchRequest, FetchTopic
from protocol.messages.k32_describe_configs import DescribeConfigsRequest, DescribeConfigsResource
from protocol.records.batch import split_batches
from protocol.records.record import iter_records
from tests.support.group_calls import commit, fetch, find_coordinator, wait_until
from tests.support.running_broker import HOST, RunningBroker
from tests.support.topic_calls import create, describe, produce

PRODUCER = 7


@pytest.fixture(scope="module", autouse=True)
def _kafka() -> None:
    try:
        jars()
    except KafkaMissing as missing:
        pytest.skip(str(missing))


class Ledger:
    """What was written so far, by whichever broker, and the questions that the next one has to answer from it."""

    def __init__(self) -> None:
        self.values: list[bytes] = []
        self.topic_id = b""
        self.committed = -1

    def begin(self, client: Client) -> None:
        """The topic, its configuration and the first records."""
        self.topic_id = create(client, "t", 2, configs={"retention.ms": "-1", "segment.bytes": str(1 << 20)}).topic_id
        ready(client)
        for _ in range(3):
            self.write(client)

    def write(self, client: Client) -> None:
        """One more batch of two, and a commit of its offset."""
        at = len(self.values)
        batch = [b"a%d" % at, b"b%d" % at]
        assert produce(client, "t", *batch, producer_id=PRODUCER, base_sequence=at) == at
        self.values += batch
        self.committed = at
        assert commit(client, at) == 0

    def check(self, client: Client) -> None:
        """Everything is as it was left."""
        ready(client)
        (topic,) = describe(client, "t")
        assert (topic.topic_id, len(topic.partitions)) == (self.topic_id, 2)
        assert read(client) == self.values
        assert fetch(client)[0] == self.committed
        assert config(client, "retention.ms") == "-1"
        at = len(self.values) - 2
        assert produce(client, "t", *self.values[-2:], producer_id=PRODUCER, base_sequence=at) == at
        assert read(client) == self.values
        self.write(client)


def ready(client: Client) -> None:
    """Until both partitions are led and the group's coordinator answers."""
    wait_until(lambda: all(p.leader_id == 1 for topic in describe(client, "t") for p in topic.partitions), "the topic is led")
    wait_until(lambda: ready_to_read(client).error_code == 0, "the leader serves")
    wait_until(lambda: coordinated(client), "there is a coordinator", 20)
    wait_until(lambda: fetch_error(client) == 0, "the coordinator has loaded", 20)


def coordinated(client: Client) -> bool:
    try:
        find_coordinator(client)
    except AssertionError:
        return False
    return True


def fetch_error(client: Client) -> int:
    try:
        return fetch(client)[3]
    except AssertionError:
        return -1


def ready_to_read(client: Client, offset: int = 0) -> Any:
    partition = FetchPartition(0, fetch_offset=offset, partition_max_bytes=1 << 20)
    request = FetchRequest(max_wait_ms=0, min_bytes=0, session_epoch=-1, topics=[FetchTopic("t", partitions=[partition])])
    return client.call(request, version=12).responses[0].partitions[0]


def read(client: Client) -> list[bytes]:
    """Every value of partition 0."""
    data = ready_to_read(client)
    assert data.error_code == 0
    records = bytes(data.records or b"")
    batches = (records[pos : pos + header.size_bytes] for pos, header in split_batches(records))
    return [bytes(record.value or b"") for batch in batches for record in iter_records(batch)]


def config(client: Client, key: str) -> str | None:
    asked = DescribeConfigsRequest([DescribeConfigsResource(2, "t", [key])])
    value: str | None = client.call(asked).results[0].configs[0].value
    return value


def end(broker: RunningBroker | ReferenceBroker, kill: bool) -> None:
    if kill:
        broker.kill()
    else:
        broker.stop()


@pytest.mark.parametrize("kill", [False, True], ids=["stopped", "killed"])
def test_apache_kafka_goes_on_with_this_brokers_directory_and_back(tmp_path: Path, kill: bool) -> None:
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
        ledger.check(client)
    assert not list((tmp_path / "data").glob("*-stray"))


@pytest.mark.parametrize("kill", [False, True], ids=["stopped", "killed"])
def test_this_broker_goes_on_with_apache_kafkas_directory_and_back(tmp_path: Path, kill: bool) -> None:
    ledger = Ledger()
    with ReferenceBroker(tmp_path / "data") as kafka:
        with Client(HOST, kafka.port) as client:
            ledger.begin(client)
        end(kafka, kill)
    ours = RunningBroker(tmp_path / "data").start()
    with ours.client() as client:
        ledger.check(client)
    end(ours, kill)
    with ReferenceBroker(tmp_path / "data") as again, Client(HOST, again.port) as client:
        ledger.check(client)
    assert not list((tmp_path / "data").glob("*-stray"))
