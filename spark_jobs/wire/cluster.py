"""A cluster as a reader sees it: which partitions there are, who leads them, their ends, and Fetch from their leaders.

Rules that hold here: what a moving leader or a broken connection causes is tried again, a bounded number of times and with fresh metadata;
what the brokers refuse for good is an error with its name. No topic is ever created by asking for it.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Collection, Iterable, Mapping
from dataclasses import dataclass, field
from types import TracebackType
from typing import Any, Final

from ottla.protocol.client import Client
from ottla.protocol.error_codes import ErrorCode
from ottla.protocol.errors import ProtocolError
from ottla.protocol.messages.k01_fetch import FetchPartition, FetchRequest, FetchTopic, PartitionData
from ottla.protocol.messages.k02_list_offsets import ListOffsetsPartition, ListOffsetsRequest, ListOffsetsTopic
from ottla.protocol.messages.k03_metadata import MetadataRequest, MetadataRequestTopic, MetadataResponse
from ottla.protocol.messages.k32_describe_configs import DescribeConfigsRequest, DescribeConfigsResource
from ottla.protocol.messages.k35_describe_log_dirs import DescribeLogDirsRequest
from ottla.protocol.schema import Message
from ottla.protocol.topic_names import NAME_LENGTH_MAX, PARTITION_MAX, name_problem
from ottla.spark_jobs.wire.address import Address
from ottla.spark_jobs.wire.connection import NotAuthenticated, connect

Partition = tuple[str, int]

LATEST: Final = -1
EARLIEST: Final = -2
FETCH_VERSION_MAX: Final = 12
"""The last that names topics by their names, which all of these APIs share."""
FETCH_WAIT_MS: Final = 500
RESPONSE_BYTES_MAX: Final = 64 << 20
ATTEMPTS: Final = 30
BACKOFF_S: Final = 0.1
BACKOFF_S_MAX: Final = 1.0
TOPIC_RESOURCE: Final = 2
MOVING: Final = frozenset(
    {
        ErrorCode.NOT_LEADER_OR_FOLLOWER,
        ErrorCode.LEADER_NOT_AVAILABLE,
        ErrorCode.REPLICA_NOT_AVAILABLE,
        ErrorCode.FENCED_LEADER_EPOCH,
        ErrorCode.UNKNOWN_LEADER_EPOCH,
        ErrorCode.OFFSET_NOT_AVAILABLE,
        ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
        ErrorCode.KAFKA_STORAGE_ERROR,
        ErrorCode.BROKER_NOT_AVAILABLE,
    }
)
"""What a broker answers while a leader moves, and what another broker may answer otherwise."""


class WireError(OSError):
    """The cluster cannot be read: which part of it, and why."""


def error_name(code: int) -> str:
    """Kafka's name of an error code."""
    try:
        return ErrorCode(code).name
    except ValueError:
        return f"error {code}"


@dataclass(slots=True)
class Found:
    """What Metadata says of topics: partitions (leaderless ones too), and topics that it refused, with the reason."""

    partitions: list[Partition] = field(default_factory=list)
    refused: dict[str, str] = field(default_factory=dict)
    cluster_id: str = ""


class Cluster:
    """Connections to the brokers of one cluster, opened as they are needed. Use as a context manager, from one thread."""

    def __init__(self, address: Address, *, sleep: Callable[[float], None] = time.sleep) -> None:
        self._address = address
        self._sleep = sleep
        self._clients: dict[tuple[str, int], Client] = {}
        self._nodes: dict[int, tuple[str, int]] = {}
        self._leaders: dict[Partition, int] = {}

    def __enter__(self) -> Cluster:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        for client in self._clients.values():
            client.close()
        self._clients.clear()

    def find(self, topics: Collection[str] = ()) -> Found:
        """All partitions, or those of some topics. Raises WireError.

        A name that no topic can have is refused: files are named after topics, and a hostile cluster may name one `../x`."""
        response = self._metadata(topics or None)
        found = Found(cluster_id=response.cluster_id or "")
        for topic in response.topics:
            name = topic.name or ""
            if name_problem(name) is not None:
                found.refused[ascii(name[:NAME_LENGTH_MAX])] = "not read, because no topic can have this name"
                continue
            if any(not 0 <= each.partition_index <= PARTITION_MAX for each in topic.partitions):
                found.refused[name] = "not read, the cluster names a negative partition"
                continue
            if topic.error_code:
                found.refused[name] = error_name(topic.error_code)
            found.partitions += [(name, each.partition_index) for each in topic.partitions]
        found.partitions.sort()
        return found

    def offsets(self, partitions: Iterable[Partition], timestamp: int) -> tuple[dict[Partition, int], dict[Partition, str]]:
        """The EARLIEST or LATEST offset of each partition, the latter as a reader of uncommitted data sees it; and why others have none.

        Raises WireError where no broker answers at all."""
        left, found = set(partitions), dict[Partition, int]()
        refused: dict[Partition, str] = {}
        reasons: dict[Partition, str] = {}
        for attempt in range(ATTEMPTS):
            for node, led in self._by_leader(left).items():
                try:
                    request = ListOffsetsRequest(replica_id=-1, topics=_offset_topics(led, timestamp))
                    response = self._client(self._nodes[node]).call(request)
                except (OSError, ProtocolError) as e:
                    reasons |= dict.fromkeys(led, self._lost(self._nodes[node], e))
                    continue
                for topic in response.topics:
                    for each in topic.partitions:
                        partition = (topic.name, each.partition_index)
                        if partition not in left:
                            continue  # nobody asked for it, and its name was not checked
                        if each.error_code == ErrorCode.NONE:
                            found[partition] = each.offset
                        elif each.error_code in MOVING:
                            reasons[partition] = error_name(each.error_code)
                        else:
                            refused[partition] = error_name(each.error_code)
            left -= found.keys() | refused.keys()
            if not left:
                break
            self._pause(attempt)
            self._metadata({topic for topic, _ in left})
        return found, refused | {partition: reasons.get(partition, "it has no leader") for partition in left}

    def fetch(self, partition: Partition, offset: int, max_bytes: int) -> PartitionData:
        """What the leader has from an offset on, at least one batch where there is one. Errors that no retry mends are in the answer.

        Raises WireError where no leader answers."""
        reason = "no leader"
        for attempt in range(ATTEMPTS):
            leader = self._leader(partition)
            if leader is not None:
                try:
                    data = _fetched(self._client(leader), partition, offset, max_bytes)
                except (OSError, ProtocolError) as e:
                    reason = self._lost(leader, e)
                else:
                    if data.error_code not in MOVING:
                        return data
                    reason = error_name(data.error_code)
            self._pause(attempt)
            self._leaders.pop(partition, None)
        raise WireError(f"{partition[0]}-{partition[1]}: cannot be fetched at offset {offset}: {reason}")

    def cleanup_policies(self, topics: Collection[str]) -> dict[str, str]:
        """`cleanup.policy` of those topics whose configuration this user may see. Raises WireError."""
        resources = [
            DescribeConfigsResource(resource_type=TOPIC_RESOURCE, resource_name=topic, configuration_keys=["cleanup.policy"])
            for topic in topics
        ]
        response = self._ask(DescribeConfigsRequest(resources=resources))
        return {each.resource_name: config.value or "" for each in response.results if not each.error_code for config in each.configs}

    def sizes(self) -> dict[Partition, int]:
        """The bytes of each partition's leader; of none where this user may not see them. Raises WireError."""
        found: dict[Partition, int] = {}
        for node, where in sorted(self._nodes.items()):
            try:
                response = self._client(where).call(DescribeLogDirsRequest(topics=None))
            except (OSError, ProtocolError) as e:
                self._lost(where, e)
                continue
            for each in response.results:
                for topic in each.topics:
                    for log in topic.partitions:
                        if self._leaders.get((topic.name, log.partition_index)) == node and not log.is_future_key:
                            found[topic.name, log.partition_index] = log.partition_size
        return found

    def _metadata(self, topics: Collection[str] | None) -> MetadataResponse:
        asked = None if topics is None else [MetadataRequestTopic(name=topic) for topic in sorted(topics)]
        response: MetadataResponse = self._ask(MetadataRequest(topics=asked, allow_auto_topic_creation=False))
        self._nodes = {broker.node_id: (broker.host, broker.port) for broker in response.brokers}
        for topic in response.topics:
            for each in topic.partitions:
                self._leaders[topic.name or "", each.partition_index] = each.leader_id
        return response

    def _ask(self, request: Message) -> Any:
        """Any broker's answer. Raises WireError when none answers."""
        reason = ""
        for where in dict.fromkeys([*self._nodes.values(), *self._address.servers]):
            try:
                return self._client(where).call(request)
            except NotAuthenticated as e:
                raise WireError(f"{self._address.name}: {e}") from e
            except (OSError, ProtocolError) as e:
                reason = self._lost(where, e)
        raise WireError(f"{self._address.name}: no broker answers ({reason})")

    def _leader(self, partition: Partition) -> tuple[str, int] | None:
        if partition not in self._leaders:
            self._metadata({partition[0]})
        return self._nodes.get(self._leaders.get(partition, -1))

    def _by_leader(self, partitions: Iterable[Partition]) -> Mapping[int, list[Partition]]:
        led: dict[int, list[Partition]] = {}
        for partition in sorted(partitions):
            leader = self._leaders.get(partition, -1)
            if leader in self._nodes:
                led.setdefault(leader, []).append(partition)
        return led

    def _client(self, where: tuple[str, int]) -> Client:
        if where not in self._clients:
            self._clients[where] = connect(self._address, *where)
        return self._clients[where]

    def _lost(self, where: tuple[str, int], error: Exception) -> str:
        """A connection that failed is not used again. The reason in words."""
        client = self._clients.pop(where, None)
        if client is not None:
            client.close()
        return f"{where[0]}:{where[1]}: {error}"

    def _pause(self, attempt: int) -> None:
        self._sleep(min(BACKOFF_S * 2**attempt, BACKOFF_S_MAX))


def _fetched(client: Client, partition: Partition, offset: int, max_bytes: int) -> PartitionData:
    wanted = FetchPartition(partition=partition[1], fetch_offset=offset, partition_max_bytes=max_bytes)
    request = FetchRequest(
        max_wait_ms=FETCH_WAIT_MS,
        min_bytes=1,
        max_bytes=max(max_bytes, RESPONSE_BYTES_MAX),
        topics=[FetchTopic(topic=partition[0], partitions=[wanted])],
    )
    response = client.call(request, min(client.highest_version(FetchRequest), FETCH_VERSION_MAX))
    for topic in response.responses:
        for data in topic.partitions:
            if topic.topic == partition[0] and data.partition_index == partition[1]:
                found: PartitionData = data
                return found
    return PartitionData(partition_index=partition[1], error_code=response.error_code or ErrorCode.UNKNOWN_SERVER_ERROR)


def _offset_topics(partitions: Iterable[Partition], timestamp: int) -> list[ListOffsetsTopic]:
    topics: dict[str, ListOffsetsTopic] = {}
    for name, index in partitions:
        topic = topics.setdefault(name, ListOffsetsTopic(name=name))
        topic.partitions.append(ListOffsetsPartition(partition_index=index, timestamp=timestamp))
    return list(topics.values())
