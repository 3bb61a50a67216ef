"""One-record batches of one idempotent producer: over a plain socket with five requests in flight, and through librdkafka.

Through librdkafka the brokers differ less, because librdkafka needs more time for such a request than a broker.
"""

from __future__ import annotations

import socket
import time
from itertools import islice
from typing import Any

from client_compat.bench.loads import librdkafka
from client_compat.bench.loads.frames import FRAME_BYTES_MAX, check, dial, frames, producers, receive
from client_compat.bench.loads.topics import topic
from client_compat.bench.model import Site, Values
from ottla.protocol.frame import FrameReader

IN_FLIGHT = 5
REQUESTS, REQUEST_CPU = "requests, bare socket", "broker CPU a request"
THROUGH_CLIENT = "requests through librdkafka"


def one_record_batches(site: Site, *, record_bytes: int, records: int, through_client: int) -> Values:
    bootstrap = site.broker.bootstrap
    with topic(site, "pipeline", 1) as name:
        made = frames(name, record_bytes, records, producers(bootstrap, 1)[0], timestamp_ms=int(time.time() * 1_000))
        before = site.broker.usage().cpu_seconds
        with dial(bootstrap) as peer:
            seconds = exchange(peer, made)
        used = site.broker.usage().cpu_seconds - before
    with topic(site, "single", 1) as name:
        client_seconds = librdkafka.produce(bootstrap, name, 1, record_bytes, through_client, single=True)
    return {REQUESTS: records / seconds, REQUEST_CPU: used * 1e6 / records, THROUGH_CLIENT: through_client / client_seconds}


def exchange(peer: socket.socket, made: list[bytes]) -> float:
    """Send encoded Produce requests with five in flight, and return the seconds until the last acknowledgement. Raises `LoadFailed` if a
    request is rejected or the connection closes."""
    reader, waiting, answered = FrameReader(FRAME_BYTES_MAX), iter(made), 0
    last: Any = None
    began = time.perf_counter()
    peer.sendall(b"".join(islice(waiting, IN_FLIGHT)))
    while answered < len(made):
        answers = receive(peer, reader)
        answered += len(answers)
        if more := b"".join(islice(waiting, len(answers))):
            peer.sendall(more)
        last = answers[-1] if answers else last
    seconds = time.perf_counter() - began
    check(last, len(made) - 1)
    return seconds
