"""confluent-kafka's producer: SerializingProducer if a serializer is requested, Producer otherwise."""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Mapping
from typing import Any

from confluent_kafka import KafkaException, SerializingProducer
from confluent_kafka import Producer as PlainProducer

from client_compat.clients.control import Answer, Failure, Request, Unsupported, compact_json, from_wire, headers_from_wire, settings
from client_compat.clients.python.with_confluent import errors, security

NAME = "confluent-kafka"
OWN_DEFAULT = "consistent_random"
SETTINGS: Mapping[str, Any] = {
    "client_id": "client.id",
    "acks": "acks",
    "idempotent": "enable.idempotence",
    "transactional_id": "transactional.id",
    "transaction_timeout_ms": "transaction.timeout.ms",
    "linger_ms": "linger.ms",
    "batch_bytes": "batch.size",
    "buffer_bytes": "queue.buffering.max.kbytes",
    "compression": "compression.type",
    "max_in_flight": "max.in.flight.requests.per.connection",
    "retries": "retries",
    "request_timeout_ms": "request.timeout.ms",
    "delivery_timeout_ms": "delivery.timeout.ms",
    "max_request_bytes": "message.max.bytes",
    "partitioner": ("partitioner", {"default": OWN_DEFAULT, "murmur2": "murmur2_random"}),
    "serializer": ("value.serializer", {"json": lambda value, context: compact_json(value)}),
}
KIB = 1024
ROOM_POLL_S = 0.1
"""How long callbacks are served, in seconds, when librdkafka rejected a record because its queue was full. Then the record is sent
again."""


class Producer:
    def __init__(self, request: Request) -> None:
        if request.get("partitioner") == "last":
            raise Unsupported("confluent-kafka has no custom partitioners: librdkafka's callback is not in its Python API")
        if request.get("interceptor"):
            raise Unsupported("confluent-kafka has no interceptors: librdkafka's are plugins in C, not in its Python API")
        own = {
            "bootstrap.servers": request["bootstrap"],
            **security.settings(request, security.AuthenticationErrors()),
            **settings(NAME, request, SETTINGS),
        }
        if own.get("partitioner") == OWN_DEFAULT:
            del own["partitioner"]
        if "queue.buffering.max.kbytes" in own:
            own["queue.buffering.max.kbytes"] = max(1, own["queue.buffering.max.kbytes"] // KIB)
        make = SerializingProducer if "value.serializer" in own else PlainProducer
        self._producer: Any = make({**own, "logger": logging.getLogger(NAME)})
        if request.get("transactional_id"):
            self._producer.init_transactions(request.timeout_s)

    def send(self, request: Request) -> Answer:
        records = request["records"]
        results: list[Answer | None] = [None] * len(records)
        ends = time.monotonic() + request.timeout_s
        for index, record in enumerate(records):
            self._send_one(request["topic"], record, _keep(results, index), ends)
            if request.get("mode", "async") == "sync":
                self._producer.flush(max(0.0, ends - time.monotonic()))
        while None in results and (left_s := ends - time.monotonic()) > 0:
            self._producer.poll(left_s)  # not flush(), during which librdkafka ignores linger.ms
        late = {"error": Failure("CLIENT:TIMEOUT", "no delivery report came in time").as_json()}
        return {"results": [result or late for result in results]}

    def _send_one(self, topic: str, record: Mapping[str, Any], keep: Callable[[Any, Any], None], ends: float) -> None:
        """Add a record to librdkafka's queue; `keep` is its delivery callback. While the queue is full, serve callbacks, as librdkafka's
        manual requires, until the time `ends`."""
        given: dict[str, Any] = {name: record[name] for name in ("partition", "timestamp") if record.get(name) is not None}
        if headers := headers_from_wire(record):
            given["headers"] = headers
        while True:
            try:
                self._producer.produce(
                    topic, value=from_wire(record.get("value")), key=from_wire(record.get("key")), on_delivery=keep, **given
                )
                return
            except BufferError:
                if time.monotonic() > ends:
                    return
                self._producer.poll(ROOM_POLL_S)
            except KafkaException as error:
                keep(error.args[0], None)
                return

    def begin(self, request: Request) -> None:
        self._producer.begin_transaction()

    def commit(self, request: Request) -> None:
        self._producer.commit_transaction(request.timeout_s)

    def abort(self, request: Request) -> None:
        self._producer.abort_transaction(request.timeout_s)

    def send_offsets(self, request: Request, consumer: Any) -> None:
        self._producer.send_offsets_to_transaction(consumer.offsets(request["offsets"]), consumer.metadata(), request.timeout_s)

    def close(self) -> None:
        if hasattr(self._producer, "close"):  # older versions end with their last reference
            self._producer.close()


def _keep(results: list[Answer | None], index: int) -> Callable[[Any, Any], None]:
    def on_delivery(error: Any, message: Any) -> None:
        if error is not None:
            results[index] = errors.result(error)
            return
        _, timestamp = message.timestamp()
        results[index] = {"partition": message.partition(), "offset": message.offset(), "timestamp": timestamp}

    return on_delivery
