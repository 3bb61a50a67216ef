from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from random import Random

import pytest

from ottla.broker.sim.loop import Process, SimLoop
from ottla.broker.sim.sim_cluster import sleep
from ottla.broker.sim.sim_network import SimNetwork
from tests.support.coroutine_tests import played_by


class End(asyncio.Protocol):
    def __init__(self) -> None:
        self.came = b""
        self.lost = False

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        assert isinstance(transport, asyncio.Transport)
        self.transport = transport

    def data_received(self, data: bytes) -> None:
        self.came += data

    def connection_lost(self, error: Exception | None) -> None:
        self.lost = True


class Pair:
    """A client and a server of two hosts, `a` and `b`, and a connection between them."""

    def __init__(self) -> None:
        self.loop = SimLoop()
        self.network = SimNetwork(self.loop, Random(1))
        self.client, self.server = Process("a"), Process("b")
        self.here, self.there = End(), End()

    async def connect(self) -> None:
        async def listens() -> None:
            await self.network.listen("b", 1).accept(lambda: self.there, 1)

        await self.loop.spawn(self.server, listens())
        await self.dial(self.here)

    async def dial(self, end: End) -> None:
        async def dials() -> None:
            await self.network.connect("b", 1, lambda: end)

        await self.loop.spawn(self.client, dials())

    async def ms(self, ms: int) -> None:
        await sleep(self.loop, ms)


def run(body: Callable[[Pair], Awaitable[None]]) -> None:
    pair = Pair()

    async def whole() -> None:
        await pair.connect()
        await body(pair)

    pair.loop.run_until_complete(whole())


@played_by(run)
async def test_one_way_block_holds_data_until_healed_and_the_other_way_is_open(pair: Pair) -> None:
    pair.network.block("a", "b")
    pair.here.transport.write(b"asked")
    pair.there.transport.write(b"told")
    await pair.ms(1_000)
    assert (pair.there.came, pair.here.came) == (b"", b"told")
    pair.network.heal()
    await pair.ms(10)
    assert pair.there.came == b"asked"


@played_by(run)
async def test_link_blocked_several_times_opens_after_as_many_unblocks_or_a_heal(pair: Pair) -> None:
    for _ in range(3):
        pair.network.block("a", "b")
    pair.network.unblock("a", "b")
    pair.here.transport.write(b"asked")
    await pair.ms(1_000)
    assert pair.there.came == b""
    pair.network.heal()
    await pair.ms(10)
    assert pair.there.came == b"asked"


@played_by(run)
async def test_cut_connection_is_lost_at_both_ends_with_its_data_in_flight(pair: Pair) -> None:
    pair.here.transport.write(b"asked")
    assert pair.network.cut("a", "b") == 1
    await pair.ms(10)
    assert (pair.here.lost, pair.there.lost, pair.there.came) == (True, True, b"")


@played_by(run)
async def test_a_process_that_is_killed_resets_its_connections_and_refuses_new_ones(pair: Pair) -> None:
    pair.loop.kill(pair.server)
    pair.network.process_died(pair.server, power=False)
    await pair.ms(10)
    assert (pair.here.lost, pair.there.lost) == (True, False), "nothing of a dead process runs"
    with pytest.raises(ConnectionRefusedError):
        await pair.dial(End())


@played_by(run)
async def test_host_without_power_is_silent_until_it_returns(pair: Pair) -> None:
    pair.loop.kill(pair.server)
    pair.network.process_died(pair.server, power=True)
    dialling = asyncio.ensure_future(pair.dial(End()))
    await pair.ms(60_000)
    assert not pair.here.lost
    assert not dialling.done()
    pair.network.power_restored("b")
    await pair.ms(10)
    assert pair.here.lost


@played_by(run)
async def test_paused_process_reads_when_it_resumes(pair: Pair) -> None:
    pair.loop.pause(pair.server)
    pair.here.transport.write(b"asked")
    await pair.ms(1_000)
    assert pair.there.came == b""
    pair.loop.resume(pair.server)
    await pair.ms(1)
    assert pair.there.came == b"asked"
