"""Idempotent load from two clients that never stops for a dead broker, and remembers where each value was acknowledged.

A value is `client:number`, unique. Each client runs in its own process and writes, when told to stop and all is answered, one integer a
value to its acknowledgement file: its place, or a code below zero (`client_compat.support.places`).
"""

from __future__ import annotations

import asyncio
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
from typing import Any, ClassVar

from client_compat.support.places import NOT_ACKED, REFUSED, place
from client_compat.support.producers import Feed, Item, send_with_aiokafka, send_with_confluent
from client_compat.support.workers import SPAWN, Workers, log_to

CLIENTS = ("aiokafka", "confluent-kafka")
PADDING = b"." * 80
BACKOFF_MS = 20
DELIVERY_TIMEOUT_MS = 120_000


@dataclass(frozen=True, slots=True)
class Load:
    """What a producer process is told; `rate_max` is in values a second."""

    bootstrap: str
    topic: str
    directory: Path
    rate_max: int

    def acks_of(self, client: int) -> Path:
        return self.directory / f"acks-{CLIENTS[client]}"

    @property
    def client_log(self) -> Path:
        return self.directory / "clients.log"


def value_of(client: int, number: int) -> bytes:
    return b"%d:%d:%s" % (client, number, PADDING)


class _Values(Feed):
    """One client's values until it is told to stop. `answered` is shared with the process that kills."""

    in_flight_max: ClassVar[int] = 1_000

    def __init__(self, client: int, load: Load, answered: Any, stop: Event) -> None:
        self._client, self._load, self._answered, self._stop = client, load, answered, stop
        self.places = array("q")
        """By number: where it was acknowledged."""

    def records(self) -> Iterator[Item | None]:
        began = time.monotonic()
        while not self._stop.is_set():
            number = len(self.places)
            if number > self._load.rate_max * (time.monotonic() - began):
                yield None
                continue
            self.places.append(NOT_ACKED)
            yield number, None, value_of(self._client, number)

    def acked(self, number: int, partition: int, offset: int) -> None:
        self.places[number] = place(partition, offset)
        self._answered[self._client] += 1

    def failed(self, number: int, error: object) -> None:
        self.places[number] = REFUSED
        logging.getLogger(CLIENTS[self._client]).error("value %d refused: %s", number, error)


def main(client: int, load: Load, answered: Any, stop: Event) -> None:
    """The whole life of one producer process."""
    log_to(load.client_log)
    values = _Values(client, load, answered, stop)
    if CLIENTS[client] == "aiokafka":
        sending = send_with_aiokafka(
            values,
            load.topic,
            bootstrap_servers=load.bootstrap,
            enable_idempotence=True,
            linger_ms=1,
            retry_backoff_ms=BACKOFF_MS,
            request_timeout_ms=DELIVERY_TIMEOUT_MS,
        )
        asyncio.run(sending)
    else:
        settings = {
            "bootstrap.servers": load.bootstrap,
            "enable.idempotence": True,
            "linger.ms": 1,
            "batch.num.messages": 100,
            "sticky.partitioning.linger.ms": 2,
            "retry.backoff.ms": BACKOFF_MS,
            "reconnect.backoff.ms": BACKOFF_MS,
            "reconnect.backoff.max.ms": 5 * BACKOFF_MS,
            "delivery.timeout.ms": DELIVERY_TIMEOUT_MS,
        }
        send_with_confluent(values, load.topic, settings)
    load.acks_of(client).write_bytes(values.places.tobytes())


@dataclass(frozen=True, slots=True)
class RunningLoad:
    """The producer processes at work; `answered` counts each client's acknowledgements."""

    answered: Sequence[int]
    _stop: Event
    _clients: Workers

    def finish(self, timeout_s: float) -> None:
        """Stop sending and wait until all is answered. Raises `RunFailed` when a client gives up or takes longer."""
        self._stop.set()
        self._clients.finish(timeout_s)


@contextmanager
def under(load: Load) -> Iterator[RunningLoad]:
    """Both clients at work until `finish`; none is left afterwards."""
    answered, stop = RawArray("q", len(CLIENTS)), SPAWN.Event()
    with Workers(main, [(client, load, answered, stop) for client in range(len(CLIENTS))], load.client_log, math.inf) as clients:
        yield RunningLoad(answered, stop, clients)
