"""Links between nodes over real sockets: data that is held back or delayed, and neither lost nor reordered."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator

import pytest

from ottla.broker.testing.links import LinkedNetwork, Links
from tests.unit.broker.net.test_network import HOST, End


class Pair:
    """Two ends of a connection that node 1 opened to node 2."""

    def __init__(self, links: Links) -> None:
        self.links = links
        self.one, self.other = links.network(1), links.network(2)
        self.here, self.there = End(), End()

    async def dial(self) -> None:
        place = self.other.listen(HOST, 0)
        await place.accept(lambda: self.there, 8)
        await self.one.connect(HOST, place.port, lambda: self.here)
        self.here.transport.write(b"?")
        await self.there.until_came(1)
        self.port, self.place = place.port, place


@pytest.fixture
async def pair() -> AsyncIterator[Pair]:
    made = Pair(Links())
    await made.dial()
    yield made
    made.here.transport.abort()
    made.place.close()


async def turns() -> None:
    """Run many more turns of the event loop than loopback needs, so that data which has not arrived is held back."""
    for _ in range(200):
        await asyncio.sleep(0)


async def test_a_blocked_way_holds_back_what_is_sent_and_the_other_way_is_open(pair: Pair) -> None:
    pair.links.block([(1, 2)])
    pair.here.transport.write(b"a")
    pair.here.transport.writelines([b"b", b"c"])
    pair.there.transport.write(b"x")
    assert await pair.here.until_came(1) == b"x"
    assert pair.there.came == b"?"
    pair.links.heal()
    assert await pair.there.until_came(4) == b"?abc"


async def test_what_comes_on_a_blocked_way_is_held_back_and_so_is_the_end_of_the_connection(pair: Pair) -> None:
    pair.links.block([(2, 1)])
    pair.there.transport.write(b"last")
    pair.there.transport.close()
    await turns()
    assert (bytes(pair.here.came), pair.here.closed) == (b"", False)
    pair.links.heal()
    await pair.here.until_closed()
    assert pair.here.came == b"last"


@pytest.mark.parametrize("way", [(1, 2), (2, 1)])
async def test_who_dials_over_a_blocked_link_waits_and_is_through_when_it_is_open(pair: Pair, way: tuple[int, int]) -> None:
    pair.links.block([way])
    late = End()
    dialling = asyncio.ensure_future(pair.one.connect(HOST, pair.port, lambda: late))
    await turns()
    assert not dialling.done()
    pair.links.heal()
    (await dialling).abort()
    await late.until_closed()


async def test_who_gives_up_leaves_nothing_under_way(pair: Pair) -> None:
    pair.links.block([(1, 2)])
    lanes = dict(pair.one.lanes)
    dialling = asyncio.ensure_future(pair.one.connect(HOST, pair.port, End))
    await turns()
    dialling.cancel()
    await asyncio.wait([dialling])
    assert pair.one.lanes == lanes
    pair.here.transport.write(b"never")
    pair.here.transport.abort()
    await pair.here.until_closed()
    assert pair.one.lanes == {}
    pair.links.heal()
    await pair.there.until_closed()
    assert pair.there.came == b"?"


async def test_a_slow_way_takes_its_time_in_order_and_the_other_none(pair: Pair) -> None:
    loop = asyncio.get_running_loop()
    pair.links.slow([(1, 2)], 30)
    began = loop.time()
    for letter in b"abc":
        pair.here.transport.write(bytes([letter]))
    assert await pair.there.until_came(4) == b"?abc"
    assert loop.time() - began >= 0.03
    pair.links.heal()


async def test_a_close_comes_after_what_was_written(pair: Pair) -> None:
    pair.links.block([(1, 2)])
    pair.here.transport.write(b"bye")
    pair.here.transport.close()
    assert pair.here.transport.is_closing()
    pair.links.heal()
    assert await pair.there.until_came(4) == b"?bye"
    await pair.there.until_closed()
    await pair.here.until_closed()


def test_both_ways_between_two_groups_and_none_within() -> None:
    assert sorted(Links().between({1}, {2, 3})) == [(1, 2), (1, 3), (2, 1), (3, 1)]
    assert Links().between({1}, {1}) == []


async def test_a_port_of_nobody_is_reached_as_it_is() -> None:
    links = Links()
    links.block([(1, 2)])
    network = links.network(1)
    assert isinstance(network, LinkedNetwork)
    assert links.node_at(1) == -1
    with pytest.raises(ConnectionRefusedError):
        await network.connect(HOST, 1, End)
    assert network.lanes == {}
