"""Records with acks=all to three brokers through librdkafka: throughput and acknowledgement latency.

Rules:
- Each of three brokers leads one partition and follows two. The measurement starts when all replicas are in sync.
- Paced records are sent on schedule without batching (linger 0), and their latency counts from the scheduled time.
- librdkafka reports the time of the acknowledgement, so that late polling does not affect the latency.
"""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from client_compat.bench.loads import librdkafka
from client_compat.bench.loads.latency import percentiles
from client_compat.bench.model import LoadFailed, Site, Values
from client_compat.bench.peers.clusters import ClusterProcesses

PRODUCED, CPU = "produce", "CPU of all brokers"
PARTITIONS = 3
RECORD_BYTES = 100
HEAD_START_S = 0.01


def batched(site: Site, *, record_bytes: int, records: int) -> Values:
    """Measure the maximum throughput of batched records (linger.ms 5) and the brokers' CPU time per record. Raises `LoadFailed` if the site
    has no cluster, or a record is rejected or not acknowledged in time."""
    with _topic(site, f"replicated-{record_bytes}") as name:
        before = site.broker.usage().cpu_seconds
        seconds = librdkafka.produce(site.broker.bootstrap, name, PARTITIONS, record_bytes, records)
        cpu_seconds = site.broker.usage().cpu_seconds - before
    return {PRODUCED: records / seconds, CPU: cpu_seconds * 1e6 / records}


def paced(site: Site, *, rate: int, seconds: int) -> Values:
    """Measure the latency of records that are sent on a schedule of `rate` a second. Raises `LoadFailed` if the site has no cluster, or a
    record is rejected or not acknowledged in time."""
    with _topic(site, "replicated-paced") as name:
        before = site.broker.usage().cpu_seconds
        taken = _paced(site.broker.bootstrap, name, rate, rate * seconds)
        cpu_seconds = site.broker.usage().cpu_seconds - before
    return percentiles(taken) | {CPU: cpu_seconds * 1e6 / len(taken)}


def _paced(bootstrap: str, topic: str, rate: int, records: int) -> list[float]:
    """Send `records` records on a schedule of `rate` a second; return, for each record, the seconds from its scheduled time to its
    acknowledgement."""
    producer = librdkafka.ready_producer(bootstrap, topic, PARTITIONS, {"linger.ms": 0})
    taken: list[float] = []
    errors: list[Any] = []

    def sent(late: float, partition: int) -> None:
        def report(error: Any, message: Any) -> None:
            if error is None:
                taken.append(late + message.latency())
            else:
                errors.append(error)

        producer.produce(topic, b"v" * RECORD_BYTES, partition=partition, on_delivery=report)

    began = time.perf_counter() + HEAD_START_S
    for number in range(records):
        due = began + number / rate
        while (left := due - time.perf_counter()) > 0:
            producer.poll(left)
        sent(-left, number % PARTITIONS)
    producer.flush(librdkafka.SILENCE_S)
    if len(taken) < records:
        raise LoadFailed(f"{len(errors)} records refused ({errors[:1]}), {records - len(taken) - len(errors)} without an answer")
    return taken


@contextmanager
def _topic(site: Site, name: str) -> Iterator[str]:
    """Create a topic at the site's cluster, with all replicas in sync, yield its name, and delete it afterwards. Raises `LoadFailed` if the
    site has no cluster."""
    if not isinstance(site.broker, ClusterProcesses):
        raise LoadFailed("one broker replicates nothing")
    cluster, full = site.broker.cluster, f"bench-{name}-{site.run}"
    cluster.create_topic(full, PARTITIONS)
    yield full
    cluster.delete_topic(full)
