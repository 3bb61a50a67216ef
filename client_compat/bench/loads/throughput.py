"""Produce records, then consume them: records a second, and the broker's CPU time for a million of them."""

from __future__ import annotations

from collections.abc import Mapping

from client_compat.bench.loads import librdkafka
from client_compat.bench.loads.topics import topic
from client_compat.bench.model import Ability, LoadFailed, Site, Values
from client_compat.bench.peers.secured import SecuredProcess

PRODUCED, PRODUCE_CPU = "produce", "produce, broker CPU"
CONSUMED, CONSUME_CPU = "consume", "consume, broker CPU"


def through_librdkafka(site: Site, *, record_bytes: int, partitions: int, records: int) -> Values:
    return _librdkafka(site, {}, record_bytes, partitions, records)


def through_tls(site: Site, *, record_bytes: int, partitions: int, records: int) -> Values:
    """Measure throughput through librdkafka and the broker's TLS listener: records per second when producing and when consuming, and the
    broker's CPU time."""
    assert isinstance(site.broker, SecuredProcess), "the case says that it needs TLS"
    return _librdkafka(site, site.broker.client_properties(), record_bytes, partitions, records)


def _librdkafka(site: Site, properties: Mapping[str, str], record_bytes: int, partitions: int, records: int) -> Values:
    bootstrap = site.broker.bootstrap
    with topic(site, f"librdkafka-{record_bytes}-{partitions}", partitions) as name:
        before = site.broker.usage().cpu_seconds
        produced = librdkafka.produce(bootstrap, name, partitions, record_bytes, records, properties=properties)
        between = site.broker.usage().cpu_seconds
        values = rate_and_cpu(PRODUCED, PRODUCE_CPU, records, produced, between - before)
        if site.can(Ability.RETENTION):
            consumed = librdkafka.consume(bootstrap, name, partitions, records, properties)
            values |= rate_and_cpu(CONSUMED, CONSUME_CPU, records, consumed, site.broker.usage().cpu_seconds - between)
    return values


def through_java(site: Site, *, record_bytes: int, partitions: int, records: int) -> Values:
    if site.java is None:
        raise LoadFailed("there is no Java client")
    bootstrap = site.broker.bootstrap
    with topic(site, f"java-{record_bytes}-{partitions}", partitions) as name:
        before = site.broker.usage().cpu_seconds
        produced = site.java.produce(bootstrap, name, partitions, record_bytes, records)
        between = site.broker.usage().cpu_seconds
        values = rate_and_cpu(PRODUCED, PRODUCE_CPU, records, produced, between - before)
        if site.can(Ability.RETENTION):
            consumed = site.java.consume(bootstrap, name, partitions, records)
            values |= rate_and_cpu(CONSUMED, CONSUME_CPU, records, consumed, site.broker.usage().cpu_seconds - between)
    return values


def rate_and_cpu(rate: str, cpu: str, records: int, seconds: float, cpu_seconds: float) -> Values:
    return {rate: records / seconds, cpu: cpu_seconds * 1e6 / records}
