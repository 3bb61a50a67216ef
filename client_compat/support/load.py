"""A load of several producers that continue while brokers die, and that record where each value was acknowledged. By default they are
idempotent, with acks=all.

Each value is unique: `client:number`, then padding. Each client runs in its own process. When the load ends, each client waits for all
responses and writes two files, with one integer for each value: the acknowledged position, or a code below zero
(`client_compat.support.places`), and the time of the acknowledgement in wall-clock milliseconds, or 0.
"""

from __future__ import annotations

import asyncio
import json
import logging
import math
import time
from array import array
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from multiprocessing.sharedctypes import RawArray
from multiprocessing.synchronize import Event
from pathlib import Path
from typing import Any, ClassVar, Literal

from client_compat.matrix.clients import CLIENTS as KINDS
from client_compat.matrix.facades import Client
from client_compat.support.places import GIVEN_UP, NOT_ACKED, REFUSED, SOMEWHERE, place
from client_compat.support.producers import Feed, Item, send_with_aiokafka, send_with_confluent, send_with_program
from client_compat.support.workers import SPAWN, Workers, log_to

CLIENTS = ("aiokafka", "confluent-kafka")
"""The client libraries that every machine has, because they need no further toolchain."""
PADDING = b"." * 80
BACKOFF_MS = 20
DELIVERY_TIMEOUT_MS = 120_000
STATISTICS_MS = 200
NOT_TOLD = -1


@dataclass(frozen=True, slots=True)
class Load:
    """The configuration of a load: producers that continue while brokers die. `rate_max` limits each client, in values per second.
    `careless` producers use acks=1 without idempotence."""

    bootstrap: str
    topic: str
    directory: Path
    rate_max: int
    clients: Sequence[str] = CLIENTS
    careless: bool = False

    @property
    def acks(self) -> Literal["1", "all"]:
        return "1" if self.careless else "all"

    def acks_of(self, client: int) -> Path:
        return self.directory / f"acks-{self.clients[client]}"

    def times_of(self, client: int) -> Path:
        return self.directory / f"times-{self.clients[client]}"

    @property
    def client_log(self) -> Path:
        return self.directory / "clients.log"


def value_of(client: int, number: int) -> bytes:
    return b"%d:%d:%s" % (client, number, PADDING)


def parts_of(value: bytes) -> tuple[int, int]:
    """Return the client and the number that a value of the load has in front. Raises ValueError for any other value."""
    client, number = value.split(b":", 2)[:2]
    return int(client), int(number)


@dataclass(frozen=True, slots=True)
class Shared:
    """State that the clients' processes share with the process that injects faults. `sent`, `answered` and `repeated` are counts by client;
    `repeated` counts the records that the client sent again, and is `NOT_TOLD` if the client does not report it."""

    sent: Any
    answered: Any
    repeated: Any
    stop: Event
    paused: Event
    """An event: while it is set, the clients send nothing new."""

    @classmethod
    def among(cls, clients: int) -> Shared:
        return cls(RawArray("q", clients), RawArray("q", clients), RawArray("q", [NOT_TOLD] * clients), SPAWN.Event(), SPAWN.Event())


class Values(Feed):
    """The records that one producer process sends until it has to stop, and the position and time of each acknowledgement."""

    in_flight_max: ClassVar[int] = 1_000

    def __init__(self, client: int, load: Load, shared: Shared) -> None:
        self._client, self._load, self._shared = client, load, shared
        self.places, self.times = array("q"), array("q")
        """Where and when each value was acknowledged, by the value's number: the position (see `places`), and the time in wall-clock ms."""

    def records(self) -> Iterator[Item | None]:
        began = time.monotonic()
        while not self._shared.stop.is_set():
            number, now = len(self.places), time.monotonic()
            if self._shared.paused.is_set():
                yield None
                began += time.monotonic() - now
                continue
            if number > self._load.rate_max * (now - began):
                yield None
                continue
            self.places.append(NOT_ACKED)
            self.times.append(0)
            self._shared.sent[self._client] = number + 1
            yield number, None, value_of(self._client, number)

    def acked(self, number: int, partition: int, offset: int) -> None:
        self.places[number] = place(partition, offset) if offset >= 0 else SOMEWHERE
        self.times[number] = time.time_ns() // 1_000_000
        self._shared.answered[self._client] += 1

    def client_is_new(self) -> None:
        super().client_is_new()
        logging.getLogger(self._load.clients[self._client]).error("knew no broker any more, and was opened anew")

    def given_up(self, number: int) -> None:
        self.places[number] = GIVEN_UP

    def take_statistics(self, text: str) -> None:
        """Read librdkafka's statistics (`stats_cb`): the number of records sent again (all transmissions minus the records given to the
        client), and whether the client knows any broker. If a Metadata response lists no brokers, as while every broker is fenced,
        librdkafka forgets all brokers and sends no further requests (librdkafka issue 5301)."""
        statistics = json.loads(text)
        if statistics["brokers"]:
            self.lost_at = None
        elif self.lost_at is None:
            self.lost_at = time.monotonic()
        topics = statistics["topics"].values()
        transmitted = sum(partition["txmsgs"] for topic in topics for partition in topic["partitions"].values())
        repeated = self._shared.repeated
        repeated[self._client] = max(repeated[self._client], transmitted - len(self.places), 0)

    def failed(self, number: int, error: object) -> None:
        self.places[number] = REFUSED
        logging.getLogger(self._load.clients[self._client]).error("value %d refused: %s", number, error)


def main(client: int, load: Load, shared: Shared) -> None:
    """Run the process of one producer client from start to end."""
    log_to(load.client_log)
    values = Values(client, load, shared)
    match load.clients[client]:
        case "aiokafka":
            asyncio.run(_send_with_aiokafka(values, load))
        case "confluent-kafka":
            send_with_confluent(values, load.topic, {**_confluent_settings(load), "stats_cb": values.take_statistics})
        case name:
            with KINDS[name].program(load.directory / f"program-{name}.log") as program:
                producer = Client(name, program, load.bootstrap).producer(
                    acks=load.acks, idempotent=not load.careless, delivery_timeout_ms=DELIVERY_TIMEOUT_MS
                )
                send_with_program(values, load.topic, producer, DELIVERY_TIMEOUT_MS)
    load.acks_of(client).write_bytes(values.places.tobytes())
    load.times_of(client).write_bytes(values.times.tobytes())


async def _send_with_aiokafka(values: Feed, load: Load) -> None:
    await send_with_aiokafka(
        values,
        load.topic,
        bootstrap_servers=load.bootstrap,
        acks=1 if load.careless else "all",
        enable_idempotence=not load.careless,
        linger_ms=1,
        retry_backoff_ms=BACKOFF_MS,
        request_timeout_ms=DELIVERY_TIMEOUT_MS,
    )


def _confluent_settings(load: Load) -> dict[str, object]:
    return {
        "bootstrap.servers": load.bootstrap,
        "acks": load.acks,
        "enable.idempotence": not load.careless,
        "linger.ms": 1,
        "batch.num.messages": 100,
        "sticky.partitioning.linger.ms": 2,
        "retry.backoff.ms": BACKOFF_MS,
        "reconnect.backoff.ms": BACKOFF_MS,
        "reconnect.backoff.max.ms": 5 * BACKOFF_MS,
        "delivery.timeout.ms": DELIVERY_TIMEOUT_MS,
        "statistics.interval.ms": STATISTICS_MS,
    }


@dataclass(frozen=True, slots=True)
class RunningLoad:
    """The running producer processes of a load. Its counts have one element for each client, and grow while the load runs."""

    shared: Shared
    _clients: Workers

    @property
    def sent(self) -> Sequence[int]:
        counts: Sequence[int] = self.shared.sent
        return counts

    @property
    def answered(self) -> Sequence[int]:
        """The number of acknowledged values, by client."""
        counts: Sequence[int] = self.shared.answered
        return counts

    @property
    def repeated(self) -> Sequence[int]:
        """The number of records sent again, by client; `NOT_TOLD` if the client does not report it."""
        counts: Sequence[int] = self.shared.repeated
        return counts

    def hold(self) -> None:
        """Stop sending new values until `resume`; clients still wait for responses."""
        self.shared.paused.set()

    def resume(self) -> None:
        self.shared.paused.clear()

    def check(self) -> None:
        """Raise `RunFailed` if a client has given up."""
        self._clients.any_alive()

    def finish(self, timeout_s: float) -> None:
        """Stop sending, and wait until every record has a response. Raises `RunFailed` if a client gives up or takes longer than
        `timeout_s` seconds."""
        self.shared.stop.set()
        self._clients.finish(timeout_s)


@contextmanager
def under(load: Load) -> Iterator[RunningLoad]:
    """Run the load's producer processes while the context lasts, and yield the running load, whose `finish` ends them in order. Processes
    that still run at the end of the context are killed."""
    count = len(load.clients)
    shared = Shared.among(count)
    with Workers(main, [(client, load, shared) for client in range(count)], load.client_log, math.inf) as clients:
        yield RunningLoad(shared, clients)
