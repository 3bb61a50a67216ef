"""The producer operations of the control protocol (CONTROL.md), implemented with aiokafka."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from aiokafka import AIOKafkaProducer, TopicPartition

from client_compat.clients.control import Answer, Request, Unsupported, compact_json, from_wire, headers_from_wire, last_of, settings
from client_compat.clients.python.with_aiokafka import errors
from client_compat.clients.python.with_aiokafka.security import keywords

Partitioner = Callable[[bytes | None, Sequence[int], Sequence[int]], int]


def _last(key: bytes | None, every: Sequence[int], available: Sequence[int]) -> int:
    return last_of(every)


OWN_DEFAULT: Any = object()
SETTINGS: Mapping[str, Any] = {
    "client_id": "client_id",
    "acks": ("acks", {"0": 0, "1": 1, "all": "all"}),
    "idempotent": "enable_idempotence",
    "transactional_id": "transactional_id",
    "transaction_timeout_ms": "transaction_timeout_ms",
    "linger_ms": "linger_ms",
    "batch_bytes": "max_batch_size",
    "compression": ("compression_type", {"none": None} | {codec: codec for codec in AIOKafkaProducer._COMPRESSORS}),
    "request_timeout_ms": "request_timeout_ms",
    "max_request_bytes": "max_request_size",
    "partitioner": ("partitioner", {"default": OWN_DEFAULT, "murmur2": OWN_DEFAULT, "last": _last}),
    "serializer": ("value_serializer", {"json": compact_json}),
}
"""aiokafka's setting for each option of `producer.open` (see `control.settings`). The partitioners `default` and `murmur2` both select
aiokafka's default partitioner, which is murmur2. Before version 0.8, aiokafka has no zstd."""


class Producer:
    def __init__(self, producer: AIOKafkaProducer) -> None:
        self._producer = producer

    @classmethod
    async def open(cls, request: Request) -> Producer:
        own = settings("aiokafka", request, SETTINGS)
        own = {name: value for name, value in own.items() if value is not OWN_DEFAULT}
        producer = AIOKafkaProducer(bootstrap_servers=request["bootstrap"], **keywords(request), **own)
        try:
            await producer.start()
        except BaseException:
            await producer.stop()
            raise
        return cls(producer)

    async def send(self, request: Request) -> Answer:
        records = request["records"]
        if any(record.get("key") is None and record.get("value") is None for record in records):
            raise Unsupported("aiokafka sends no record whose key and value are both null: send() asserts that one of them is given")
        if request.get("mode", "async") == "sync":
            return {"results": [await self._settled(await self._sent(request["topic"], record)) for record in records]}
        sent = [await self._sent(request["topic"], record) for record in records]
        await self._producer.flush()
        return {"results": [await self._settled(one) for one in sent]}

    async def _sent(self, topic: str, record: Mapping[str, Any]) -> asyncio.Future[Any] | Answer:
        """Send one record. Return the future of its acknowledgement, or an error answer if the client rejected the record at once."""
        try:
            future: asyncio.Future[Any] = await self._producer.send(
                topic,
                from_wire(record.get("value")),
                from_wire(record.get("key")),
                record.get("partition"),
                record.get("timestamp"),
                headers_from_wire(record) or None,
            )
        except Exception as error:  # noqa: BLE001 -- a rejected record is a result
            return errors.result(error)
        return future

    @staticmethod
    async def _settled(sent: asyncio.Future[Any] | Answer) -> Answer:
        if isinstance(sent, dict):
            return sent
        try:
            metadata = await sent
        except Exception as error:  # noqa: BLE001 -- a failed record is a result
            return errors.result(error)
        if metadata is None:
            return {"partition": None, "offset": None}  # acks=0: the broker sends no response
        return {"partition": metadata.partition, "offset": metadata.offset, "timestamp": metadata.timestamp}

    async def begin(self, request: Request) -> None:
        await self._producer.begin_transaction()

    async def commit(self, request: Request) -> None:
        await self._producer.commit_transaction()

    async def abort(self, request: Request) -> None:
        await self._producer.abort_transaction()

    async def send_offsets(self, request: Request, consumer: Any) -> None:
        offsets = {TopicPartition(topic, index): offset for topic, index, offset in request["offsets"]}
        await self._producer.send_offsets_to_transaction(offsets, consumer.group)

    async def close(self) -> None:
        await self._producer.stop()
