"""Compare Ottla's cluster with Apache Kafka's by Produce requests to the leader and to other brokers, with each value of acks, and with too
few in-sync replicas."""

from __future__ import annotations

from typing import Any

from client_compat.differential.cluster_scenarios.common import DEBUGGING, create, list_offsets, wait_until_in_sync, wait_until_replicated
from client_compat.differential.nodes import Nodes
from client_compat.differential.scenarios.common import UNKNOWN_ID, batch, produce_request, producer_id, until
from ottla.protocol.api_keys import ApiKey
from ottla.protocol.messages.k22_init_producer_id import InitProducerIdRequest
from ottla.protocol.messages.k61_describe_producers import DescribeProducersRequest, TopicRequest

VERSIONS = (3, 5, 8, 9, 10, 11, 12, 13)


def write(  # noqa: PLR0917 # where, label and records, in this order in every scenario
    nodes: Nodes, node_id: int, label: str, topic: str, topic_id: bytes, records: bytes, *, version: int = 11, **fields: Any
) -> Any:
    """Send one Produce request for one partition to the broker `node_id`; record the response under `label` and return it. `fields`:
    further arguments of `produce_request`, such as `partition` and `acks`."""
    return nodes.ask(node_id, label, produce_request(nodes.at(node_id), topic, topic_id, records, version, **fields), version)


def fill(nodes: Nodes, name: str, batches: int = 3, partition: int = 0, leader: int = 1) -> None:
    """Write `batches` batches of two records each to one partition of the topic `name`, and wait until all replicas have them."""
    for n in range(batches):
        records = batch(b"a" * 100, b"b" * 100, at=n * 10)
        write(nodes, leader, f"batch {n}", name, bytes(16), records, partition=partition)
    wait_until_replicated(nodes, name, partition)


def acknowledged(nodes: Nodes) -> None:
    """Produce with acks 0, 1 and all at the leader, at a follower, at a broker without a replica, and to unknown partitions."""
    topic_id = create(nodes, "written", [(1, 2), (2, 1)])
    for version in VERSIONS:
        for acks in (1, -1):
            for node_id in nodes.living:
                write(nodes, node_id, f"acks {acks}", "written", topic_id, batch(b"one", b"two"), version=version, acks=acks)
                write(
                    nodes,
                    node_id,
                    f"acks {acks}, unknown partition",
                    "written",
                    topic_id,
                    batch(b"x"),
                    version=version,
                    acks=acks,
                    partition=9,
                )
                write(nodes, node_id, f"acks {acks}, unknown topic", "nowhere", UNKNOWN_ID, batch(b"x"), version=version, acks=acks)
            wait_until_replicated(nodes, "written")
    for node_id in nodes.living:
        unacknowledged(nodes, node_id, topic_id)


def unacknowledged(nodes: Nodes, node_id: int, topic_id: bytes) -> None:
    """Produce with acks=0. The leader sends no response; another broker closes the connection, which the next request shows."""
    probe = nodes.at(node_id)
    before = list_offsets(nodes, 1, "written", [0], DEBUGGING)[0][1]
    probe.send(produce_request(probe, "written", topic_id, batch(b"x"), 9, acks=0), 9)
    nodes.ask(node_id, "after acks 0", DescribeProducersRequest([TopicRequest("written", [0])]))
    if node_id == 1:
        for _ in until("it is appended"):
            if list_offsets(nodes, 1, "written", [0], DEBUGGING)[0][1] == before + 1:
                break
    wait_until_replicated(nodes, "written")


def in_sync(nodes: Nodes) -> None:
    """Produce with fewer in-sync replicas than `min.insync.replicas`: acks=all is rejected, acks=1 is appended."""
    topic_id = create(nodes, "too-few", [(1, 2)], {"min.insync.replicas": "3"})
    enough = create(nodes, "alone", [(1,)], {"min.insync.replicas": "1"})
    for version in VERSIONS:
        for acks in (-1, 1):
            write(nodes, 1, f"too few, acks {acks}", "too-few", topic_id, batch(b"x"), version=version, acks=acks)
            write(nodes, 1, f"alone, acks {acks}", "alone", enough, batch(b"x"), version=version, acks=acks)
        write(nodes, 2, "too few, at a follower", "too-few", topic_id, batch(b"x"), version=version)


def producers(nodes: Nodes) -> None:
    """Produce idempotently to a leader with followers: retries, gaps, old epochs; then describe the producers at each replica."""
    topic_id = create(nodes, "idempotent")
    own = producer_id(nodes.at(2))
    for label, sequence, epoch in (
        ("first", 0, 0),
        ("second", 2, 0),
        ("second again", 2, 0),
        ("first again", 0, 0),
        ("a gap", 9, 0),
        ("a new epoch, not from 0", 5, 1),
        ("a new epoch", 0, 1),
        ("the old epoch", 4, 0),
    ):
        for node_id in (1, 2):
            records = batch(b"a", b"b", producer_id=own, producer_epoch=epoch, base_sequence=sequence)
            write(nodes, node_id, label, "idempotent", topic_id, records)
    wait_until_replicated(nodes, "idempotent")
    some = DescribeProducersRequest([TopicRequest("idempotent", [0, 9]), TopicRequest("nowhere", [0])])
    nodes.everywhere("producers", some)


def producer_ids(nodes: Nodes) -> None:
    """Get producer ids from every broker. Each broker has its own block of ids, and no id is given twice.

    Each broker first gets a request that is not recorded, because Apache Kafka rejects it while the broker fetches its block.
    """
    for node_id in nodes.living:
        producer_id(nodes.at(node_id))
    for version in nodes.range(ApiKey.INIT_PRODUCER_ID):
        for node_id in (1, 2, 3, 1, 3):
            nodes.ask(node_id, "a producer id", InitProducerIdRequest(None, 60_000), version)


def standing_still(nodes: Nodes) -> None:
    """Pause the followers for less than the broker session timeout: acks=all times out, and uncommitted records are not readable."""
    topic_id = create(nodes, "still")
    write(nodes, 1, "before", "still", topic_id, batch(b"a"))
    wait_until_replicated(nodes, "still")
    others = [nodes.cluster.broker(node_id).process for node_id in (2, 3)]
    for other in others:
        other.pause()
    try:
        write(nodes, 1, "acks 1", "still", topic_id, batch(b"b"), acks=1)
        write(nodes, 1, "acks all", "still", topic_id, batch(b"c"), timeout_ms=100)
    finally:
        for other in others:
            other.resume()
    wait_until_in_sync(nodes, "still")
    wait_until_replicated(nodes, "still")
    write(nodes, 1, "after", "still", topic_id, batch(b"d"))
