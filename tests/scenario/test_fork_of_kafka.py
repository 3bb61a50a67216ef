"""A fork of an Apache Kafka broker under load is a state that a crash could leave: Ottla serves it, the audit finds nothing, and the
original is unchanged."""

from __future__ import annotations

import hashlib
import itertools
import threading
from pathlib import Path

import pytest
from confluent_kafka import Consumer, Producer, TopicPartition

from client_compat.kafka.reference import ReferenceBroker
from ottla.audit import audit
from ottla.broker.storage.fork import fork
from ottla.broker.testing.in_process import InProcessBroker
from ottla.protocol.client import Client
from tests.support.apache_kafka import jars_or_skip
from tests.support.topic_calls import create

SEGMENT_BYTES = 1 << 20
PARTITIONS = 4


class Load:
    """Transactions of five records each; every fifth is aborted."""

    def __init__(self, bootstrap: str) -> None:
        self.done = 0
        self.enough = threading.Event()
        self._stop = threading.Event()
        self._bootstrap = bootstrap
        self._threads = [threading.Thread(target=self._run, args=(number,)) for number in range(2)]

    def __enter__(self) -> Load:
        for thread in self._threads:
            thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._stop.set()
        for thread in self._threads:
            thread.join()

    def _run(self, number: int) -> None:
        producer = Producer({"bootstrap.servers": self._bootstrap, "transactional.id": f"tx{number}", "linger.ms": 0})
        producer.init_transactions(60)
        for transaction in itertools.count():
            if self._stop.is_set():
                return
            producer.begin_transaction()
            for _ in range(5):
                producer.produce("t", bytes(8_000))
            (producer.abort_transaction if transaction % 5 == 4 else producer.commit_transaction)(60)
            self.done += 1
            if self.done > 400:
                self.enough.set()


def hashes_of_closed_segments(path: Path) -> dict[Path, str]:
    closed = [segment for directory in path.glob("t-*") for segment in sorted(directory.glob("*.log"))[:-1]]
    return {segment: hashlib.sha256(segment.read_bytes()).hexdigest() for segment in closed}


def readable(bootstrap: str) -> int:
    """Return how many committed records a client can read."""
    client = Consumer({"bootstrap.servers": bootstrap, "group.id": "g", "enable.partition.eof": True})
    try:
        client.assign([TopicPartition("t", index, 0) for index in range(PARTITIONS)])
        records = ends = 0
        while ends < PARTITIONS:
            for message in client.consume(500, 30):
                records, ends = (records, ends + 1) if message.error() else (records + 1, ends)
        return records
    finally:
        client.close()


@pytest.fixture(autouse=True)
def _kafka() -> None:
    jars_or_skip()


def test_fork_of_kafka_under_load_is_audited_clean_and_can_be_served(tmp_path: Path) -> None:
    kafka = ReferenceBroker(tmp_path / "kafka")
    with kafka:
        with Client("127.0.0.1", kafka.port) as client:
            create(client, "t", PARTITIONS, {"segment.bytes": str(SEGMENT_BYTES)})
        with Load(kafka.bootstrap) as load:
            assert load.enough.wait(120)
            before = hashes_of_closed_segments(kafka.data_dir)
            made = [fork(kafka.data_dir, tmp_path / name) for name in ("first", "second")]
        assert before
        assert all(report.consistent and not report.clean for report in made)
        for report in made:
            (verdict,) = audit([report.target], engine="duckdb").directories
            wrong = {name: rule.samples for name, rule in verdict.rules.items() if rule.violations or rule.warnings}
            assert wrong == {}
        served = InProcessBroker(tmp_path / "second", {"node.id": kafka.node_id})
        with served:
            assert readable(served.bootstrap) > 1_000
        assert hashes_of_closed_segments(kafka.data_dir).items() >= before.items()
