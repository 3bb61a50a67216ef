"""Sends the records of a `Feed` (records to send, and callbacks for their results) with one client. Sending ends when the feed is empty and
every record has a result. While no broker answers, the client retries.

The settings that a caller gives have the names that the client library uses.
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
from confluent_kafka import KafkaError
from confluent_kafka import Producer as ConfluentProducer

from client_compat.matrix.facades import Producer, Record

SERVE_S = 0.005
LOST_S = 5.0
BATCH_RECORDS = 100
PURGED = {KafkaError._PURGE_QUEUE, KafkaError._PURGE_INFLIGHT}
Item = tuple[int, bytes | None, bytes]
"""A record to send: (number, key, value). The number identifies the record in the feed."""


class Feed(ABC):
    """The records of one client, and callbacks for their results."""

    in_flight_max: ClassVar[int] = 100_000  # librdkafka's own limit
    lost_at: float | None = None
    """Since when the client knows no broker, in seconds of the monotonic clock. None while the client knows a broker, or if it does not
    report this."""

    @abstractmethod
    def records(self) -> Iterator[Item | None]:
        """Yield the records to send; None if there is nothing to send for a moment."""

    @abstractmethod
    def acked(self, number: int, partition: int, offset: int) -> None:
        """Record that the broker acknowledged record `number`; `offset` is -1 if the broker recognised it as a duplicate."""

    @abstractmethod
    def failed(self, number: int, error: object) -> None:
        """Record that record `number` was rejected and the client will not retry it."""

    @property
    def client_is_lost(self) -> bool:
        """Return whether the client has known no broker for so long that the producer must be replaced."""
        return self.lost_at is not None and time.monotonic() - self.lost_at > LOST_S

    def client_is_new(self) -> None:
        """Reset `lost_at`, because a new producer has replaced the lost one."""
        self.lost_at = None

    def given_up(self, number: int) -> None:
        """Record that record `number` had no response when its producer was replaced."""
        self.failed(number, "given up with its client")


async def send_with_aiokafka(feed: Feed, topic: str, **settings: Any) -> None:
    """Send the feed's records to the topic with aiokafka; `settings` are arguments of AIOKafkaProducer. Raises the producer's exception if
    the producer cannot start."""
    in_flight_slots = asyncio.Semaphore(feed.in_flight_max)

    def done(number: int, future: asyncio.Future[Any]) -> None:
        in_flight_slots.release()
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
            await in_flight_slots.acquire()
            future = await producer.send(topic, value, key)
            future.add_done_callback(partial(done, number))
        await producer.flush()


def send_with_confluent(feed: Feed, topic: str, settings: dict[str, Any]) -> None:
    """Send the feed's records to the topic with confluent-kafka. If the feed reports that the client is lost, close the producer, report
    its unanswered records as given up, and open another producer."""
    waiting = 0

    def done(number: int, error: Any, message: Any) -> None:
        nonlocal waiting
        waiting -= 1
        if error is None:
            offset = message.offset()
            feed.acked(number, message.partition(), -1 if offset is None else offset)
        elif error.code() in PURGED:
            feed.given_up(number)
        else:
            feed.failed(number, error)

    def opened() -> ConfluentProducer:
        return ConfluentProducer({"acks": "all", **settings}, logger=logging.getLogger("confluent-kafka"))

    def served(producer: ConfluentProducer, timeout_s: float = SERVE_S) -> ConfluentProducer:
        producer.poll(timeout_s)
        if not feed.client_is_lost:
            return producer
        producer.purge()
        producer.flush()
        feed.client_is_new()
        return opened()

    producer = opened()
    for item in feed.records():
        if item is None:
            producer = served(producer)
            continue
        number, key, value = item
        while waiting >= feed.in_flight_max:
            producer = served(producer)
        waiting += 1
        producer.produce(topic, value, key, on_delivery=partial(done, number))
        producer = served(producer, 0)
    while producer.flush(SERVE_S):
        producer = served(producer)


def send_with_program(feed: Feed, topic: str, producer: Producer, timeout_ms: int) -> None:
    """Send the feed's records to the topic with a client program of the compatibility matrix, `BATCH_RECORDS` at a time, each batch within
    `timeout_ms`. Raises `ProgramFailed` if the program fails, `ClientError` if a whole batch fails."""
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
