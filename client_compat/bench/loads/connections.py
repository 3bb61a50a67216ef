"""Loads with many connections: a thousand idle ones, and two hundred with one request in flight each."""

from __future__ import annotations

import selectors
import socket
import time
from contextlib import ExitStack
from dataclasses import dataclass, field

from client_compat.bench.loads.frames import FRAME_BYTES_MAX, check, dial, frames, producers, receive
from client_compat.bench.loads.latency import P50, P99, one_by_one, percentiles
from client_compat.bench.loads.topics import topic
from client_compat.bench.model import LoadFailed, Site, Values
from ottla.protocol.codec import encode_request
from ottla.protocol.frame import FrameReader
from ottla.protocol.messages.k18_api_versions import ApiVersionsRequest

OPENED, CONNECTION_MEMORY, BESIDE_P50, BESIDE_P99 = (
    "opened and greeted",
    "memory a connection",
    "ack p50 beside them",
    "ack p99 beside them",
)
RATE, RATE_CPU = "requests", "broker CPU a request"
RECORD_BYTES = 100
BUSY_PARTITIONS = 4
KIBIBYTE = 1024
STALLED_S = 20.0


def idle(site: Site, *, count: int, requests: int) -> Values:
    """Measure the time to open `count` idle connections, the broker's memory for them, and the latency of acknowledgements on one more
    connection while they are open.

    Each idle connection has exchanged ApiVersions. The additional one has one Produce request in flight.
    """
    bootstrap = site.broker.bootstrap
    with ExitStack() as stack, topic(site, "idle", 1) as name:
        made = frames(name, RECORD_BYTES, requests, producers(bootstrap, 1)[0], timestamp_ms=int(time.time() * 1_000))
        before, began = site.broker.usage().rss_bytes, time.perf_counter()
        open_idle(bootstrap, count, stack)
        opened = time.perf_counter() - began
        grown = site.broker.usage().rss_bytes - before
        with dial(bootstrap) as peer:
            beside = percentiles(one_by_one(peer, made))
    return {OPENED: opened, CONNECTION_MEMORY: max(0, grown) / count / KIBIBYTE, BESIDE_P50: beside[P50], BESIDE_P99: beside[P99]}


def open_idle(bootstrap: str, count: int, stack: ExitStack) -> None:
    """Open `count` idle connections, each after one ApiVersions exchange. They are closed with `stack`."""
    greeting = b"".join(encode_request(18, 0, 1, "bench", ApiVersionsRequest()))
    for _ in range(count):
        peer = stack.enter_context(dial(bootstrap))
        peer.sendall(greeting)
        receive(peer, FrameReader(FRAME_BYTES_MAX))


@dataclass(slots=True)
class _Busy:
    """One connection with its own idempotent producer. `sent` counts the requests; `since` is the time at which the last one was sent, on
    the clock of time.perf_counter."""

    peer: socket.socket
    made: list[bytes]
    reader: FrameReader = field(default_factory=lambda: FrameReader(FRAME_BYTES_MAX))
    sent: int = 0
    since: float = 0.0

    def send(self) -> None:
        self.since = time.perf_counter()
        self.peer.sendall(self.made[self.sent])
        self.sent += 1


def busy(site: Site, *, count: int, requests_each: int) -> Values:
    """Measure requests per second, latency and the broker's CPU time per request. `count` connections write to four partitions, each with
    one Produce request in flight. Raises `LoadFailed` if a request is rejected or not answered in time, or a connection closes."""
    bootstrap, stamp = site.broker.bootstrap, int(time.time() * 1_000)
    with topic(site, "busy", BUSY_PARTITIONS) as name, ExitStack() as stack, selectors.DefaultSelector() as selector:
        clients = []
        for number, producer in enumerate(producers(bootstrap, count)):
            made = frames(name, RECORD_BYTES, requests_each, producer, partition=number % BUSY_PARTITIONS, timestamp_ms=stamp)
            clients.append(_Busy(stack.enter_context(dial(bootstrap)), made))
            selector.register(clients[-1].peer, selectors.EVENT_READ, clients[-1])
        used, began = site.broker.usage().cpu_seconds, time.perf_counter()
        taken = _drive(clients, selector)
        seconds = time.perf_counter() - began
        used = site.broker.usage().cpu_seconds - used
    spread = percentiles(taken)
    return {RATE: len(taken) / seconds, P50: spread[P50], P99: spread[P99], RATE_CPU: used * 1e6 / len(taken)}


def _drive(clients: list[_Busy], selector: selectors.BaseSelector) -> list[float]:
    taken: list[float] = []
    for client in clients:
        client.send()
    working = len(clients)
    while working:
        events = selector.select(STALLED_S)
        if not events:
            raise LoadFailed(f"{working} of {len(clients)} connections wait for {STALLED_S:.0f} s")
        for key, _ in events:
            client = key.data
            for answer in receive(client.peer, client.reader):
                taken.append(time.perf_counter() - client.since)
                if client.sent < len(client.made):
                    client.send()
                else:
                    check(answer, len(client.made) - 1)
                    working -= 1
    return taken
