"""Records from a feed through one client until the feed is empty and everything is answered; a dead broker is waited for.

Rule: settings are the caller's, under the client's own names; what was answered goes back to the feed, which lives in the same process.
"""

from __future__ import annotations

import asyncio
import logging
import time
from abc import ABC, abstractmethod
from collections.abc import Iterator
from functools import partial
from typing import Any, ClassVar

from aiokafka import AIOKafkaProducer
from confluent_kafka import Producer as ConfluentProducer

from client_compat.matrix.facades import Producer, Record

SERVE_S = 0.005
BATCH_RECORDS = 100
Item = tuple[int, bytes | None, bytes]
"""Number, key, value. The number is the feed's own name for the record."""


class Feed(ABC):
    """What one client is to send, and who hears what became of it."""

    in_flight_max: ClassVar[int] = 100_000  # librdkafka's own limit

    @abstractmethod
    def records(self) -> Iterator[Item | None]:
        """What is to be sent; None where nothing is to be sent for a moment."""

    @abstractmethod
    def acked(self, number: int, partition: int, offset: int) -> None:
        """`offset` is -1 where the client was told only that the broker has it already."""

    @abstractmethod
    def failed(self, number: int, error: object) -> None:
        """It was refused for good."""


async def send_with_aiokafka(feed: Feed, topic: str, **settings: Any) -> None:
    """Raises what the producer raises when it cannot start."""
    room = asyncio.Semaphore(feed.in_flight_max)

    def done(number: int, future: asyncio.Future[Any]) -> None:
        room.release()
        if error := future.exception():
            feed.failed(number, error)
        else:
            feed.acked(number, future.result().partition, future.result().offset)

    async with AIOKafkaProducer(**{"acks": "all", **settings}) as producer:
        for item in feed.records():
            if item is None:
                await asyncio.sleep(SERVE_S)
                continue
            number, key, value = item
            await room.acquire()
            future = await producer.send(topic, value, key)
            future.add_done_callback(partial(done, number))
        await producer.flush()


def send_with_confluent(feed: Feed, topic: str, settings: dict[str, Any]) -> None:
    """See the module."""
    waiting = 0

    def done(number: int, error: Any, message: Any) -> None:
        nonlocal waiting
        waiting -= 1
        if error is not None:
            feed.failed(number, error)
        else:
            offset = message.offset()
            feed.acked(number, message.partition(), -1 if offset is None else offset)

    producer = ConfluentProducer({"acks": "all", **settings}, logger=logging.getLogger("confluent-kafka"))
    for item in feed.records():
        if item is None:
            producer.poll(SERVE_S)
            continue
        number, key, value = item
        while waiting >= feed.in_flight_max:
            producer.poll(SERVE_S)
        waiting += 1
        producer.produce(topic, value, key, on_delivery=partial(done, number))
        producer.poll(0)
    producer.flush()


def send_with_program(feed: Feed, topic: str, producer: Producer, timeout_ms: int) -> None:
    """Through a client of the matrix, `BATCH_RECORDS` at a time, each within `timeout_ms`. Raises `ProgramFailed` or `ClientError`."""
    items: list[Item] = []

    def send() -> None:
        records = [Record(value, key) for _, key, value in items]
        for (number, _, _), sent in zip(items, producer.send(topic, records, timeout_ms=timeout_ms), strict=True):
            if sent.error is None:
                feed.acked(number, sent.partition, sent.offset)
            else:
                feed.failed(number, sent.error)
        items.clear()

    for item in feed.records():
        if item is not None:
            items.append(item)
        if len(items) >= BATCH_RECORDS or (item is None and items):
            send()
        elif item is None:
            time.sleep(SERVE_S)
    send()
    producer.close()
