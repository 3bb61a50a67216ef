"""Functions for the claims (statements about exactly-once) that need three brokers: they find and pause brokers, and read logs on their
disks."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager

from client_compat.claims.environment import ClaimEnvironment
from client_compat.kafka.cluster import FETCH_WAITS_S, Cluster, Node
from client_compat.matrix.truth import FETCH_VERSION, Truth, TruthFailed, until
from client_compat.support.brokers import HOST
from client_compat.support.log_text import describe
from ottla.protocol.client import Client
from ottla.protocol.error_codes import ErrorCode
from ottla.protocol.messages.k01_fetch import FetchPartition, FetchRequest, FetchTopic
from ottla.protocol.messages.k03_metadata import MetadataResponsePartition
from ottla.protocol.messages.k10_find_coordinator import FindCoordinatorRequest
from ottla.spark_jobs.tables import Filters, read

FOLLOWERS_TIMEOUT_MS = 300
"""How long a Produce request waits for paused followers, in ms. This is much shorter than a broker's session, so no replica leaves the ISR
meanwhile."""
FIND_COORDINATOR_VERSION = 3
"""The last version of FindCoordinator whose request has a single key."""


@contextmanager
def three_brokers(environment: ClaimEnvironment, partitions: int = 1, **config: str) -> Iterator[tuple[Cluster, str]]:
    """Yield the cluster and a new topic with three replicas. `config` are topic settings, with `_` in place of dots. Afterwards, restart
    stopped brokers and resume paused ones."""
    cluster, topic = environment.cluster(), new_topic(environment, partitions, **config)
    try:
        yield cluster, topic
    finally:
        for broker in cluster.brokers:
            if broker.process.alive:
                broker.process.resume()
            else:
                broker.start()
        cluster.settle()


def new_topic(environment: ClaimEnvironment, partitions: int = 1, **config: str) -> str:
    """Create a further topic in the cluster with three replicas, and return its name."""
    topic = environment.name("replicated")
    environment.cluster().create_topic(topic, partitions, {name.replace("_", "."): value for name, value in config.items()})
    return topic


def partition_of(cluster: Cluster, topic: str, node: Node) -> MetadataResponsePartition | None:
    """Return partition 0 of the topic as broker `node` describes it in a Metadata response; None while the broker does not know the
    topic."""
    known = (one for found in cluster.seen_by(node).topics if found.name == topic for one in found.partitions)
    return next((one for one in known if one.partition_index == 0), None)


def leader_of(cluster: Cluster, topic: str, *, but: Node | None = None) -> Node:
    """Wait until partition 0 has a running leader other than `but` that answers ListOffsets; return this leader. No request is sent to
    `but`. Raises `TruthFailed` if that takes too long."""
    node = next(broker for broker in cluster.brokers if broker.process.alive and broker is not but)
    for _ in until(f"{topic} has a new leader"):
        found = partition_of(cluster, topic, node)
        if found is not None and found.leader_id >= 0:
            leader = cluster.broker(found.leader_id)
            if leader is not but and leader.process.alive:
                Truth(leader.process.port).wait_until_led(topic)
                return leader
    raise AssertionError("until raises")


def followers_of(cluster: Cluster, leader: Node) -> list[Node]:
    """Return the cluster's brokers other than `leader`."""
    return [broker for broker in cluster.brokers if broker is not leader]


def pause_process(followers: Sequence[Node], leader: Node, topic: str) -> None:
    """Pause the processes of the followers, and wait until the leader has answered their last fetch of partition 0. A follower's last fetch
    may still be in the leader's purgatory. This function sends a fetch of its own, which arrives later and waits longer; its response shows
    that the followers' fetches were answered."""
    for broker in followers:
        broker.process.pause()
    with Client(HOST, leader.process.port) as client:
        fetch_partition = FetchPartition(0, fetch_offset=Truth(leader.process.port).end_offset(topic), partition_max_bytes=1)
        request = FetchRequest(
            max_wait_ms=int(FETCH_WAITS_S * 1_000), min_bytes=1, topics=[FetchTopic(topic, partitions=[fetch_partition])]
        )
        (data,) = client.call(request, FETCH_VERSION).responses[0].partitions
    if data.error_code or data.records:
        raise TruthFailed(f"{topic} is written to, or not led, while its followers stand still: {data}")


def wait_in_sync(cluster: Cluster, topic: str, node: Node, brokers: Sequence[Node]) -> list[int]:
    """Wait until `node` reports these brokers as the ISR of partition 0; return their ids. Raises `TruthFailed` if that takes too long."""
    wanted = sorted(broker.node_id for broker in brokers)
    for _ in until(f"{wanted} are in sync for {topic}"):
        found = partition_of(cluster, topic, node)
        if found is not None and sorted(found.isr_nodes) == wanted:
            return wanted
    raise AssertionError("until raises")


def log(leader: Node, topic: str) -> list[str]:
    return [f"broker {leader.node_id}: {describe(batch)}" for batch in Truth(leader.process.port).batches(topic)]


def values(leader: Node, topic: str) -> list[str]:
    """Return the values that a consumer gets from the topic's partition 0, read from `leader`."""
    return [(value or b"").decode() for value in Truth(leader.process.port).values(topic)]


def holders(cluster: Cluster, topic: str, value: str) -> list[int]:
    """Return the ids of the brokers that have a record of the topic with that value on disk."""
    chosen = Filters(topics=frozenset({topic}))
    return [
        broker.node_id
        for broker in cluster.brokers
        if any(
            row == value.encode() for batch in read("records", [broker.directory], ["value"], chosen) for row in batch["value"].to_pylist()
        )
    ]


def coordinator_of(cluster: Cluster, key: str, *, transactional: bool = False) -> Node:
    """Return the broker that coordinates the group `key`, or with `transactional`, the transactional id `key`. Waits until there is one."""
    for _ in until(f"{key} has a coordinator"):
        with Client(HOST, cluster.brokers[0].process.port) as client:
            found = client.call(FindCoordinatorRequest(key, key_type=int(transactional)), FIND_COORDINATOR_VERSION)
        if found.error_code == ErrorCode.NONE:
            return cluster.broker(found.node_id)
    raise AssertionError("until raises")
