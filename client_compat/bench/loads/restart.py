"""The restart of three brokers that have many partitions with data: elapsed time and CPU until every replica is in sync.

Rules:
- The brokers stop cleanly, one after the other, so that no ISR has more than one broker. The controller stays.
- The restart begins when the sessions of the stopped brokers are over. Until then Kafka's controller rejects the registration of a
  restarted broker (DUPLICATE_BROKER_REGISTRATION), so a broker that starts faster would only wait.
- The brokers start at the same time. The restart ends when the metadata of each names a leader and a full ISR for every partition.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Mapping, Sequence

from confluent_kafka import Producer

from client_compat.bench.loads.topics import connect
from client_compat.bench.model import LoadFailed, Site, Values
from client_compat.bench.peers.clusters import ClusterProcesses
from client_compat.bench.peers.shipped import CLUSTER_SETTINGS
from client_compat.kafka.cluster import METADATA_VERSION, Node
from ottla.protocol.messages.k03_metadata import MetadataRequest, MetadataRequestTopic, MetadataResponse

RESTARTED, RESTART_CPU = "restarted", "CPU of all brokers"
PARTITIONS_A_TOPIC = 500
RECORD_BYTES = 100
WRITE_TIMEOUT_S, STOP_TIMEOUT_S, START_TIMEOUT_S = 120.0, 300.0, 900.0
POLL_S = 0.1
SESSION_S = int(CLUSTER_SETTINGS["broker.session.timeout.ms"]) / 1000 * 9 / 8 + 1
"""The time, in seconds, after which the session of a stopped broker is over: its timeout, an eighth of it until the controller's next
check, and 1 s."""


def with_data(site: Site, *, partitions: int) -> Values:
    """Measure a clean restart of three brokers with this many partitions of three replicas, each with one record. Raises `LoadFailed` if
    the site has no cluster, a record is not acknowledged, or the ISRs are not full in time."""
    with site.fresh("restarted") as brokers:
        if not isinstance(brokers, ClusterProcesses):
            raise LoadFailed("one broker replicates nothing")
        cluster = brokers.cluster
        brokers.start()
        topics = {f"bench-data-{first}": min(PARTITIONS_A_TOPIC, partitions - first) for first in range(0, partitions, PARTITIONS_A_TOPIC)}
        for topic, count in topics.items():
            cluster.create_topic(topic, count)
            _write(cluster.bootstrap, topic, count)
        for broker in cluster.brokers:
            broker.process.stop(STOP_TIMEOUT_S)
        time.sleep(SESSION_S)
        began = time.perf_counter()
        for broker in cluster.brokers:
            broker.spawn()
        for broker in cluster.brokers:
            broker.process.wait_listening(START_TIMEOUT_S)
        _await_full_isrs(cluster.brokers, topics, began + START_TIMEOUT_S)
        return {RESTARTED: time.perf_counter() - began, RESTART_CPU: brokers.usage().cpu_seconds}


def _write(bootstrap: str, topic: str, partitions: int) -> None:
    """Write one record to each partition of the topic. Raises `LoadFailed` if a record is not acknowledged in time."""
    producer = Producer({"bootstrap.servers": bootstrap, "acks": "all"}, logger=logging.getLogger("bench"))
    for partition in range(partitions):
        producer.produce(topic, b"v" * RECORD_BYTES, partition=partition)
    if left := producer.flush(WRITE_TIMEOUT_S):
        raise LoadFailed(f"{topic}: {left} of {partitions} records are not acknowledged after {WRITE_TIMEOUT_S:.0f} s")


def _await_full_isrs(brokers: Sequence[Node], topics: Mapping[str, int], deadline: float) -> None:
    """Wait until every broker names a leader and a full ISR for each partition of the topics. `topics` has partition counts by name; one
    topic is requested at a time, because a response about all would take the broker's time. Raises `LoadFailed` after `deadline`, a time of
    time.perf_counter."""
    for broker in brokers:
        with connect(broker.process.bootstrap) as client:
            for topic, partitions in topics.items():
                request = MetadataRequest(topics=[MetadataRequestTopic(name=topic)])
                while (in_sync := _in_sync(client.call(request, METADATA_VERSION))) < partitions:
                    if time.perf_counter() > deadline:
                        raise LoadFailed(f"{topic}: {in_sync} of {partitions} partitions have a full ISR after {START_TIMEOUT_S:.0f} s")
                    broker.process.check_alive()
                    time.sleep(POLL_S)


def _in_sync(metadata: MetadataResponse) -> int:
    """Return the number of partitions in a Metadata response that have a leader and a full ISR."""
    partitions = [partition for topic in metadata.topics for partition in topic.partitions]
    return sum(each.leader_id >= 0 and len(each.isr_nodes) == len(each.replica_nodes) for each in partitions)
