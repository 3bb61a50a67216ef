"""The producer operations of the control protocol (CONTROL.md), implemented with kafka-python."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Mapping, Sequence
from typing import Any

import kafka.partitioner
from kafka import KafkaProducer, TopicPartition
from kafka.partitioner import DefaultPartitioner
from kafka.serializer import Serializer

from client_compat.clients.control import Answer, Request, Unsupported, compact_json, from_wire, headers_from_wire, last_of, settings
from client_compat.clients.python.alike import only_known
from client_compat.clients.python.with_kafka_python import errors
from client_compat.clients.python.with_kafka_python.security import keywords
from client_compat.clients.python.with_kafka_python.versions import committed

NAME = "kafka-python"


class Last(getattr(kafka.partitioner, "Partitioner", object)):  # type: ignore[misc]  # 2.0 calls any function
    def __call__(self, key: bytes | None, every: Sequence[int], available: Sequence[int]) -> int:
        """Return the last partition. kafka-python 2.0 calls a partitioner as a function."""
        return last_of(every)

    def partition(self, topic: str, *args: Any) -> int:
        """Return the last partition. From version 3, kafka-python calls this method with key, serialized key, value, serialized value and
        cluster."""
        return last_of(sorted(args[-1].partitions_for_topic(topic)))


class CompactJson(Serializer):  # type: ignore[misc]  # the library has no types
    def serialize(self, topic: str, *args: Any) -> bytes | None:
        """Serialize the value, which is the last argument. Unlike later versions, kafka-python 2.0 passes no headers before the value."""
        return compact_json(args[-1])


SETTINGS: Mapping[str, Any] = {
    "client_id": "client_id",
    "acks": ("acks", {"0": 0, "1": 1, "all": "all"}),
    "idempotent": "enable_idempotence",
    "transactional_id": "transactional_id",
    "transaction_timeout_ms": "transaction_timeout_ms",
    "linger_ms": "linger_ms",
    "batch_bytes": "batch_size",
    "compression": ("compression_type", {"none": None, "gzip": "gzip", "snappy": "snappy", "lz4": "lz4", "zstd": "zstd"}),
    "max_in_flight": "max_in_flight_requests_per_connection",
    "retries": "retries",
    "request_timeout_ms": "request_timeout_ms",
    "delivery_timeout_ms": "delivery_timeout_ms",
    "max_request_bytes": "max_request_size",
    "partitioner": ("partitioner", {"default": DefaultPartitioner, "murmur2": DefaultPartitioner, "last": Last}),
    "serializer": ("value_serializer", {"json": CompactJson}),
}
"""kafka-python's setting for each option of `producer.open` (see `control.settings`). The partitioners `default` and `murmur2` both select
kafka-python's default partitioner, which is murmur2."""


class Producer:
    def __init__(self, request: Request) -> None:
        own = only_known(NAME, kafka.__version__, settings(NAME, request, SETTINGS), KafkaProducer.DEFAULT_CONFIG)
        for name in ("partitioner", "value_serializer"):
            if name in own:
                own[name] = own[name]()
        self._producer = KafkaProducer(bootstrap_servers=request["bootstrap"], **keywords(request), **own)
        if request.get("transactional_id"):
            self._producer.init_transactions()

    async def send(self, request: Request) -> Answer:
        """Send the request's records in a thread, because send() blocks for metadata up to max_block_ms, whatever the request's limit.
        Return the result of each record."""
        return await asyncio.to_thread(self._send, request)

    def _send(self, request: Request) -> Answer:
        records = request["records"]
        for record in records:
            if record.get("key") is None and record.get("value") is None:
                raise Unsupported("kafka-python sends no record whose key and value are both null: send() wants one of them")
            if any(value is None for _, value in record.get("headers") or ()):
                raise Unsupported("kafka-python sends no header without a value: send() wants bytes")
        ends = time.monotonic() + request.timeout_s
        if request.get("mode", "async") == "sync":
            return {"results": [_settled(self._sent(request["topic"], record), ends) for record in records]}
        sent = [self._sent(request["topic"], record) for record in records]
        self._producer.flush(max(0.0, ends - time.monotonic()))
        return {"results": [_settled(one, ends) for one in sent]}

    def _sent(self, topic: str, record: Mapping[str, Any]) -> Any:
        """Send one record. Return the future of its acknowledgement, or an error answer if the client rejected the record at once."""
        try:
            return self._producer.send(
                topic,
                value=from_wire(record.get("value")),
                key=from_wire(record.get("key")),
                headers=headers_from_wire(record),
                partition=record.get("partition"),
                timestamp_ms=record.get("timestamp"),
            )
        except Exception as error:  # noqa: BLE001 -- a rejected record is a result
            return errors.result(error)

    def begin(self, request: Request) -> None:
        self._producer.begin_transaction()

    def commit(self, request: Request) -> None:
        self._producer.commit_transaction()

    def abort(self, request: Request) -> None:
        self._producer.abort_transaction()

    def send_offsets(self, request: Request, consumer: Any) -> None:
        offsets = {TopicPartition(topic, index): committed(offset) for topic, index, offset in request["offsets"]}
        self._producer.send_offsets_to_transaction(offsets, consumer.metadata())

    def close(self) -> None:
        self._producer.close(timeout=30)


def _settled(sent: Any, ends: float) -> Answer:
    if isinstance(sent, dict):
        return sent
    try:
        metadata = sent.get(max(0.0, ends - time.monotonic()))
    except Exception as error:  # noqa: BLE001 -- a failed record is a result
        return errors.result(error)
    return {"partition": metadata.partition, "offset": metadata.offset, "timestamp": metadata.timestamp}
