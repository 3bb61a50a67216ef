"""Records from a feed through one client until the feed is empty and everything is answered; a dead broker is waited for.

Rule: settings are the caller's, under the client's own names; what was answered goes back to the feed, which lives in the same process.
"""

from __future__ import annotations

import asyncio
import logging
from abc import ABC, abstractmethod
from collections.abc import Iterator
from functools import partial
from typing import Any, ClassVar

from aiokafka import AIOKafkaProducer
from confluent_kafka import Producer

SERVE_S = 0.005
Item = tuple[int, bytes | None, bytes]
"""Number, key, value. The number is the feed's own name for the record."""


class Feed(ABC):
    """What one client is to send, and who hears what became of it."""

    in_flight_max: ClassVar[int] = 100_000  # librdkafka's own limit

    @abstractmethod
    def records(self) -> Iterator[Item | None]:
        """What is to be sent; None where nothing is to be sent for a moment."""

    @abstractmethod
    def acked(self, number: int, partition: int, offset: int) -> None: ...

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

    async with AIOKafkaProducer(acks="all", **settings) as producer:
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
            feed.acked(number, message.partition(), message.offset())

    producer = Producer({"acks": "all", **settings}, logger=logging.getLogger("confluent-kafka"))
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
