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


async def test_blocked_direction_holds_sent_data_and_the_other_direction_is_open(pair: Pair) -> None:
    pair.links.block([(1, 2)])
    pair.here.transport.write(b"a")
    pair.here.transport.writelines([b"b", b"c"])
    pair.there.transport.write(b"x")
    assert await pair.here.until_came(1) == b"x"
    assert pair.there.came == b"?"
    pair.links.heal()
    assert await pair.there.until_came(4) == b"?abc"


async def test_blocked_direction_holds_received_data_and_the_close(pair: Pair) -> None:
    pair.links.block([(2, 1)])
    pair.there.transport.write(b"last")
    pair.there.transport.close()
    await turns()
    assert (bytes(pair.here.came), pair.here.closed) == (b"", False)
    pair.links.heal()
    await pair.here.until_closed()
    assert pair.here.came == b"last"


@pytest.mark.parametrize("way", [(1, 2), (2, 1)])
async def test_connect_over_a_blocked_link_waits_until_it_is_healed(pair: Pair, way: tuple[int, int]) -> None:
    pair.links.block([way])
    late = End()
    dialling = asyncio.ensure_future(pair.one.connect(HOST, pair.port, lambda: late))
    await turns()
    assert not dialling.done()
    pair.links.heal()
    (await dialling).abort()
    await late.until_closed()


async def test_cancelled_or_aborted_connection_leaves_nothing_in_flight(pair: Pair) -> None:
    pair.links.block([(1, 2)])
    directions = dict(pair.one.directions)
    dialling = asyncio.ensure_future(pair.one.connect(HOST, pair.port, End))
    await turns()
    dialling.cancel()
    await asyncio.wait([dialling])
    assert pair.one.directions == directions
    pair.here.transport.write(b"never")
    pair.here.transport.abort()
    await pair.here.until_closed()
    assert pair.one.directions == {}
    pair.links.heal()
    await pair.there.until_closed()
    assert pair.there.came == b"?"


async def test_slow_direction_delays_data_in_order(pair: Pair) -> None:
    loop = asyncio.get_running_loop()
    pair.links.slow([(1, 2)], 30)
    began = loop.time()
    for letter in b"abc":
        pair.here.transport.write(bytes([letter]))
    assert await pair.there.until_came(4) == b"?abc"
    assert loop.time() - began >= 0.03
    pair.links.heal()


async def test_close_follows_the_data_written_before_it(pair: Pair) -> None:
    pair.links.block([(1, 2)])
    pair.here.transport.write(b"bye")
    pair.here.transport.close()
    assert pair.here.transport.is_closing()
    pair.links.heal()
    assert await pair.there.until_came(4) == b"?bye"
    await pair.there.until_closed()
    await pair.here.until_closed()


def test_links_between_two_groups_include_both_directions_and_none_within_a_group() -> None:
    assert sorted(Links().between({1}, {2, 3})) == [(1, 2), (1, 3), (2, 1), (3, 1)]
    assert Links().between({1}, {1}) == []


async def test_port_of_no_node_is_connected_to_directly() -> None:
    links = Links()
    links.block([(1, 2)])
    network = links.network(1)
    assert isinstance(network, LinkedNetwork)
    assert links.node_at(1) == -1
    with pytest.raises(ConnectionRefusedError):
        await network.connect(HOST, 1, End)
    assert network.directions == {}
