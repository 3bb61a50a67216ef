"""Attackers: connections with malformed requests, partial frames, floods and silence.

Each attack opens its own connections and limits its own waiting, so a broker that stops responding slows an attack down but does not stop
it. An attacked broker may respond, reject or close. Other modules check the effects on its process and its normal clients.
"""

from __future__ import annotations

import random
import socket
import struct
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field

from client_compat.fuzz import batches, frames
from client_compat.fuzz.messages import MessageMaker
from ottla.protocol.api_keys import ApiKey
from ottla.protocol.codec import encode_request
from ottla.protocol.errors import ProtocolError
from ottla.protocol.messages.k00_produce import PartitionProduceData, ProduceRequest, TopicProduceData
from ottla.protocol.messages.registry import request_class

ANSWER_WAIT_S = 0.1
CONNECT_WAIT_S = 5.0
FRAMES_PER_CONNECTION = 30
PIPELINED_MAX = 5
LORIS_CONNECTIONS = 10
LORIS_OPEN_MAX = 60
FLOOD_CONNECTIONS = 50
ANSWER_BYTES = 65_536
PRODUCE_VERSION = 9
# Not a name that valid requests use, because these would delete the topic during the attack.
TOPIC = "batches"


@dataclass(slots=True)
class Target:
    """What an attacker knows of the broker: its address, and `apis`, its ApiVersions as (API key, lowest, highest version). `counts` counts
    frames, connections and other events of the attacks; `loris` has the open connections of `slow_loris`."""

    address: tuple[str, int]
    apis: list[tuple[int, int, int]]
    maker: MessageMaker
    rng: random.Random
    counts: Counter[str] = field(default_factory=Counter)
    loris: list[socket.socket] = field(default_factory=list)

    def connect(self) -> socket.socket:
        self.counts["connections"] += 1
        return socket.create_connection(self.address, CONNECT_WAIT_S)


def a_body(target: Target) -> bytes:
    """Return a valid request of a random API and version: its header and its body, but not the size prefix."""
    key, low, high = target.rng.choice(target.apis)
    message = request_class(key)
    version = target.rng.randint(max(low, message.MIN_VERSION), min(high, message.MAX_VERSION))
    client_id = target.rng.choice((None, "fuzz", "f" * 1_000))
    parts = encode_request(key, version, target.rng.randrange(2**31), client_id, target.maker.make(message, version))
    target.counts[f"requests of {ApiKey(key).name}"] += 1
    return b"".join(parts)[4:]


def _talk(target: Target, make: Callable[[], bytes]) -> None:
    """Send frames on one connection, each made by `make`, until the broker closes the connection or does not respond for a while. (It may
    then be waiting for the rest of a frame.)"""
    with target.connect() as peer:
        peer.settimeout(ANSWER_WAIT_S)
        for _ in range(FRAMES_PER_CONNECTION):
            try:
                for _ in range(target.rng.randint(1, PIPELINED_MAX)):
                    peer.sendall(make())
                    target.counts["frames"] += 1
                if not peer.recv(ANSWER_BYTES):
                    target.counts["closed by the broker"] += 1
                    return
                target.counts["answers"] += 1
            except TimeoutError:
                target.counts["silences"] += 1
                return
            except ConnectionError:
                target.counts["closed by the broker"] += 1
                return


def valid_requests(target: Target) -> None:
    _talk(target, lambda: frames.framed(a_body(target)))


def spoiled_requests(target: Target) -> None:
    _talk(target, lambda: frames.spoil(target.rng, a_body(target)))


def _produce(target: Target, records: bytes) -> bytes:
    partitions = [PartitionProduceData(index=target.rng.choice((0, 0, 0, 1, -1, 2**31 - 1)), records=records)]
    request = ProduceRequest(
        acks=target.rng.choice((-1, 1, 0)), timeout_ms=1_000, topic_data=[TopicProduceData(TOPIC, partition_data=partitions)]
    )
    return b"".join(encode_request(ApiKey.PRODUCE, PRODUCE_VERSION, 1, "fuzz", request))


def hostile_batches(target: Target) -> None:
    _talk(target, lambda: _produce(target, batches.any_records(target.rng)))


def bombs(target: Target) -> None:
    """Send a decompression bomb for each codec, one after the other on one connection."""
    waiting = iter(batches.CODECS[1:])
    with target.connect() as peer:
        peer.settimeout(CONNECT_WAIT_S)
        for codec in waiting:
            try:
                peer.sendall(_produce(target, batches.bomb(codec)))
                target.counts["bombs"] += 1
                if not peer.recv(ANSWER_BYTES):
                    return
            except (TimeoutError, ConnectionError):
                return


def half_frames(target: Target) -> None:
    """Send the beginning of a frame, then close or reset the connection."""
    with target.connect() as peer:
        body = frames.framed(a_body(target))
        peer.sendall(body[: target.rng.randrange(len(body))])
        target.counts["half frames"] += 1
        if target.rng.random() < 0.5:
            peer.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))


def slow_loris(target: Target) -> None:
    """Open many connections on which a large frame is announced, and from time to time send one byte on each of them (a Slowloris
    attack)."""
    for peer in target.loris:
        try:
            peer.send(b"\x00")
            target.counts["slow bytes"] += 1
        except OSError:
            target.counts["slow connections closed by the broker"] += 1
            peer.close()
    target.loris = [peer for peer in target.loris if peer.fileno() >= 0]
    if len(target.loris) >= LORIS_OPEN_MAX:
        target.loris.pop(target.rng.randrange(len(target.loris))).close()
    for _ in range(min(LORIS_CONNECTIONS, LORIS_OPEN_MAX - len(target.loris))):
        peer = target.connect()
        peer.setblocking(False)
        peer.send(struct.pack(">i", 50 * 1024 * 1024))
        target.loris.append(peer)


def connection_flood(target: Target) -> None:
    """Open connections and close them without a request."""
    peers = [target.connect() for _ in range(FLOOD_CONNECTIONS)]
    for peer in peers:
        peer.close()


def never_reads(target: Target) -> None:
    """Send many requests and read no response, until the connection's buffers are full."""
    with target.connect() as peer:
        peer.setblocking(False)
        frame = b"".join(encode_request(ApiKey.API_VERSIONS, 0, 1, None, request_class(ApiKey.API_VERSIONS)()))
        try:
            for _ in range(2_000):
                peer.send(frame * 20)
        except (BlockingIOError, ConnectionError):
            target.counts["unread answers"] += 1


# (attack, weight)
ATTACKS: tuple[tuple[Callable[[Target], None], int], ...] = (
    (valid_requests, 20),
    (spoiled_requests, 50),
    (hostile_batches, 30),
    (half_frames, 10),
    (slow_loris, 2),
    (connection_flood, 1),
    (never_reads, 2),
    (bombs, 1),
)


def attack_once(target: Target) -> None:
    """Run one attack, chosen by weight. Raises OSError only when the broker no longer accepts connections."""
    (attack,) = target.rng.choices([attack for attack, _ in ATTACKS], [weight for _, weight in ATTACKS])
    target.counts["attacks"] += 1
    try:
        attack(target)
    except (TimeoutError, ConnectionResetError, BrokenPipeError, BlockingIOError):
        target.counts["closed by the broker"] += 1
    except ProtocolError as error:
        raise AssertionError(f"our own request could not be encoded: {error}") from error
