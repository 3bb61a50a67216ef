"""A gateway's connection between two transports that the test plays. Real sockets are in `test_gateway`."""

from __future__ import annotations

import asyncio
import struct
from collections.abc import Callable
from typing import Any

import pytest

from ottla.broker.core import limits
from ottla.broker.core.clock import Clock
from ottla.broker.core.timers import Timers
from ottla.broker.faults.engine import Faults
from ottla.broker.gateway.address_book import Address, AddressBook
from ottla.broker.gateway.interception import Interception
from ottla.broker.net.gateway_connection import GatewayConnections

PRODUCE = struct.pack(">ihhihhh", 14, 0, 3, 1, -1, -1, 0)
"""The beginning of a Produce request with acks=0, which has no response."""
MANY = 2 * limits.GATEWAY_FRAMES_PER_TURN + 200


class Pipe(asyncio.Transport):
    """A transport whose peer is the test."""

    def __init__(self) -> None:
        super().__init__({"sockname": ("127.0.0.1", 9092)})
        self.written = b""
        self.reading = True
        self.closing = False

    def set_write_buffer_limits(self, high: int | None = None, low: int | None = None) -> None:
        pass

    def get_write_buffer_size(self) -> int:
        return 0

    def writelines(self, list_of_data: Any) -> None:
        self.written += b"".join(list_of_data)

    def pause_reading(self) -> None:
        self.reading = False

    def resume_reading(self) -> None:
        self.reading = True

    def is_closing(self) -> bool:
        return self.closing

    def close(self) -> None:
        self.closing = True

    abort = close


class Harness:
    """A client's connection, connected to a broker. `client` and `cluster` are the protocols that get the bytes of the two."""

    def __init__(self, shared: GatewayConnections) -> None:
        self.to_client, self.to_cluster = Pipe(), Pipe()
        self.client = shared.make(None)
        self.cluster: Any = None

    async def connect(self, factory: Callable[[], asyncio.Protocol], *_: object, **__: object) -> None:
        self.cluster = factory()
        self.cluster.connection_made(self.to_cluster)

    @property
    def is_read(self) -> tuple[bool, bool]:
        """Whether the gateway reads from the client, and from the broker."""
        return self.to_client.reading, self.to_cluster.reading

    def passed(self) -> int:
        """Return the number of Produce requests that the broker got."""
        assert self.to_cluster.written == PRODUCE * (len(self.to_cluster.written) // len(PRODUCE))
        return len(self.to_cluster.written) // len(PRODUCE)


@pytest.fixture
async def harness(monkeypatch: pytest.MonkeyPatch) -> Harness:
    clock, timers = Clock(), Timers()
    book = AddressBook([Address("a", 9092)], lambda node_id: 20_000 + node_id)
    harness = Harness(GatewayConnections(book, Interception(Faults(), clock, timers, book.topic_name), None, None, 10))
    monkeypatch.setattr(asyncio.get_running_loop(), "create_connection", harness.connect)
    harness.client.connection_made(harness.to_client)
    for _ in range(5):
        await asyncio.sleep(0)
    return harness


async def test_very_many_requests_pass_in_several_turns_and_nothing_is_read_meanwhile(harness: Harness) -> None:
    harness.client.data_received(PRODUCE * MANY)
    assert (harness.passed(), harness.is_read) == (limits.GATEWAY_FRAMES_PER_TURN, (False, False))
    await asyncio.sleep(0)
    assert (harness.passed(), harness.is_read) == (2 * limits.GATEWAY_FRAMES_PER_TURN, (False, False))
    await asyncio.sleep(0)
    assert (harness.passed(), harness.is_read) == (MANY, (True, True))


async def test_a_fast_sender_is_read_again_in_the_next_turn(harness: Harness) -> None:
    harness.client.data_received(struct.pack(">ihhih", 2**30, 999, 0, 1, -1))
    harness.cluster.data_received(struct.pack(">ii", 2**30, 1))
    for side in (harness.client, harness.cluster):
        for _ in range(limits.FULL_READS_PER_TURN):
            assert harness.is_read == (True, True)
            side.data_received(bytes(limits.FULL_READ_BYTES))
        assert harness.is_read == (False, False)
        await asyncio.sleep(0)


async def test_requests_that_wait_for_their_turn_are_sent_although_the_client_has_left(harness: Harness) -> None:
    harness.client.data_received(PRODUCE * MANY)
    harness.client.connection_lost(None)
    assert not harness.to_cluster.closing
    for _ in range(3):
        await asyncio.sleep(0)
    assert (harness.passed(), harness.to_cluster.closing) == (MANY, True)


async def test_an_invalid_frame_among_waiting_requests_closes_both_sides(harness: Harness) -> None:
    harness.client.data_received(PRODUCE * MANY + struct.pack(">i", -1))
    for _ in range(3):
        await asyncio.sleep(0)
    assert (harness.to_client.closing, harness.to_cluster.closing) == (True, True)


async def test_an_invalid_response_closes_both_sides_while_requests_wait_for_their_turn(harness: Harness) -> None:
    harness.client.data_received(PRODUCE * MANY)
    harness.cluster.data_received(struct.pack(">ii", 4, 9))
    for _ in range(3):
        await asyncio.sleep(0)
    assert (harness.passed(), harness.to_client.closing, harness.to_cluster.closing) == (limits.GATEWAY_FRAMES_PER_TURN, True, True)
