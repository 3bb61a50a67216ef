"""Topics for the loads, created with plain requests in versions that every peer supports.

Rules:
- librdkafka's mock has no CreateTopics and creates a topic on a Metadata request, so creation always ends with Metadata requests.
- Creation waits until every partition's leader itself responds. Apache Kafka publishes a leader slightly before that leader accepts
  records. A producer with five requests in flight could have its first batch rejected and a later one accepted, and would never recover.
"""

from __future__ import annotations

import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager

from client_compat.bench.model import Ability, LoadFailed, Site
from ottla.protocol.client import Client
from ottla.protocol.error_codes import ErrorCode
from ottla.protocol.messages.k02_list_offsets import ListOffsetsPartition, ListOffsetsRequest, ListOffsetsTopic
from ottla.protocol.messages.k03_metadata import MetadataRequest, MetadataRequestTopic
from ottla.protocol.messages.k19_create_topics import CreatableTopic, CreateTopicsRequest
from ottla.protocol.messages.k20_delete_topics import DeleteTopicsRequest

METADATA_VERSION = 7
CREATE_VERSION = 5
DELETE_VERSION = 4
LIST_OFFSETS_VERSION = 6
LATEST = -1
TIMEOUT_S = 120.0
POLL_S = 0.005


def connect(bootstrap: str) -> Client:
    host, _, port = bootstrap.partition(":")
    return Client(host, int(port), client_id="bench", timeout_s=TIMEOUT_S)


@contextmanager
def topic(site: Site, name: str, partitions: int) -> Iterator[str]:
    """Create a topic and yield its full name; delete the topic afterwards, so that its memory does not affect the next case."""
    full = f"bench-{name}-{site.peer.name.replace(' ', '-')}-{site.run}"  # several peers may share a broker
    with connect(site.broker.bootstrap) as client:
        create(client, [full], partitions, by_request=site.can(Ability.PARTITIONS))
    yield full
    if site.can(Ability.PARTITIONS):
        with connect(site.broker.bootstrap) as client:
            client.call(DeleteTopicsRequest(topic_names=[full], timeout_ms=int(TIMEOUT_S * 1_000)), DELETE_VERSION)


def create(client: Client, names: Sequence[str], partitions: int, *, by_request: bool) -> None:
    """Create topics and wait for the leaders of all their partitions. With `by_request`, send CreateTopics; otherwise the broker creates
    them on a Metadata request. Raises `LoadFailed` if CreateTopics fails or a partition gets no leader in time."""
    if by_request:
        for name in names:
            wanted = CreatableTopic(name, num_partitions=partitions, replication_factor=1)
            request = CreateTopicsRequest(topics=[wanted], timeout_ms=int(TIMEOUT_S * 1_000))
            (created,) = client.call(request, CREATE_VERSION).topics
            if created.error_code != ErrorCode.NONE:
                raise LoadFailed(f"CreateTopics of {name} answers {ErrorCode(created.error_code).name}")
    await_leaders(client, names, partitions)


def await_leaders(client: Client, names: Sequence[str], partitions: int) -> None:
    """Wait until every topic has at least this many partitions, each with a leader that responds. Raises `LoadFailed` if that takes too
    long."""
    deadline = time.perf_counter() + TIMEOUT_S
    metadata = MetadataRequest(topics=[MetadataRequestTopic(name=name) for name in names])
    ends = [ListOffsetsPartition(partition_index=index, timestamp=LATEST) for index in range(partitions)]
    offsets = ListOffsetsRequest(topics=[ListOffsetsTopic(name=name, partitions=ends) for name in names])
    wanted, led = len(names) * partitions, 0
    while led < wanted:
        answer = client.call(metadata, METADATA_VERSION)
        led = sum(p.leader_id >= 0 and p.error_code == ErrorCode.NONE for topic in answer.topics for p in topic.partitions)
        if led >= wanted:
            answer = client.call(offsets, LIST_OFFSETS_VERSION)
            led = sum(p.error_code == ErrorCode.NONE for topic in answer.topics for p in topic.partitions)
        if time.perf_counter() > deadline:
            raise LoadFailed(f"{led} of {wanted} partitions have a leader after {TIMEOUT_S:.0f} s")
        if led < wanted:
            time.sleep(POLL_S)
