"""A client for the brokers of one cluster: partitions, their leaders, their first and last offsets, and Fetch from the leaders.

Invariants:
- Errors caused by a moving leader or a broken connection are retried with fresh metadata, a limited number of times.
- Other errors are reported with their Kafka names.
- Requests never create a topic.
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
from ottla.protocol.printable import reason_of
from ottla.protocol.schema import Message
from ottla.protocol.topic_names import NAME_LENGTH_MAX, PARTITION_MAX, name_problem
from ottla.spark_jobs.wire.address import Address
from ottla.spark_jobs.wire.connection import NotAuthenticated, connect
from ottla.spark_jobs.wire.security import connection_advice

Partition = tuple[str, int]

LATEST: Final = -1
EARLIEST: Final = -2
FETCH_VERSION_MAX: Final = 12
"""The last Fetch version that names topics; later versions use topic ids. The client's other requests use names as well."""
FETCH_WAIT_MS: Final = 500
RESPONSE_BYTES_MAX: Final = 64 << 20
ATTEMPTS: Final = 30
BACKOFF_S: Final = 0.1
BACKOFF_S_MAX: Final = 1.0
TOPIC_RESOURCE: Final = 2
READ: Final = 1 << 3
"""The bit of Kafka's AclOperation.READ in a topic's authorized operations (KIP-430)."""
LEADER_CHANGE_ERRORS: Final = frozenset(
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
"""The error codes that brokers return while a partition's leader changes. The request is retried with fresh metadata."""


class WireError(OSError):
    """The cluster cannot be read. The message names the cluster or partition and the reason."""


def error_name(code: int) -> str:
    """Return Kafka's name of an error code, or `error <code>` for an unknown code."""
    try:
        return ErrorCode(code).name
    except ValueError:
        return f"error {code}"


@dataclass(slots=True)
class Found:
    """The result of a Metadata request. `partitions`: all partitions, including those without a leader. `refused`: the topics that cannot
    be read, with the reason."""

    partitions: list[Partition] = field(default_factory=list)
    refused: dict[str, str] = field(default_factory=dict)
    cluster_id: str = ""


class Cluster:
    """Connections to the brokers of one cluster, opened on demand. Use it as a context manager, from one thread."""

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
        """List all partitions of the cluster, or those of some topics. Raises WireError when no broker answers, or one rejects the
        credentials.

        Topics with an invalid name are in `Found.refused`: files are named after topics (see `spool`), and a hostile cluster may return
        `../x`. So are topics that this user may describe but not read.
        """
        response = self._metadata(topics or None, authorized_operations=True)
        found = Found(cluster_id=response.cluster_id or "")
        for topic in response.topics:
            name = topic.name or ""
            if name_problem(name) is not None:
                found.refused[ascii(name[:NAME_LENGTH_MAX])] = "not read, because no topic can have this name"
                continue
            if any(not 0 <= each.partition_index <= PARTITION_MAX for each in topic.partitions):
                found.refused[name] = "not read, the cluster names a negative partition"
                continue
            operations = topic.topic_authorized_operations  # negative if the broker does not know them
            if operations > 0 and not operations & READ:
                found.refused[name] = "TOPIC_AUTHORIZATION_FAILED, this user may not READ it"
                continue
            if topic.error_code:
                found.refused[name] = error_name(topic.error_code)
            found.partitions += [(name, each.partition_index) for each in topic.partitions]
        found.partitions.sort()
        return found

    def offsets(self, partitions: Iterable[Partition], timestamp: int) -> tuple[dict[Partition, int], dict[Partition, str]]:
        """Return the offset of each partition that ListOffsets gives for `timestamp` (EARLIEST or LATEST), and the reason for each
        partition without one. LATEST is the high watermark, as for a read_uncommitted consumer.

        Raises WireError if no broker answers at all.
        """
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
                            continue  # the response contains a partition that was not requested, so its name was not checked
                        if each.error_code == ErrorCode.NONE:
                            found[partition] = each.offset
                        elif each.error_code in LEADER_CHANGE_ERRORS:
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
        """Send a Fetch request to the partition's leader, and return the partition's part of the response. It has at least one batch if
        there is one at or after `offset`. Error codes that a retry cannot resolve are in the result.

        Raises WireError if no leader answers.
        """
        reason = "no leader"
        for attempt in range(ATTEMPTS):
            leader = self._leader(partition)
            if leader is not None:
                try:
                    data = _fetched(self._client(leader), partition, offset, max_bytes)
                except (OSError, ProtocolError) as e:
                    reason = self._lost(leader, e)
                else:
                    if data.error_code not in LEADER_CHANGE_ERRORS:
                        return data
                    reason = error_name(data.error_code)
            self._pause(attempt)
            self._leaders.pop(partition, None)
        raise WireError(f"{partition[0]}-{partition[1]}: cannot be fetched at offset {offset}: {reason}")

    def cleanup_policies(self, topics: Collection[str]) -> dict[str, str]:
        """Return the setting `cleanup.policy` of each topic whose configuration the user may describe. Raises WireError if no broker
        answers."""
        resources = [
            DescribeConfigsResource(resource_type=TOPIC_RESOURCE, resource_name=topic, configuration_keys=["cleanup.policy"])
            for topic in topics
        ]
        response = self._ask(DescribeConfigsRequest(resources=resources))
        return {each.resource_name: config.value or "" for each in response.results if not each.error_code for config in each.configs}

    def sizes(self) -> dict[Partition, int]:
        """Return the size in bytes of each partition on its leader. Partitions on brokers that do not answer are missing, and the result is
        empty if the user may not describe log directories."""
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

    def _metadata(self, topics: Collection[str] | None, *, authorized_operations: bool = False) -> MetadataResponse:
        request = MetadataRequest(
            topics=None if topics is None else [MetadataRequestTopic(name=topic) for topic in sorted(topics)],
            allow_auto_topic_creation=False,
            include_topic_authorized_operations=authorized_operations,
        )
        response: MetadataResponse = self._ask(request)
        self._nodes = {broker.node_id: (broker.host, broker.port) for broker in response.brokers}
        for topic in response.topics:
            for each in topic.partitions:
                self._leaders[topic.name or "", each.partition_index] = each.leader_id
        return response

    def _ask(self, request: Message) -> Any:
        """Send a request to one broker after the other until one answers, and return its response. Raises WireError if no broker answers,
        or one rejects the credentials."""
        reason = advice = ""
        for where in dict.fromkeys([*self._nodes.values(), *self._address.servers]):
            try:
                return self._client(where).call(request)
            except NotAuthenticated as e:
                raise WireError(f"{self._address.name}: {e}") from e
            except (OSError, ProtocolError) as e:
                reason, advice = self._lost(where, e), connection_advice(e)
        raise WireError(f"{self._address.name}: no broker answers ({reason}). {advice}".rstrip())

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
        """Close the failed connection to the broker at `where` (host, port), and return the error as text that names the broker."""
        client = self._clients.pop(where, None)
        if client is not None:
            client.close()
        return f"{where[0]}:{where[1]}: {reason_of(error)}"

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
