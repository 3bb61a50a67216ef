"""One suite for the operating system's network and for its simulated replacements."""

from __future__ import annotations

import asyncio

import pytest

from ottla.broker.net.network import Network, Sockets
from ottla.broker.sim.memory_network import MemoryNetwork
from ottla.broker.testing.links import Links

HOST = "127.0.0.1"


@pytest.fixture(params=[Sockets, MemoryNetwork, lambda: Links().network(1)], ids=["Sockets", "MemoryNetwork", "LinkedNetwork"])
def network(request: pytest.FixtureRequest) -> Network:
    made: Network = request.param()
    return made


class End(asyncio.Protocol):
    """One end of a connection: the received data, and whether and how the connection ended."""

    def __init__(self) -> None:
        self.came = bytearray()
        self.changed = asyncio.Event()
        self.stays_open = False
        self.ended = False
        self.closed = False

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        assert isinstance(transport, asyncio.Transport)
        self.transport = transport
        self.changed.set()

    def data_received(self, data: bytes) -> None:
        self.came += data
        self.changed.set()

    def eof_received(self) -> bool:
        self.ended = True
        self.changed.set()
        return self.stays_open

    def connection_lost(self, error: Exception | None) -> None:
        self.closed = True
        self.changed.set()

    async def until_came(self, size: int) -> bytes:
        async with asyncio.timeout(10):
            while len(self.came) < size:
                self.changed.clear()
                await self.changed.wait()
        return bytes(self.came)

    async def until_closed(self) -> None:
        async with asyncio.timeout(10):
            while not self.closed:
                self.changed.clear()
                await self.changed.wait()

    async def until_made(self) -> None:
        async with asyncio.timeout(10):
            await self.changed.wait()


async def pair(network: Network) -> tuple[End, End]:
    """Return two connected ends: the client's and the server's."""
    here, there = End(), End()
    place = network.listen(HOST, 0)
    await place.accept(lambda: there, 10)
    await network.connect(HOST, place.port, lambda: here)
    await there.until_made()
    place.close()
    return here, there


async def test_data_arrives_in_order(network: Network) -> None:
    here, there = await pair(network)
    for number in range(100):
        here.transport.write(b"%02d" % number)
    there.transport.writelines([b"a", b"b"])
    assert await there.until_came(200) == b"".join(b"%02d" % number for number in range(100))
    assert await here.until_came(2) == b"ab"
    here.transport.close()
    await asyncio.gather(here.until_closed(), there.until_closed())


async def test_data_before_a_close_is_received(network: Network) -> None:
    here, there = await pair(network)
    here.transport.write(b"last words")
    here.transport.close()
    await there.until_closed()
    assert bytes(there.came) == b"last words"
    assert there.ended


async def test_an_abort_closes_both_ends(network: Network) -> None:
    here, there = await pair(network)
    there.transport.abort()
    await asyncio.gather(here.until_closed(), there.until_closed())


async def test_an_end_that_closed_its_write_side_can_still_read(network: Network) -> None:
    here, there = await pair(network)
    there.stays_open = True
    here.transport.write_eof()
    async with asyncio.timeout(10):
        while not there.ended:
            there.changed.clear()
            await there.changed.wait()
    there.transport.write(b"answer")
    assert await here.until_came(6) == b"answer"
    there.transport.close()
    await asyncio.gather(here.until_closed(), there.until_closed())


async def test_nothing_is_read_while_reading_is_paused(network: Network) -> None:
    here, there = await pair(network)
    there.transport.pause_reading()
    here.transport.write(b"x")
    for _ in range(20):
        await asyncio.sleep(0)
    assert not there.came
    there.transport.resume_reading()
    assert await there.until_came(1) == b"x"
    here.transport.close()
    await asyncio.gather(here.until_closed(), there.until_closed())


async def test_an_address_is_bound_once_and_released_by_close(network: Network) -> None:
    place = network.listen(HOST, 0)
    await place.accept(End, 10)
    with pytest.raises(OSError, match="in use"):
        network.listen(HOST, place.port)
    place.close()
    with pytest.raises(ConnectionRefusedError):
        await network.connect(HOST, place.port, End)
    network.listen(HOST, place.port).close()


def test_of_two_sockets_bound_to_one_address_only_the_first_can_listen() -> None:
    """uvloop alone would ignore the failure, and the second broker would run without a listener."""
    uvloop = pytest.importorskip("uvloop")

    async def accept_twice() -> None:
        first = Sockets().listen(HOST, 0)
        second = Sockets().listen(HOST, first.port)
        try:
            await first.accept(End, 10)
            with pytest.raises(OSError, match="in use"):
                await second.accept(End, 10)
        finally:
            first.close()
            second.close()

    with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
        runner.run(accept_twice())
