from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable
from contextlib import suppress
from types import SimpleNamespace
from typing import Any, cast

import pytest

from ottla.broker.api.context import Listener
from ottla.broker.api.dispatch import Dispatcher
from ottla.broker.api.reply import Reply
from ottla.broker.core import limits
from ottla.broker.core.clock import VirtualClock
from ottla.broker.core.timers import Timers
from ottla.broker.net.connection import Connection, SharedConnectionState
from ottla.broker.net.network import Sockets
from ottla.broker.net.server import Server
from ottla.broker.net.session import ByteBudget
from ottla.broker.sim.memory_network import MemoryNetwork
from ottla.protocol.wire import Buffer

PING = b"\0\0\0\4ping"
HELD = 2 * limits.WRITE_HIGH_BYTES
LARGEST = 1 << 20


class Pipe(asyncio.Transport):
    """A transport that stores all written data until `take`, which simulates the peer's reading."""

    def __init__(self) -> None:
        super().__init__({"peername": ("127.0.0.1", 1), "sockname": ("127.0.0.1", 2)})
        self.kept = 0
        self.aborted = False
        self.reading = True

    def connect(self, shared: SharedConnectionState) -> Connection:
        self.connection = Connection(shared, Listener("PLAINTEXT", "127.0.0.1", 0))
        self.connection.connection_made(self)
        return self.connection

    def writelines(self, buffers: Iterable[Any]) -> None:
        self.kept += sum(map(len, buffers))
        if self.kept > limits.WRITE_HIGH_BYTES:
            self.connection.pause_writing()

    def take(self, size: int) -> None:
        self.kept -= size

    def get_write_buffer_size(self) -> int:
        return self.kept

    def set_write_buffer_limits(self, high: int | None = None, low: int | None = None) -> None: ...

    def pause_reading(self) -> None:
        self.reading = False

    def resume_reading(self) -> None:
        self.reading = True

    def is_closing(self) -> bool:
        return self.aborted

    def abort(self) -> None:
        self.aborted = True


class Clocked:
    """The shared state of connections, with a clock that the test advances."""

    def __init__(self, limit: int) -> None:
        self.clock = VirtualClock()
        self.pending: asyncio.Future[Reply] = asyncio.get_running_loop().create_future()
        self.replies: dict[bytes, Any] = {b"much": [b"x" * HELD], b"wait": self.pending}
        self.on_frame: Callable[[bytes], None] = lambda _: None
        dispatcher = SimpleNamespace(handle=self._handle, try_fast_path=lambda peer, data, at: None)
        self.timers = Timers()
        self.shared = SharedConnectionState(cast(Dispatcher, dispatcher), self.clock, self.timers, LARGEST, ByteBudget(limit))

    def _handle(self, _: object, frame: Buffer) -> object:
        self.on_frame(bytes(frame))
        return self.replies.get(bytes(frame), [b"pong"])

    def look(self) -> None:
        self.clock.advance(limits.SLOW_CHECK_MS)
        self.timers.run_due(self.clock.mono_ms())


@pytest.fixture
async def harness() -> Clocked:
    return Clocked(limit=HELD)


def begun(size: int) -> bytes:
    """Return the first `size` bytes of the largest permitted request."""
    return (LARGEST.to_bytes(4, "big") + bytes(LARGEST))[:size]


async def test_a_slow_reader_is_closed_when_memory_is_short_and_a_fast_one_is_not(harness: Clocked) -> None:
    slow, quick, other = Pipe(), Pipe(), Pipe()
    slow.connect(harness.shared).data_received(b"\0\0\0\4much")
    quick.connect(harness.shared).data_received(b"\0\0\0\4much")
    other.connect(harness.shared).data_received(begun(100))
    assert other.connection in harness.shared.waiting_for_memory
    slow.take(1_000)
    quick.take(HELD // limits.MOVED_PART)
    harness.look()
    assert (slow.aborted, quick.aborted, other.aborted) == (True, False, False)


async def test_no_connection_is_closed_for_memory_that_another_closed_one_releases(harness: Clocked) -> None:
    harness.shared.budget.limit = 3 * HELD // 2
    pipes = [Pipe(), Pipe()]
    for pipe in pipes:
        pipe.connect(harness.shared).data_received(b"\0\0\0\4much")
    for _ in range(2):  # the transports' connection_lost is called later
        harness.look()
        assert sorted(pipe.aborted for pipe in pipes) == [False, True]
    assert harness.shared.budget.used == HELD


async def test_memory_that_a_slow_peer_releases_lets_others_continue(harness: Clocked) -> None:
    slow, other = Pipe(), Pipe()
    slow.connect(harness.shared).data_received(b"\0\0\0\4much")
    other.connect(harness.shared).data_received(begun(100))
    slow.take(HELD // 2)
    harness.look()
    assert other.connection not in harness.shared.waiting_for_memory
    assert not slow.aborted
    assert harness.shared.budget.used == HELD // 2 + 100


async def test_a_slowly_sent_request_is_closed_when_memory_is_short_and_waiting_ones_continue(harness: Clocked) -> None:
    trickling, other = Pipe(), Pipe()
    trickling.connect(harness.shared).data_received(begun(LARGEST - 1_000))
    harness.shared.budget.used += HELD - LARGEST  # a third connection's
    harness.shared.budget.limit -= 2_000
    other.connect(harness.shared).data_received(begun(100))
    assert other.connection in harness.shared.waiting_for_memory
    trickling.connection.data_received(b"x")
    harness.look()
    assert (trickling.aborted, other.aborted) == (True, False)
    assert other.connection not in harness.shared.waiting_for_memory


async def test_a_quickly_sent_request_is_read_to_its_end_while_memory_is_short(harness: Clocked) -> None:
    quick = Pipe()
    quick.connect(harness.shared).data_received(begun(1_000))
    harness.shared.budget.used += HELD  # a third connection's
    quick.connection.data_received(b"x")
    whole = begun(LARGEST + 4)
    part = LARGEST // 8
    for at in range(1_001, len(whole), part):
        quick.connection.data_received(whole[at : at + part])
        harness.look()
    assert not quick.aborted
    assert quick.kept == len(b"pong")


async def test_small_requests_are_answered_while_memory_is_short(harness: Clocked) -> None:
    harness.shared.budget.used += HELD
    other = Pipe()
    connection = other.connect(harness.shared)
    for _ in range(3):
        connection.data_received(PING)
    assert other.kept == 3 * len(b"pong")


async def test_slow_connections_are_closed_after_even_a_short_shortage(harness: Clocked) -> None:
    trickling, other = Pipe(), Pipe()
    trickling.connect(harness.shared).data_received(begun(LARGEST - 1_000))
    harness.shared.budget.limit = LARGEST
    other.connect(harness.shared).data_received(begun(2_000))
    other.connection.connection_lost(None)
    assert not harness.shared.budget.is_exhausted()
    harness.look()
    assert trickling.aborted


async def test_a_connection_is_not_idle_while_a_request_is_pending_or_just_answered(harness: Clocked) -> None:
    pipe = Pipe()
    connection = pipe.connect(harness.shared)
    connection.data_received(b"\0\0\0\4wait")
    harness.clock.advance(600_000)
    assert not connection.idle
    harness.pending.set_result([b"late"])
    await asyncio.sleep(0)
    assert connection.idle
    assert connection.last_active_ms == harness.clock.mono_ms()
    assert pipe.kept == 4


async def test_data_behind_a_pending_request_is_shed_when_memory_is_short(harness: Clocked) -> None:
    waiting, other = Pipe(), Pipe()
    waiting.connect(harness.shared).data_received(b"\0\0\0\4wait" + 25 * PING)
    harness.shared.budget.used += HELD - 200  # a third connection's
    other.connect(harness.shared).data_received(begun(100))
    assert other.connection in harness.shared.waiting_for_memory
    other.connection.data_received(begun(0))
    harness.look()
    assert waiting.aborted


async def test_a_fast_sender_is_read_again_after_other_connections_had_their_turn(harness: Clocked) -> None:
    pipe = Pipe()
    connection = pipe.connect(harness.shared)
    whole = begun(LARGEST + 4)
    for at in range(limits.FULL_READS_PER_TURN):
        assert pipe.reading
        connection.data_received(whole[at * limits.FULL_READ_BYTES : (at + 1) * limits.FULL_READ_BYTES])
    assert not pipe.reading
    await asyncio.sleep(0)
    assert pipe.reading


async def test_a_connection_with_a_pending_request_is_not_read_in_the_next_turn(harness: Clocked) -> None:
    pipe = Pipe()
    connection = pipe.connect(harness.shared)
    connection.data_received(b"\0\0\0\4wait")
    for _ in range(limits.FULL_READS_PER_TURN):
        connection.data_received(bytes(limits.FULL_READ_BYTES))
    await asyncio.sleep(0)
    assert not pipe.reading


class Caller(asyncio.Protocol):
    """A client protocol that reports when its connection is closed."""

    def __init__(self) -> None:
        self.gone: asyncio.Future[None] = asyncio.get_running_loop().create_future()

    def connection_lost(self, error: Exception | None) -> None:
        self.gone.set_result(None)


async def test_a_connection_that_arrives_after_the_listener_closed_is_closed(harness: Clocked) -> None:
    network = MemoryNetwork()
    server = Server(network, [Listener("PLAINTEXT", "here", 0)], backlog=1)
    server.bind()
    await server.start(harness.shared)
    caller = Caller()
    await network.connect("here", server.listeners[0].port, lambda: caller)
    server.close()
    await asyncio.wait_for(caller.gone, 60)
    await asyncio.wait_for(harness.shared.until_empty(), 5)


async def test_aborting_all_connections_during_a_request_drops_it_and_those_behind_it(harness: Clocked) -> None:
    server = Server(Sockets(), [Listener("PLAINTEXT", "127.0.0.1", 0)], backlog=1)
    server.bind()
    await server.start(harness.shared)
    handled: list[bytes] = []
    failed: list[dict[str, Any]] = []
    asyncio.get_running_loop().set_exception_handler(lambda _, context: failed.append(context))

    def cut(frame: bytes) -> None:
        handled.append(frame)
        server.abort()

    harness.on_frame = cut
    reader, writer = await asyncio.open_connection("127.0.0.1", server.listeners[0].port)
    writer.write(2 * PING)
    with suppress(ConnectionError):
        assert not await asyncio.wait_for(reader.read(), 5)
    await asyncio.wait_for(harness.shared.until_empty(), 5)
    writer.close()
    assert not failed
    assert handled == [b"ping"]
