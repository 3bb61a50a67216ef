"""CPU cost of a replicated record while many replicas are idle, and of the idle replicas alone.

Rules:
- The same cluster is measured with 0 idle partitions, then with more and more, each with three replicas.
- A load starts only when the brokers have finished the work for the new partitions.
- The figures are CPU times of all brokers together, not elapsed times.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Sequence
from contextlib import ExitStack
from typing import Any

from confluent_kafka import KafkaException, Producer

from client_compat.bench.model import LoadFailed, Site, Values
from client_compat.bench.peers.clusters import ClusterProcesses
from client_compat.kafka.cluster import Cluster

COUNTS = (0, 1_000, 10_000)
RECORD_CPU, TRANSACTION_CPU, REST_CPU = "CPU a record", "CPU a transaction", "CPU at rest"
BUSY, BUSY_PARTITIONS = "bench-busy", 3
PARTITIONS_A_TOPIC = 500
RECORD_BYTES = 100
TIMEOUT_S = 60.0
QUIET_S, QUIET_LOOKS = 2.0, 60
QUIET_CHANGE = 0.02
"""If two successive samples of the brokers' CPU use (1.0 is one processor) differ by no more than this, the brokers have finished the work
for the new partitions."""
REST_S = 6.0


def record_cpu(count: int) -> str:
    """Return the name of the figure for the CPU time per replicated record, with `count` idle partitions."""
    return f"{RECORD_CPU} beside {count:,}"


def transaction_cpu(count: int) -> str:
    """Return the name of the figure for the CPU time per transaction, with `count` idle partitions."""
    return f"{TRANSACTION_CPU} beside {count:,}"


def rest_cpu(count: int) -> str:
    """Return the name of the figure for the brokers' CPU time without load, with `count` idle partitions."""
    return f"{REST_CPU} with {count:,}"


def beside(site: Site, *, counts: Sequence[int], records: int, transactions: int) -> Values:
    """For each number of idle partitions in `counts`, measure the brokers' CPU time per record with acks=all, per transaction with one
    record, and without load. Raises `LoadFailed` if the site has no cluster, the brokers do not become quiet, or a record or transaction
    fails."""
    if not isinstance(site.broker, ClusterProcesses):
        raise LoadFailed("one broker replicates nothing")
    cluster, values = site.broker.cluster, dict[str, float]()
    with ExitStack() as stack:
        busy = f"{BUSY}-{site.run}"
        _create(cluster, busy, BUSY_PARTITIONS, stack)
        load = _Load(site, busy)
        idle = 0
        for count in counts:
            while idle < count:
                added = min(PARTITIONS_A_TOPIC, count - idle)
                _create(cluster, f"bench-idle-{site.run}-{idle}", added, stack)
                idle += added
            _until_quiet(site)
            values[rest_cpu(count)] = _share(site, REST_S) * 1e3
            values[record_cpu(count)] = load.cpu_us(load.record, records)
            values[transaction_cpu(count)] = load.cpu_us(load.transaction, transactions)
    return values


def _create(cluster: Cluster, name: str, partitions: int, stack: ExitStack) -> None:
    cluster.create_topic(name, partitions)
    stack.callback(cluster.delete_topic, name)


def _share(site: Site, seconds: float) -> float:
    """Return the CPU use of all brokers together during the next `seconds`; 1.0 is one processor."""
    began_s, used = time.perf_counter(), site.broker.usage().cpu_seconds
    time.sleep(seconds)
    return (site.broker.usage().cpu_seconds - used) / (time.perf_counter() - began_s)


def _until_quiet(site: Site) -> None:
    last = _share(site, QUIET_S)
    for _ in range(QUIET_LOOKS):
        share = _share(site, QUIET_S)
        if abs(share - last) <= QUIET_CHANGE:
            return
        last = share
    raise LoadFailed(f"the brokers are not quiet after {QUIET_S * QUIET_LOOKS:.0f} s")


class _Load:
    """A client that sends one record or transaction at a time, and waits for its acknowledgement."""

    def __init__(self, site: Site, topic: str) -> None:
        self._site = site
        self._topic = topic
        config: dict[str, Any] = {"bootstrap.servers": site.broker.bootstrap, "linger.ms": 0, "acks": "all"}
        logger = logging.getLogger("bench")
        self._producer = Producer(config, logger=logger)
        self._transactional = Producer({**config, "transactional.id": topic}, logger=logger)
        self._number = 0
        try:
            self._transactional.init_transactions(TIMEOUT_S)
        except KafkaException as error:
            raise LoadFailed(f"{topic}: {error.args[0]}") from error
        for work in (self.record, self.transaction):
            self.cpu_us(work, BUSY_PARTITIONS)

    def cpu_us(self, work: Any, times: int) -> float:
        """Call `work` `times` times; return the CPU microseconds that all brokers together use for each call."""
        began = self._site.broker.usage().cpu_seconds
        for _ in range(times):
            work()
        return (self._site.broker.usage().cpu_seconds - began) * 1e6 / times

    def record(self) -> None:
        """Send one record and wait for its acknowledgement. Raises `LoadFailed` if it does not come in time."""
        self._send(self._producer)
        if self._producer.flush(TIMEOUT_S):
            raise LoadFailed(f"{self._topic}: a record is not acknowledged after {TIMEOUT_S:.0f} s")

    def transaction(self) -> None:
        """Commit a transaction with one record, and wait for the response. Raises `LoadFailed` if a call of the transactional producer
        fails."""
        try:
            self._transactional.begin_transaction()
            self._send(self._transactional)
            self._transactional.commit_transaction(TIMEOUT_S)
        except KafkaException as error:
            raise LoadFailed(f"{self._topic}: {error.args[0]}") from error

    def _send(self, producer: Producer) -> None:
        self._number += 1
        producer.produce(self._topic, b"v" * RECORD_BYTES, partition=self._number % BUSY_PARTITIONS)
