from __future__ import annotations

import asyncio

from ottla.broker.runtime.coordination.other_brokers import OtherBrokers
from ottla.broker.runtime.nodes.peers import Peers
from ottla.broker.txns.txn_marker import TxnMarker
from tests.support.other_brokers import BrokerOne
from tests.support.simulation import settle


async def test_markers_and_verifications_have_separate_connections() -> None:
    one = BrokerOne()
    two = await one.other(2, lambda _: None)
    others = OtherBrokers(one.catalog, 1, lambda: Peers(one.connect, one.addresses.get, 1_000), one.nursery)
    sent = others.markers(lambda *_: None)(("t", 1), TxnMarker(7, 5, True, 9, 2))
    verified = others.txns(None).verify_partitions("tx", 7, 5, frozenset({("t", 1)}))  # type: ignore[arg-type]  # no broker is reached here
    await settle()
    assert len(two.connections) == 2
    assert sorted(two.received_keys()) == [24, 27]
    await one.nursery.stop()
    assert sent is not None
    assert isinstance(verified, asyncio.Future)
    assert (sent.done(), verified.done()) == (True, True)
