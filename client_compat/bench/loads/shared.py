"""Share groups (KIP-932) through the Java share consumer: records written before the consumers start, and records at a steady rate.

Rule: joining is not measured. In both brokers it takes as long as the heartbeat interval, because a member of a new group gets its
partitions only in a later heartbeat response.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from client_compat.bench.loads.latency import P50, P99
from client_compat.bench.loads.throughput import rate_and_cpu
from client_compat.bench.loads.topics import topic
from client_compat.bench.model import JavaClient, LoadFailed, Site, Values

TAKEN, TAKE_CPU = "taken", "broker CPU"


def queue(site: Site, *, consumers: int, record_bytes: int, records: int) -> Values:
    """Measure how fast share consumers of one partition receive and acknowledge records that are already in the log: records per second,
    and the broker's CPU time. Raises `LoadFailed` without a Java client."""
    bootstrap = site.broker.bootstrap
    with topic(site, f"share-{consumers}", 1) as name:
        _client(site).produce(bootstrap, name, 1, record_bytes, records)
        with _joined(site, name, consumers) as client:
            before = site.broker.usage().cpu_seconds
            seconds = client.share(records)
            return rate_and_cpu(TAKEN, TAKE_CPU, records, seconds, site.broker.usage().cpu_seconds - before)


def paced(site: Site, *, rate: int, seconds: int) -> Values:
    """Measure the time from the scheduled send of a record to its arrival at a share consumer, at `rate` records a second for `seconds`
    seconds. Raises `LoadFailed` without a Java client."""
    with topic(site, "share-paced", 1) as name, _joined(site, name, 1) as client:
        median, p99 = client.pace(site.broker.bootstrap, name, rate, rate * seconds)
        return {P50: median * 1e3, P99: p99 * 1e3}


@contextmanager
def _joined(site: Site, topic_name: str, consumers: int) -> Iterator[JavaClient]:
    client = _client(site)
    client.join(site.broker.bootstrap, topic_name, topic_name, consumers)
    yield client
    client.leave()


def _client(site: Site) -> JavaClient:
    if site.java is None:
        raise LoadFailed("there is no Java client")
    return site.java
