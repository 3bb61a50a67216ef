"""Costs of a new broker: time to the first acknowledgement, idle and loaded memory, and two thousand partitions."""

from __future__ import annotations

import time

from client_compat.bench.loads import librdkafka
from client_compat.bench.loads.frames import dial, frames, producers
from client_compat.bench.loads.latency import one_by_one
from client_compat.bench.loads.topics import await_leaders, connect, create
from client_compat.bench.model import Ability, LoadFailed, Site, Values
from client_compat.support.brokers import BrokerProcess

FIRST_ACK, IDLE_MEMORY, LOADED_MEMORY = "start to first ack", "memory idle", "memory after the load"
CREATED, RESTARTED, PARTITIONS_MEMORY = "created", "stopped and started again", "memory with them"
START_TIMEOUT_S = 60.0
SETTLE_S = 1.0
POLL_S = 0.005
MEBIBYTE = 1024 * 1024
RECORD_BYTES = 1_024
TOPIC = "bench-life"


def first_steps(site: Site, *, records: int) -> Values:
    """Measure a new broker: the time from its start to the acknowledgement of a first idempotent record, and its memory when idle and after
    a load. Raises `LoadFailed` if the topic cannot be created in time or a record is rejected."""
    with site.fresh("fresh") as broker:
        began = time.perf_counter()
        broker.start(START_TIMEOUT_S)
        _first_ack(broker, began + START_TIMEOUT_S, by_request=site.can(Ability.PARTITIONS))
        first_ack = time.perf_counter() - began
        time.sleep(SETTLE_S)
        idle = broker.usage().rss_bytes
        librdkafka.produce(broker.bootstrap, TOPIC, 1, RECORD_BYTES, records)
        if site.can(Ability.RETENTION):
            librdkafka.consume(broker.bootstrap, TOPIC, 1, records)
        loaded = broker.usage().rss_bytes
    return {FIRST_ACK: first_ack, IDLE_MEMORY: idle / MEBIBYTE, LOADED_MEMORY: loaded / MEBIBYTE}


def _first_ack(broker: BrokerProcess, deadline: float, *, by_request: bool) -> None:
    """Create a topic and have one record acknowledged by a new broker. With `by_request`, CreateTopics creates the topic, otherwise a
    Metadata request. Retry until `deadline`, because a broker may listen before it can serve requests."""
    while True:
        try:
            with connect(broker.bootstrap) as client:
                create(client, [TOPIC], 1, by_request=by_request)
            break
        except (LoadFailed, OSError):
            if time.perf_counter() > deadline:
                raise
            time.sleep(POLL_S)
    with dial(broker.bootstrap) as peer:
        one_by_one(peer, frames(TOPIC, RECORD_BYTES, 1, producers(broker.bootstrap, 1)[0], timestamp_ms=int(time.time() * 1_000)))


def partitions(site: Site, *, topics: int, partitions_each: int) -> Values:
    """Measure the time to create topics until each partition has a leader, and the time of a clean restart until each has one again. Raises
    `LoadFailed` if partitions stay without a leader."""
    names = [f"bench-{number:03}" for number in range(topics)]
    with site.fresh("fresh") as broker:
        broker.start(START_TIMEOUT_S)
        _first_ack(broker, time.perf_counter() + START_TIMEOUT_S, by_request=True)
        with connect(broker.bootstrap) as client:
            began = time.perf_counter()
            create(client, names, partitions_each, by_request=True)
            values = {CREATED: time.perf_counter() - began, PARTITIONS_MEMORY: broker.usage().rss_bytes / MEBIBYTE}
        if site.can(Ability.RESTART):
            began = time.perf_counter()
            broker.stop()
            broker.start(START_TIMEOUT_S)
            with connect(broker.bootstrap) as client:
                await_leaders(client, names, partitions_each)
            values[RESTARTED] = time.perf_counter() - began
    return values
