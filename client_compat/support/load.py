"""Idempotent load from two clients that never stops for a dead broker, and remembers where each value was acknowledged.

A value is `client:number`, unique. Each client runs in its own process and writes, when told to stop and all is answered, one integer a
value to its acknowledgement file: `place(partition, offset)`, or a code below zero.
"""

from __future__ import annotations

import asyncio
import logging
import time
from array import array
from dataclasses import dataclass
from functools import partial
from multiprocessing.synchronize import Event
from pathlib import Path
from typing import Any

from aiokafka import AIOKafkaProducer
from confluent_kafka import Producer

CLIENTS = ("aiokafka", "confluent-kafka")
OFFSET_BITS = 48
NOT_ACKED = -1
REFUSED = -2
IN_FLIGHT_MAX = 1_000
PADDING = b"." * 80
BACKOFF_MS = 20
DELIVERY_TIMEOUT_MS = 120_000
SERVE_S = 0.005


@dataclass(frozen=True, slots=True)
class Load:
    """What a producer process is told; `values_max` bounds the run of one client, `rate_max` its values a second."""

    bootstrap: str
    topic: str
    directory: Path
    values_max: int
    rate_max: int = 50_000

    def acks_of(self, client: int) -> Path:
        return self.directory / f"acks-{CLIENTS[client]}"


def value_of(client: int, number: int) -> bytes:
    return b"%d:%d:%s" % (client, number, PADDING)


class _Acks:
    """By number: where it was acknowledged. `answered` is shared with the process that kills."""

    def __init__(self, client: int, answered: Any) -> None:
        self.client, self.places, self._answered = client, array("q"), answered
        self.open = 0

    def ahead_s(self, began: float, rate_max: int) -> float:
        """Seconds by which the values sent are ahead of `rate_max` a second."""
        return len(self.places) / rate_max - (time.monotonic() - began)

    def sent(self) -> int:
        self.places.append(NOT_ACKED)
        self.open += 1
        return len(self.places) - 1

    def acked(self, number: int, partition: int, offset: int) -> None:
        self.open -= 1
        self.places[number] = partition << OFFSET_BITS | offset
        self._answered[self.client] += 1

    def refused(self, number: int, error: object) -> None:
        self.open -= 1
        self.places[number] = REFUSED
        logging.getLogger(CLIENTS[self.client]).error("value %d refused: %s", number, error)


async def _aiokafka(load: Load, acks: _Acks, stop: Event) -> None:
    room = asyncio.Semaphore(IN_FLIGHT_MAX)

    def done(number: int, future: asyncio.Future[Any]) -> None:
        room.release()
        if error := future.exception():
            acks.refused(number, error)
        else:
            acks.acked(number, future.result().partition, future.result().offset)

    producer = AIOKafkaProducer(
        bootstrap_servers=load.bootstrap,
        acks="all",
        enable_idempotence=True,
        linger_ms=1,
        retry_backoff_ms=BACKOFF_MS,
        request_timeout_ms=DELIVERY_TIMEOUT_MS,
    )
    began = time.monotonic()
    async with producer:
        while not stop.is_set() and len(acks.places) < load.values_max:
            if (ahead := acks.ahead_s(began, load.rate_max)) > 0:
                await asyncio.sleep(ahead)
            await room.acquire()
            number = acks.sent()
            future = await producer.send(load.topic, value_of(acks.client, number))
            future.add_done_callback(partial(done, number))
        await producer.flush()


def _confluent(load: Load, acks: _Acks, stop: Event) -> None:
    def done(number: int, error: Any, message: Any) -> None:
        if error is not None:
            acks.refused(number, error)
        else:
            acks.acked(number, message.partition(), message.offset())

    producer = Producer(
        {
            "bootstrap.servers": load.bootstrap,
            "enable.idempotence": True,
            "linger.ms": 1,
            "batch.num.messages": 100,
            "sticky.partitioning.linger.ms": 2,
            "retry.backoff.ms": BACKOFF_MS,
            "reconnect.backoff.ms": BACKOFF_MS,
            "reconnect.backoff.max.ms": 5 * BACKOFF_MS,
            "delivery.timeout.ms": DELIVERY_TIMEOUT_MS,
        },
        logger=logging.getLogger("confluent-kafka"),
    )
    began = time.monotonic()
    while not stop.is_set() and len(acks.places) < load.values_max:
        if acks.open >= IN_FLIGHT_MAX or acks.ahead_s(began, load.rate_max) > 0:
            producer.poll(SERVE_S)
            continue
        number = acks.sent()
        producer.produce(load.topic, value_of(acks.client, number), on_delivery=partial(done, number))
        producer.poll(0)
    producer.flush()


def main(client: int, load: Load, answered: Any, stop: Event) -> None:
    """The whole life of one producer process."""
    logging.basicConfig(filename=load.directory / "clients.log", format="%(asctime)s %(name)s %(levelname)s %(message)s")
    acks = _Acks(client, answered)
    if CLIENTS[client] == "aiokafka":
        asyncio.run(_aiokafka(load, acks, stop))
    else:
        _confluent(load, acks, stop)
    load.acks_of(client).write_bytes(acks.places.tobytes())
