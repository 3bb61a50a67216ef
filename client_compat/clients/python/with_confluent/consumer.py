"""The consumer operations of the control protocol (CONTROL.md), implemented with confluent-kafka."""

from __future__ import annotations

import logging
import time
from collections.abc import Mapping, Sequence
from typing import Any

from confluent_kafka import OFFSET_BEGINNING, OFFSET_END, OFFSET_INVALID, KafkaError, KafkaException, TopicPartition
from confluent_kafka import Consumer as PlainConsumer

from client_compat.clients.control import Answer, Request, Unsupported, settings, taken
from client_compat.clients.python.with_confluent import errors, security

NAME = "confluent-kafka"
SETTINGS: Mapping[str, Any] = {
    "client_id": "client.id",
    "group": "group.id",
    "instance_id": "group.instance.id",
    "reset": ("auto.offset.reset", {"earliest": "earliest", "latest": "latest", "none": "error"}),
    "isolation": "isolation.level",
    "group_protocol": "group.protocol",
    "assignor": "partition.assignment.strategy",
    "auto_commit": "enable.auto.commit",
    "auto_commit_interval_ms": "auto.commit.interval.ms",
    "session_timeout_ms": "session.timeout.ms",
    "heartbeat_interval_ms": "heartbeat.interval.ms",
    "max_poll_records": "max_poll_records",
    "fetch_min_bytes": "fetch.min.bytes",
    "fetch_max_wait_ms": "fetch.wait.max.ms",
    "fetch_max_bytes": "fetch.max.bytes",
    "partition_fetch_bytes": "max.partition.fetch.bytes",
}
CLASSIC_ASSIGNORS = ("range", "roundrobin", "cooperative-sticky")
POLL_RECORDS = 500
DEFAULT_MESSAGE_MAX_BYTES = 1_000_000
STATE_WAIT_S = 0.02
PASSING = {KafkaError._TRANSPORT, KafkaError._ALL_BROKERS_DOWN, KafkaError._PARTITION_EOF}
TIMESTAMP_TYPES = {1: "create", 2: "append"}
BEGINNINGS = {"earliest": OFFSET_BEGINNING, "latest": OFFSET_END}
_PLACES = {"beginning": OFFSET_BEGINNING, "end": OFFSET_END}


class Consumer:
    def __init__(self, request: Request) -> None:
        own = settings(NAME, request, SETTINGS)
        come_in = security.settings(request, security.AuthenticationErrors())
        self._begin_at = OFFSET_INVALID
        self._at_once = own.pop("max_poll_records", POLL_RECORDS)
        if "partition.assignment.strategy" in own:
            own.update(_assignor(request, own.pop("partition.assignment.strategy")))
        if "fetch.max.bytes" in own:
            # librdkafka requires fetch.max.bytes >= message.max.bytes, which a consumer does not use otherwise.
            own["message.max.bytes"] = min(own["fetch.max.bytes"], DEFAULT_MESSAGE_MAX_BYTES)
        if "group.id" not in own:
            # librdkafka requires a group id. Without a requested group, the consumer must neither commit nor start at committed offsets.
            own.update({"group.id": f"nobody-{request['handle']}", "enable.auto.commit": False})
            self._begin_at = BEGINNINGS.get(request.get("reset", "latest"), OFFSET_INVALID)
        self._consumer = PlainConsumer({"bootstrap.servers": request["bootstrap"], **come_in, **own, "logger": logging.getLogger(NAME)})
        self._pending: list[Answer] = []

    def subscribe(self, request: Request) -> None:
        pattern = request.get("pattern")
        self._consumer.subscribe(request["topics"] if pattern is None else [pattern if pattern.startswith("^") else f"^{pattern}"])

    def assign(self, request: Request) -> None:
        self._consumer.assign([TopicPartition(topic, index, self._begin_at) for topic, index in request["partitions"]])

    def poll(self, request: Request) -> Answer:
        """Poll until the requested number of records is there or the time is over, and return the records. If librdkafka reports an error,
        raise it, and keep the records received so far for the next poll."""
        ends = time.monotonic() + request.timeout_s
        while len(self._pending) < request["count"] and (left := ends - time.monotonic()) > 0:
            found: KafkaError | None = None
            wanted = min(request["count"] - len(self._pending), self._at_once)
            for message in self._consumer.consume(wanted, min(left, 0.5)):
                error = message.error()
                if error is None:
                    self._pending.append(_taken(message))
                elif error.fatal() or not (error.retriable() or error.code() in PASSING):
                    found = error
            errors.check(found)
        records, self._pending = self._pending, []
        return {"records": records}

    def assignment(self, request: Request) -> Answer:
        return {"partitions": sorted([one.topic, one.partition] for one in self._consumer.assignment())}

    def commit(self, request: Request) -> None:
        asynchronous = request.get("mode", "sync") == "async"
        rows = request.get("offsets")
        given = {} if rows is None else {"offsets": self.offsets(rows)}
        for one in self._consumer.commit(asynchronous=asynchronous, **given) or ():
            errors.check(one.error)

    def committed(self, request: Request) -> Answer:
        found = self._consumer.committed(_partitions(request), request.timeout_s)
        return {"offsets": [[one.topic, one.partition, _offset(one), getattr(one, "metadata", None) or ""] for one in _checked(found)]}

    def position(self, request: Request) -> Answer:
        found = self._consumer.position(_partitions(request))
        return {"offsets": [[one.topic, one.partition, _offset(one)] for one in _checked(found)]}

    def seek(self, request: Request) -> None:
        """Seek, with retries: librdkafka rejects seeks until its fetcher has started the partition, shortly after the assignment."""
        wanted = TopicPartition(request["topic"], request["partition"], _PLACES.get(request["offset"], request["offset"]))
        ends = time.monotonic() + request.timeout_s
        while True:
            try:
                self._consumer.seek(wanted)
                return
            except KafkaException as error:
                if error.args[0].code() != KafkaError._STATE or time.monotonic() > ends:
                    raise
                time.sleep(STATE_WAIT_S)

    def offsets_for_times(self, request: Request) -> Answer:
        partitions = [TopicPartition(topic, index, at) for topic, index, at in request["times"]]
        found = _checked(self._consumer.offsets_for_times(partitions, request.timeout_s))
        return {"offsets": [[one.topic, one.partition, _offset(one), None] for one in found]}

    def end_offsets(self, request: Request) -> Answer:
        return self._watermarks(request, 1)

    def beginning_offsets(self, request: Request) -> Answer:
        return self._watermarks(request, 0)

    def _watermarks(self, request: Request, which: int) -> Answer:
        rows = []
        for one in _partitions(request):
            watermarks = self._consumer.get_watermark_offsets(one, request.timeout_s)
            if watermarks is None:
                raise TimeoutError("no watermark offsets came in time")
            rows.append([one.topic, one.partition, watermarks[which]])
        return {"offsets": rows}

    def pause(self, request: Request) -> None:
        self._consumer.pause(_partitions(request))

    def resume(self, request: Request) -> None:
        self._consumer.resume(_partitions(request))

    def metadata(self) -> Any:
        """Return the consumer's group metadata, which a producer sends with the offsets of a transaction (KIP-447)."""
        return self._consumer.consumer_group_metadata()

    @staticmethod
    def offsets(rows: Sequence[Sequence[Any]]) -> list[TopicPartition]:
        """Convert rows of `[topic, partition, offset, metadata?]` to librdkafka's TopicPartitions. Raises Unsupported for metadata if this
        version of the library has none."""
        if any(row[3:] for row in rows) and not hasattr(TopicPartition, "metadata"):
            raise Unsupported("confluent-kafka before 2.0 has no metadata of commits")
        return [TopicPartition(*row[:3], **({"metadata": row[3]} if row[3:] else {})) for row in rows]

    def close(self) -> None:
        self._consumer.close()


def _assignor(request: Request, assignor: str) -> dict[str, str]:
    if request.get("group_protocol") == "consumer":
        return {"group.remote.assignor": assignor}
    if assignor not in CLASSIC_ASSIGNORS:
        raise Unsupported(f"confluent-kafka has no assignor {assignor}: librdkafka has {', '.join(CLASSIC_ASSIGNORS)}")
    return {"partition.assignment.strategy": assignor}


def _partitions(request: Request) -> list[TopicPartition]:
    return [TopicPartition(topic, index) for topic, index in request["partitions"]]


def _checked(found: list[TopicPartition]) -> list[TopicPartition]:
    for one in found:
        errors.check(one.error)
    return found


def _offset(one: TopicPartition) -> int | None:
    """Return the offset of a TopicPartition, or None if it is one of librdkafka's special values, which are negative."""
    return one.offset if one.offset >= 0 else None


def _taken(message: Any) -> Answer:
    kind, timestamp = message.timestamp()
    return taken(
        (message.topic(), message.partition()),
        message.offset(),
        key=message.key(),
        value=message.value(),
        headers=message.headers() or (),
        timestamp=timestamp,
        timestamp_type=TIMESTAMP_TYPES.get(kind),
    )
