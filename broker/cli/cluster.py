"""Admin requests to any Kafka cluster over Kafka's protocol, starting from a bootstrap address.

Rules:
- A request goes to the broker that can answer it: the controller, a coordinator, a partition's leader, or any broker.
- There is one connection to each broker, opened when first needed.
- An error code becomes a `CliError` that names the request.
- Only the search for a coordinator and the creation of a topic are retried, because a cluster may need a moment for them.
"""

from __future__ import annotations

import time
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from types import TracebackType
from typing import Any

from ottla.broker.cli.basics import CliError, host_port
from ottla.broker.cli.security import connect
from ottla.protocol.client import Client
from ottla.protocol.error_codes import ErrorCode
from ottla.protocol.errors import ProtocolError, UnsupportedVersion
from ottla.protocol.messages.k02_list_offsets import ListOffsetsPartition, ListOffsetsRequest, ListOffsetsTopic
from ottla.protocol.messages.k03_metadata import (
    MetadataRequest,
    MetadataRequestTopic,
    MetadataResponse,
    MetadataResponseBroker,
    MetadataResponseTopic,
)
from ottla.protocol.messages.k10_find_coordinator import FindCoordinatorRequest
from ottla.protocol.printable import reason_of
from ottla.protocol.schema import Message
from ottla.protocol.topic_names import name_problem
from ottla.spark_jobs.wire.security import connection_advice

CLIENT_ID = "ottla-cli"
GROUP, TRANSACTION = 0, 1
LATEST, EARLIEST = -1, -2
COORDINATOR_TRIES = 40
COORDINATOR_PAUSE_S = 0.25
TOPIC_TRIES = 12
_TOPIC_COMING = frozenset({ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, ErrorCode.LEADER_NOT_AVAILABLE})
_COORDINATOR_COMING = frozenset({ErrorCode.COORDINATOR_NOT_AVAILABLE, ErrorCode.COORDINATOR_LOAD_IN_PROGRESS, ErrorCode.NOT_COORDINATOR})


def name_of(error_code: int) -> str:
    """Return Kafka's name of an error code, such as NOT_CONTROLLER; for a code that Ottla does not know, its number."""
    try:
        return ErrorCode(error_code).name
    except ValueError:
        return f"error code {error_code}"


def check(error_code: int, what: str, message: str | None = None) -> None:
    """Raise `ErrorResponse`, a `CliError`, for any error code but NONE. `what` begins the exception's text: it names the request or its
    object. `message` is the broker's own message."""
    if error_code != ErrorCode.NONE:
        raise ErrorResponse(f"{what}: {name_of(error_code)}{f' ({message})' if message else ''}", error_code, message)


class ErrorResponse(CliError):
    """Raised if a broker answered with an error. `code` is the error code; `error_message` is the broker's own message, or this exception's
    text if the broker sent none."""

    def __init__(self, message: str, code: int, error_message: str | None = None) -> None:
        super().__init__(message)
        self.code = code
        self.error_message = error_message or message


class Unreachable(CliError):
    """Raised if no bootstrap server can be reached."""


class NotServed(CliError):
    """Raised if a broker does not support the API, or the version of it, that a request needs."""


@dataclass(frozen=True, slots=True, order=True)
class TopicPartition:
    topic: str
    partition: int


class AdminClient:
    """A client of one cluster, used as a context manager. `bootstrap` is `host:port[,host:port…]`. Every method may raise `CliError`."""

    def __init__(self, bootstrap: str) -> None:
        self._bootstrap = bootstrap
        self._clients: dict[tuple[str, int], Client] = {}
        self._metadata: MetadataResponse | None = None

    def __enter__(self) -> AdminClient:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        for client in self._clients.values():
            client.close()

    def any(self, request: Message) -> Any:
        """Send a request to the first bootstrap server that can be reached; return the response. Raises Unreachable if there is none."""
        refused: list[str] = []
        advice = "Start one with `ottla serve --data-dir data`, or name a running one with --bootstrap-server HOST:PORT."
        for address in self._bootstrap.split(","):
            try:
                return self._call(*host_port(address.strip()), request)
            except OSError as error:
                refused.append(f"{address}: {reason_of(error)}")
                advice = connection_advice(error) or advice
        raise Unreachable(f"no broker can be reached ({'; '.join(refused)}). {advice}")

    def each_broker(self, request: Message) -> list[tuple[MetadataResponseBroker, Any]]:
        """Send a request to all brokers; return each broker with its response. Raises CliError if one of them cannot be reached."""
        return [(broker, self.node(broker.node_id, request)) for broker in self.metadata().brokers]

    def controller(self, request: Message) -> Any:
        metadata = self.metadata()
        return self.node(metadata.controller_id, request) if metadata.controller_id >= 0 else self.any(request)

    def every_broker(self, request: Message, min_version: int = 0) -> list[Any]:
        """Send a request to all brokers; return their responses. `min_version` is the first version with all fields that the request uses.
        Raises CliError if a broker cannot be reached or does not support that version."""
        return [self.node(broker.node_id, request, min_version) for broker in self.metadata().brokers]

    def coordinator(self, key: str, request: Message, kind: int = GROUP, *, max_version: int | None = None) -> Any:
        """Send a request to the coordinator of the group or transactional id `key`, and return the response. If the cluster is still
        electing a coordinator, try again for some time. Raises ErrorResponse if no coordinator is found, and other kinds of CliError if it
        cannot be reached.

        `kind` is GROUP or TRANSACTION. `max_version` is the last version with all fields that the request uses.
        """
        what = "group" if kind == GROUP else "transactional id"
        for _ in range(COORDINATOR_TRIES):
            found = self.any(FindCoordinatorRequest(key=key, key_type=kind, coordinator_keys=[key]))
            place = found.coordinators[0] if found.coordinators else found
            if place.error_code == ErrorCode.NONE:
                return self._reach(place.host, place.port, request, max_version=max_version)
            if place.error_code not in _COORDINATOR_COMING:
                break
            time.sleep(COORDINATOR_PAUSE_S)
        check(place.error_code, f"the coordinator of {what} {key!r}", place.error_message)
        raise AssertionError("check raises for every code but NONE")

    def metadata(self) -> MetadataResponse:
        """Return a Metadata response about the cluster's brokers, without topics."""
        if self._metadata is None:
            self._metadata = self.any(MetadataRequest(topics=[], allow_auto_topic_creation=False))
        return self._metadata

    def topics(self, names: Sequence[str] | None = None) -> list[MetadataResponseTopic]:
        """Return the named topics, or all (None), in order of name. Raises `CliError` for a topic that does not exist."""
        requested = None if names is None else [MetadataRequestTopic(name=name) for name in names]
        answer: MetadataResponse = self.any(MetadataRequest(topics=requested, allow_auto_topic_creation=False))
        for topic in answer.topics:
            check(topic.error_code, f"topic {topic.name!r}", name_problem(topic.name or ""))
        return sorted(answer.topics, key=lambda topic: topic.name or "")

    def topic_to_write(self, name: str) -> MetadataResponseTopic:
        """Return the topic with this name. If it does not exist and the cluster creates topics automatically, wait until it is created.
        Raises `CliError` if it still does not exist."""
        for _ in range(TOPIC_TRIES):
            (topic,) = self.any(MetadataRequest(topics=[MetadataRequestTopic(name=name)], allow_auto_topic_creation=True)).topics
            if topic.error_code not in _TOPIC_COMING:
                break
            time.sleep(COORDINATOR_PAUSE_S)
        check(topic.error_code, f"topic {name!r}", name_problem(name))
        found: MetadataResponseTopic = topic
        return found

    def by_leader(self, partitions: Iterable[TopicPartition]) -> dict[int, list[TopicPartition]]:
        """Return the partitions by the node id of their leader, -1 for partitions without one. Raises `CliError` if a topic or partition
        does not exist."""
        wanted = list(partitions)
        leaders = {
            TopicPartition(topic.name or "", partition.partition_index): partition.leader_id
            for topic in self.topics(sorted({partition.topic for partition in wanted}))
            for partition in topic.partitions
        }
        if unknown := [partition for partition in wanted if partition not in leaders]:
            raise CliError(f"topic {unknown[0].topic!r} has no partition {unknown[0].partition}")
        led: dict[int, list[TopicPartition]] = {}
        for partition in wanted:
            led.setdefault(leaders[partition], []).append(partition)
        return dict(sorted(led.items()))

    def offsets(self, partitions: Iterable[TopicPartition], timestamp: int) -> dict[TopicPartition, int]:
        """Return for each partition the offset of the first record with this timestamp (in milliseconds) or a later one, -1 if there is
        none. EARLIEST and LATEST as the timestamp stand for the log start offset and the end offset. Raises `CliError` if a partition does
        not exist or its leader cannot answer."""
        found: dict[TopicPartition, int] = {}
        for leader, led in self.by_leader(partitions).items():
            requested = [_list_offsets(partition, timestamp) for partition in led]
            for topic in self.node(leader, ListOffsetsRequest(replica_id=-1, topics=requested)).topics:
                for answer in topic.partitions:
                    check(answer.error_code, f"offsets of {topic.name}-{answer.partition_index}")
                    found[TopicPartition(topic.name, answer.partition_index)] = answer.offset
        return found

    def node(self, node_id: int, request: Message, min_version: int = 0) -> Any:
        """Send a request to the broker with this id; return the response. Raises CliError if the broker cannot be reached or does not
        support `min_version`, the first version with all fields that the request uses."""
        for broker in self.metadata().brokers:
            if broker.node_id == node_id:
                return self._reach(broker.host, broker.port, request, min_version)
        raise CliError(f"broker {node_id}, which must answer this request, is not in the cluster's metadata: it may be down")

    def _reach(self, host: str, port: int, request: Message, min_version: int = 0, max_version: int | None = None) -> Any:
        try:
            return self._call(host, port, request, min_version, max_version)
        except OSError as error:
            where = f"{host}:{port}, an address from the cluster's metadata"
            raise CliError(f"cannot reach the broker at {where}: {reason_of(error)}") from None

    def _call(self, host: str, port: int, request: Message, min_version: int = 0, max_version: int | None = None) -> Any:
        client = self._clients.get((host, port))
        if client is None:
            client = self._clients[host, port] = connect(host, port, CLIENT_ID)
        try:
            if min_version and client.highest_version(type(request)) < min_version:
                raise CliError(f"the broker at {host}:{port} is too old: it does not support version {min_version} of this request")
            return client.call(request, None if max_version is None else min(max_version, client.highest_version(type(request))))
        except UnsupportedVersion as error:
            raise NotServed(f"the broker at {host}:{port} does not support this request: {error}") from None
        except ProtocolError as error:
            raise CliError(f"{host}:{port} does not speak Kafka's protocol as expected: {error}") from None


def _list_offsets(partition: TopicPartition, timestamp: int) -> ListOffsetsTopic:
    requested = ListOffsetsPartition(partition_index=partition.partition, timestamp=timestamp)
    return ListOffsetsTopic(name=partition.topic, partitions=[requested])
