"""Latency of acknowledgements, and of records from producer to consumer.

Rules:
- Paced requests are sent on schedule, whether or not earlier ones were answered. Their latency counts from the scheduled time, so that a
  stall affects every request that was due meanwhile (this avoids coordinated omission).
- The client spins just before a send, because a timer wakes late.
- Python's garbage collector is off during a measurement.
"""

from __future__ import annotations

import gc
import math
import select
import socket
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any

from client_compat.bench.loads.frames import FRAME_BYTES_MAX, check, dial, frames, producers, receive
from client_compat.bench.loads.topics import topic
from client_compat.bench.model import LoadFailed, Site, Values
from ottla.protocol.codec import decode_response, encode_request
from ottla.protocol.error_codes import ErrorCode
from ottla.protocol.frame import FrameReader
from ottla.protocol.messages.k01_fetch import FetchPartition, FetchRequest, FetchTopic
from ottla.protocol.records.batch import split_batches

P50, P99, P999 = "p50", "p99", "p99.9"
RECORD_BYTES = 100
FETCH_VERSION = 12
FETCH_WAIT_MS = 500
SPIN_S = 0.000_15
HEAD_START_S = 0.01
STALLED_S = 20.0


def percentiles(seconds: Sequence[float]) -> Values:
    """Return the median, the 99th and the 99.9th percentile of the times, in milliseconds (nearest rank)."""
    ordered = sorted(seconds)
    return {name: ordered[math.ceil(share * len(ordered)) - 1] * 1e3 for name, share in ((P50, 0.5), (P99, 0.99), (P999, 0.999))}


def one_in_flight(site: Site, *, requests: int) -> Values:
    """Measure the time from a Produce request to its acknowledgement with one request in flight: each is sent when the previous one is
    answered. Return percentiles in milliseconds."""
    with _prepared(site, "latency-1", requests) as (_, made, peer), _no_collection():
        return percentiles(one_by_one(peer, made))


def one_by_one(peer: socket.socket, made: Sequence[bytes]) -> list[float]:
    """Send each Produce request after the response to the previous one; return the response times in seconds. Raises `LoadFailed` if a
    request is rejected or the connection closes."""
    reader, taken = FrameReader(FRAME_BYTES_MAX), []
    answers: Sequence[Any] = ()
    for frame in made:
        began = time.perf_counter()
        peer.sendall(frame)
        answers = ()
        while not answers:
            answers = receive(peer, reader)
        taken.append(time.perf_counter() - began)
    check(answers[0], len(made) - 1)
    return taken


def paced(site: Site, *, rate: int, seconds: int) -> Values:
    """Measure the time from the scheduled send of a Produce request to its acknowledgement, at `rate` requests a second; return percentiles
    in milliseconds."""
    with _prepared(site, "latency-paced", rate * seconds) as (_, made, peer), _no_collection():
        taken: list[float] = []
        reader, timetable = FrameReader(FRAME_BYTES_MAX), Timetable(peer, made, rate)
        last: Any = None
        while len(taken) < len(made):
            if timetable.wait([peer]):
                for answer in receive(peer, reader):
                    taken.append(timetable.since(len(taken)))
                    last = answer
        check(last, len(made) - 1)
    return percentiles(taken)


def end_to_end(site: Site, *, rate: int, seconds: int) -> Values:
    """Measure the time from the scheduled send of a record to its arrival at a consumer that waits at the end of the log; return
    percentiles in milliseconds."""
    with _prepared(site, "end-to-end", rate * seconds) as (name, made, peer), dial(site.broker.bootstrap) as consumer, _no_collection():
        taken: list[float] = []
        acks, fetched, timetable = FrameReader(FRAME_BYTES_MAX), FrameReader(FRAME_BYTES_MAX), Timetable(peer, made, rate)
        consumer.sendall(_fetch(name, 0))
        while len(taken) < len(made):
            for ready in timetable.wait([consumer, peer]):
                if ready is peer:
                    receive(peer, acks)
                    continue
                for answer in receive(consumer, fetched):
                    arrived = _records(answer)
                    taken += [timetable.since(number) for number in range(len(taken), len(taken) + arrived)]
                    consumer.sendall(_fetch(name, len(taken)))
    return percentiles(taken)


class Timetable:
    """Sends encoded requests at their scheduled times (`rate` a second), and computes the time since the scheduled send of a request."""

    def __init__(self, peer: socket.socket, made: Sequence[bytes], rate: int) -> None:
        self._peer, self._made, self._rate, self._sent = peer, made, rate, 0
        self._began = time.perf_counter() + HEAD_START_S

    def since(self, number: int) -> float:
        return time.perf_counter() - self._began - number / self._rate

    def wait(self, sockets: list[socket.socket]) -> list[socket.socket]:
        """Send the requests that are due, then wait until a socket is readable or the next request is due; return the readable sockets.
        Raises `LoadFailed` if responses are still missing STALLED_S seconds after the last request was due."""
        while self._sent < len(self._made) and self.since(self._sent) >= 0:
            self._peer.sendall(self._made[self._sent])
            self._sent += 1
        done = self._sent == len(self._made)
        if done and self.since(self._sent) > STALLED_S:
            raise LoadFailed(f"still waiting {STALLED_S:.0f} s after the last request")
        wait = 1.0 if done else max(0.0, -self.since(self._sent) - SPIN_S)
        ready: list[socket.socket] = select.select(sockets, [], [], wait)[0]
        return ready


@contextmanager
def _prepared(site: Site, name: str, requests: int) -> Iterator[tuple[str, list[bytes], socket.socket]]:
    """Create a topic with one partition, build `requests` Produce requests for it, and open a connection to the broker. Yield the topic's
    name, the encoded requests and the connection."""
    bootstrap, stamp = site.broker.bootstrap, int(time.time() * 1_000)
    with topic(site, name, 1) as full, dial(bootstrap) as peer:
        yield full, frames(full, RECORD_BYTES, requests, producers(bootstrap, 1)[0], timestamp_ms=stamp), peer


@contextmanager
def _no_collection() -> Iterator[None]:
    gc.collect()
    gc.disable()
    try:
        yield
    finally:
        gc.enable()


def _fetch(name: str, offset: int) -> bytes:
    wanted = [FetchTopic(topic=name, partitions=[FetchPartition(partition=0, fetch_offset=offset, partition_max_bytes=1 << 20)])]
    request = FetchRequest(max_wait_ms=FETCH_WAIT_MS, min_bytes=1, max_bytes=1 << 22, topics=wanted)
    return b"".join(encode_request(1, FETCH_VERSION, 0, "bench", request))


def _records(answer: Any) -> int:
    """Return the number of records in a Fetch response. Raises `LoadFailed` if the response has an error code."""
    response: Any = decode_response(1, FETCH_VERSION, answer)[1]
    (data,) = response.responses[0].partitions if response.responses else (None,)
    if data is None:
        return 0
    if data.error_code != ErrorCode.NONE:
        raise LoadFailed(f"Fetch answers {ErrorCode(data.error_code).name}")
    return sum(header.record_count for _, header in split_batches(data.records)) if data.records else 0
