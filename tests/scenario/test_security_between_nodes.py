"""Brokers and controllers of both kinds in one cluster, which authenticate each other by TLS certificates or SASL.

The clients' listener is open, so that only inter-node authentication is tested: the nodes replicate, elect leaders, and complete
transactions as without security.
"""

from __future__ import annotations

import ssl
from pathlib import Path

from confluent_kafka import KafkaError, Message, Producer

from client_compat.kafka.cluster import INTER_BROKER_LISTENER, Cluster, Kind, running
from client_compat.kafka.inter_node_security import USERS, certificate_settings, password_settings
from client_compat.support.brokers import HOST
from client_compat.support.reading import read_with_confluent, wait_until_stable
from ottla.protocol.client import Client
from ottla.protocol.error_codes import ErrorCode
from ottla.protocol.errors import ProtocolError
from ottla.protocol.messages.k01_fetch import FetchPartition, FetchRequest, FetchTopic
from tests.support.apache_kafka import jars_or_skip

TOPICS = {"plain": {}, "transactional": {"transactional.id": "tx"}}
PARTITIONS, ROUNDS, TIMEOUT_S = 3, 10, 60
KINDS = (Kind.KAFKA, Kind.OTTLA, Kind.OTTLA)


def inter_broker_port(cluster: Cluster, node_id: int) -> int:
    """Return the port of a broker's inter-broker listener."""
    listeners = cluster.broker(node_id).settings["listeners"]
    return int(listeners.partition(f"{INTER_BROKER_LISTENER}://")[2].partition(",")[0].rpartition(":")[2])


def follower_fetch(port: int, tls: ssl.SSLContext | None = None) -> int | None:
    """Return the error of a follower's fetch of an unknown partition; None if it gets no response."""
    fetch = FetchRequest(replica_id=3, max_wait_ms=0, topics=[FetchTopic("t", partitions=[FetchPartition(0)])])
    try:
        with Client(HOST, port, wrap=lambda plain: tls.wrap_socket(plain, server_hostname=HOST) if tls else plain) as client:
            return int(client.call(fetch, 12).responses[0].partitions[0].error_code)
    except (OSError, ProtocolError):  # the client closed the connection, or told in TLS that this is none
        return None


def tls_of(directory: Path, name: str | None) -> ssl.SSLContext:
    """Make a TLS context with that certificate of `certified`, or without one."""
    context = ssl.create_default_context(cafile=directory / "ca.pem")
    if name is not None:
        context.load_cert_chain(directory / f"{name}.pem")
    return context


def written(cluster: Cluster, topic: str, config: dict[str, str]) -> list[tuple[int, bytes]]:
    """Write with acks=all and return what was acknowledged; with a transactional id, abort every other transaction."""
    acknowledged: list[tuple[int, bytes]] = []
    failed: list[KafkaError] = []

    def delivered(error: KafkaError | None, _: Message) -> None:
        failed.extend([error] if error else [])

    producer = Producer({"bootstrap.servers": cluster.bootstrap, "acks": "all", "enable.idempotence": "true", "linger.ms": 0, **config})
    if config:
        producer.init_transactions(TIMEOUT_S)
    for number in range(ROUNDS):
        values = [(partition, f"{cluster.broker(2).process.alive} {number}".encode()) for partition in range(PARTITIONS)]
        if config:
            producer.begin_transaction()
        for partition, value in values:
            producer.produce(topic, value, partition=partition, on_delivery=delivered)
        assert producer.flush(TIMEOUT_S) == 0
        if config and number % 2:
            producer.abort_transaction(TIMEOUT_S)
            continue
        if config:
            producer.commit_transaction(TIMEOUT_S)
        acknowledged += values
    assert not failed
    return acknowledged


def read(cluster: Cluster, topic: str) -> list[tuple[int, bytes]]:
    wait_until_stable(cluster.bootstrap, topic, PARTITIONS)
    seen = read_with_confluent(cluster.bootstrap, topic, PARTITIONS, "read_committed")
    return sorted((one.partition, one.value) for one in seen)


def cluster_of(directory: Path, controller: Kind) -> Cluster:
    """Make a cluster of both kinds: with SASL under Ottla's controller, with certificates under the controller of Kafka's broker 1."""
    jars_or_skip()
    by_certificates = controller == Kind.KAFKA
    return Cluster(
        directory / "cluster",
        KINDS,
        controller_kind=controller,
        combined=by_certificates,
        settings=certificate_settings(directory / "tls") if by_certificates else password_settings(directory / "tls"),
        users=() if by_certificates else USERS,
        inter_broker_listener=True,
    )


def test_records_and_transactions_survive_their_leader_in_a_secured_cluster_under_kafkas_controller(tmp_path: Path) -> None:
    with running(cluster_of(tmp_path, Kind.KAFKA)) as cluster:
        acknowledged: dict[str, list[tuple[int, bytes]]] = {}
        for topic, config in TOPICS.items():
            cluster.create_topic(topic, PARTITIONS)  # each broker leads one partition and follows two
            acknowledged[topic] = written(cluster, topic, config)
        for port in (inter_broker_port(cluster, 1), inter_broker_port(cluster, 2)):  # Kafka's broker and Ottla's
            assert [follower_fetch(port), follower_fetch(port, tls_of(tmp_path / "tls", None))] == [None, None]
            assert follower_fetch(port, tls_of(tmp_path / "tls", "guest")) == ErrorCode.TOPIC_AUTHORIZATION_FAILED
            assert follower_fetch(port, tls_of(tmp_path / "tls", "node")) == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
        cluster.broker(2).process.kill()
        cluster.until(3, lambda seen: all(part.leader_id in {1, 3} for topic in seen.topics for part in topic.partitions), "others lead")
        for topic, config in TOPICS.items():
            acknowledged[topic] += written(cluster, topic, config)
        cluster.broker(2).start()
        cluster.settle()  # which also checks that it has caught up
        for topic, values in acknowledged.items():
            assert read(cluster, topic) == sorted(values)


def test_kafkas_and_ottlas_brokers_replicate_securely_under_ottlas_controller(tmp_path: Path) -> None:
    with running(cluster_of(tmp_path, Kind.OTTLA)) as cluster:
        cluster.create_topic("plain", PARTITIONS)
        acknowledged = written(cluster, "plain", {})
        assert read(cluster, "plain") == sorted(acknowledged)
        assert all(
            follower_fetch(port) is None
            for port in (cluster.quorum[0].process.port, inter_broker_port(cluster, 1), inter_broker_port(cluster, 2))
        )
        cluster.stop()
