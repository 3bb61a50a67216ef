"""The restart of three brokers that have many partitions with data: elapsed time and CPU until every replica is in sync.

Rules:
- The brokers stop cleanly, one after the other, so that the last one leads every partition and is alone in the ISRs. The controller stays.
- The brokers start at the same time. The restart ends when the metadata of each names a leader and a full ISR for every partition.
"""

from __future__ import annotations

import logging
import time

from confluent_kafka import Producer

from client_compat.bench.model import LoadFailed, Site, Values
from client_compat.bench.peers.clusters import ClusterProcesses
from client_compat.kafka.cluster import Cluster, Node, seen_at

RESTARTED, RESTART_CPU = "restarted", "CPU of all brokers"
PARTITIONS_A_TOPIC = 500
RECORD_BYTES = 100
WRITE_TIMEOUT_S, STOP_TIMEOUT_S, START_TIMEOUT_S = 120.0, 300.0, 900.0
POLL_S = 0.25


def with_data(site: Site, *, partitions: int) -> Values:
    """Measure a clean restart of three brokers with this many partitions of three replicas, each with one record. Raises `LoadFailed`."""
    with site.fresh("restarted") as brokers:
        if not isinstance(brokers, ClusterProcesses):
            raise LoadFailed("one broker replicates nothing")
        cluster = brokers.cluster
        brokers.start()
        for first in range(0, partitions, PARTITIONS_A_TOPIC):
            topic, count = f"bench-data-{first}", min(PARTITIONS_A_TOPIC, partitions - first)
            cluster.create_topic(topic, count)
            _write(cluster.bootstrap, topic, count)
        for broker in cluster.brokers:
            broker.process.stop(STOP_TIMEOUT_S)
        began = time.perf_counter()
        for broker in cluster.brokers:
            broker.spawn()
        for broker in cluster.brokers:
            broker.process.wait_listening(START_TIMEOUT_S)
        _await_full_isrs(cluster, partitions, began + START_TIMEOUT_S)
        return {RESTARTED: time.perf_counter() - began, RESTART_CPU: brokers.usage().cpu_seconds}


def _write(bootstrap: str, topic: str, partitions: int) -> None:
    """Write one record to each partition of the topic. Raises `LoadFailed`."""
    producer = Producer({"bootstrap.servers": bootstrap, "acks": "all"}, logger=logging.getLogger("bench"))
    for partition in range(partitions):
        producer.produce(topic, b"v" * RECORD_BYTES, partition=partition)
    if left := producer.flush(WRITE_TIMEOUT_S):
        raise LoadFailed(f"{topic}: {left} of {partitions} records are not acknowledged after {WRITE_TIMEOUT_S:.0f} s")


def _await_full_isrs(cluster: Cluster, partitions: int, deadline: float) -> None:
    left = list(cluster.brokers)
    while left:
        in_sync = _in_sync(left[0])
        if in_sync >= partitions:
            del left[0]
        elif time.perf_counter() > deadline:
            raise LoadFailed(f"{in_sync} of {partitions} partitions have a full ISR after {START_TIMEOUT_S:.0f} s")
        else:
            left[0].process.check_alive()
            time.sleep(POLL_S)


def _in_sync(broker: Node) -> int:
    """Return the number of partitions that have a leader and a full ISR in the broker's metadata."""
    topics = seen_at(broker.process.port).topics
    return sum(one.leader_id >= 0 and len(one.isr_nodes) == len(one.replica_nodes) for topic in topics for one in topic.partitions)
