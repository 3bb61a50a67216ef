"""Transactions over brokers of both kinds: whichever coordinates them and leads their partitions, they are atomic."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from confluent_kafka import Producer

from client_compat.kafka.cluster import Cluster, Kind, Node, running
from client_compat.support.brokers import HOST
from client_compat.support.reading import read_with_confluent, wait_until_stable
from ottla.protocol.client import Client
from ottla.protocol.error_codes import ErrorCode
from ottla.protocol.messages.k10_find_coordinator import FindCoordinatorRequest
from tests.support.apache_kafka import jars_or_skip

TOPIC, PARTITIONS = "transactional", 3
TIMEOUT_S = 60


@pytest.fixture
def cluster(tmp_path: Path) -> Iterator[Cluster]:
    jars_or_skip()
    with running(Cluster(tmp_path / "cluster", [Kind.KAFKA, Kind.OTTLA, Kind.OTTLA])) as started:
        started.create_topic(TOPIC, PARTITIONS)
        yield started


class Writer:
    """The producer of one transactional id. `acknowledged` are the values of transactions that were confirmed as committed."""

    def __init__(self, cluster: Cluster, transactional_id: str) -> None:
        self.transactional_id = transactional_id
        self.acknowledged: list[bytes] = []
        self._cluster = cluster
        self._count = 0
        self._producer = Producer({"bootstrap.servers": cluster.bootstrap, "transactional.id": transactional_id, "linger.ms": 0})
        self._producer.init_transactions(TIMEOUT_S)

    def write(self, *, commit: bool) -> None:
        """Write one record to every partition, so that every broker leads one of them."""
        value = f"{self.transactional_id} {self._count} {commit}".encode()
        self._count += 1
        self._producer.begin_transaction()
        for partition in range(PARTITIONS):
            self._producer.produce(TOPIC, value, partition=partition)
        if commit:
            self._producer.commit_transaction(TIMEOUT_S)
            self.acknowledged.append(value)
        else:
            self._producer.abort_transaction(TIMEOUT_S)

    def coordinator(self) -> Node:
        with Client(HOST, self._cluster.broker(2).process.port) as client:
            found = client.call(FindCoordinatorRequest(key_type=1, coordinator_keys=[self.transactional_id]), 4).coordinators[0]
        assert found.error_code == ErrorCode.NONE
        return self._cluster.broker(found.node_id)


def test_killed_coordinator_of_kafka_or_ottla_leaves_every_transaction_complete(cluster: Cluster) -> None:
    writers = [Writer(cluster, f"tx{number}") for number in range(8)]
    cluster.settle()
    for writer in writers:
        writer.write(commit=True)
        writer.write(commit=False)
    for kind in Kind:
        victim = next(writer.coordinator() for writer in writers if writer.coordinator().kind == kind)
        for writer in writers:
            writer.write(commit=True)
        victim.process.kill()  # while the markers of at least the last one are being written
        for writer in writers:
            writer.write(commit=False)
            writer.write(commit=True)
        victim.start()
        cluster.settle()
    wait_until_stable(cluster.bootstrap, TOPIC, PARTITIONS)
    seen = [(one.partition, one.value) for one in read_with_confluent(cluster.bootstrap, TOPIC, PARTITIONS, "read_committed")]
    acknowledged = [(partition, value) for writer in writers for value in writer.acknowledged for partition in range(PARTITIONS)]
    assert sorted(seen) == sorted(acknowledged)
