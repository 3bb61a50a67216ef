from __future__ import annotations

import asyncio
from collections.abc import Sequence

import pytest

from ottla.broker.core import limits
from ottla.broker.core.clock import VirtualClock
from ottla.broker.core.rejected import Rejected
from ottla.broker.core.timers import Timers
from ottla.broker.runtime.nodes.link import LinkBroken, Node
from ottla.broker.runtime.nodes.peers import OperationBatcher, PendingOperation
from ottla.broker.runtime.upkeep.nursery import Nursery
from ottla.protocol.api_keys import ApiKey
from ottla.protocol.error_codes import ErrorCode
from ottla.protocol.messages import k00_produce as k00
from ottla.protocol.messages.k27_write_txn_markers import WriteTxnMarkersRequest, WriteTxnMarkersResponse
from tests.support.other_brokers import BrokerOne
from tests.support.simulation import settle

REQUEST = WriteTxnMarkersRequest()


async def test_a_connection_is_reused_until_the_brokers_address_changes() -> None:
    one = BrokerOne()
    before = await one.other(2, lambda _: WriteTxnMarkersResponse())
    await one.peers.call(2, REQUEST)
    await one.peers.call(2, REQUEST)
    assert (len(before.connections), len(before.requests)) == (1, 2)
    one.addresses[2] = Node(2, "elsewhere", 9092)
    after = await one.answering(one.addresses[2], lambda _: WriteTxnMarkersResponse(), {ApiKey.WRITE_TXN_MARKERS: (1, 2)})
    await one.peers.call(2, REQUEST)
    assert (len(before.requests), len(after.requests)) == (2, 1)
    one.peers.close()
    with pytest.raises(LinkBroken):
        await one.peers.call(2, REQUEST)


async def test_no_connection_is_opened_to_an_unknown_broker() -> None:
    one = BrokerOne()
    assert not one.peers.has(2)
    with pytest.raises(LinkBroken):
        await one.peers.call(2, REQUEST)


async def test_a_request_without_a_response_is_rejected_with_network_exception() -> None:
    one = BrokerOne()
    with pytest.raises(Rejected, match="broker 2 is away") as rejected:
        await one.peers.ask(2, REQUEST)
    assert rejected.value.code is ErrorCode.NETWORK_EXCEPTION
    await one.other(2, lambda _: WriteTxnMarkersResponse())
    assert await one.peers.ask(2, REQUEST) == WriteTxnMarkersResponse()
    with pytest.raises(Rejected) as rejected:
        await one.peers.ask(2, k00.ProduceRequest())
    assert rejected.value.code is ErrorCode.NETWORK_EXCEPTION


class Requests:
    """The requests to each broker, which are answered when the test permits it."""

    def __init__(self) -> None:
        self.nursery = Nursery(Timers(), VirtualClock(), lambda _: None)
        self.batches: OperationBatcher[int, str] = OperationBatcher(self.nursery, "operations", self._send)
        self.sent: list[tuple[int, list[int]]] = []
        self.gate = asyncio.Event()

    async def _send(self, node: int, batch: Sequence[PendingOperation[int, str]]) -> None:
        self.sent.append((node, [pending.operation for pending in batch]))
        await self.gate.wait()
        for pending in batch:
            if pending.operation < 0:
                raise ZeroDivisionError
            if pending.operation % 2 == 0 or len(batch) == 1:
                pending.settle(f"{pending.operation} of {node}")


async def test_each_broker_has_one_request_in_flight_and_the_next_has_all_newer_operations() -> None:
    requests = Requests()
    answers = [requests.batches.put(2, 0)]
    await settle()
    answers += [requests.batches.put(2, 2), requests.batches.put(3, 4), requests.batches.put(2, 6)]
    await settle()
    assert requests.sent == [(2, [0]), (3, [4])]
    requests.gate.set()
    assert await asyncio.gather(*answers) == ["0 of 2", "2 of 2", "4 of 3", "6 of 2"]
    assert requests.sent[2:] == [(2, [2, 6])]


async def test_operations_left_out_of_a_request_come_first_in_the_next() -> None:
    requests = Requests()
    requests.gate.set()
    answers = [requests.batches.put(2, operation) for operation in (2, 3)]
    assert await asyncio.gather(*answers) == ["2 of 2", "3 of 2"]
    assert requests.sent == [(2, [2, 3]), (2, [3])]


async def test_a_request_carries_a_limited_number_of_operations() -> None:
    requests = Requests()
    requests.gate.set()
    await asyncio.gather(*(requests.batches.put(2, 2 * n) for n in range(limits.OPERATIONS_PER_REQUEST + 1)))
    assert [len(batch) for _, batch in requests.sent] == [limits.OPERATIONS_PER_REQUEST, 1]


async def test_a_bug_fails_its_callers_and_later_requests_are_sent() -> None:
    requests = Requests()
    requests.gate.set()
    with pytest.raises(ZeroDivisionError):
        await requests.batches.put(2, -1)
    assert await requests.batches.put(2, 2) == "2 of 2"


async def test_a_stop_fails_every_pending_operation() -> None:
    requests = Requests()
    answers = [requests.batches.put(2, 0) for _ in range(limits.OPERATIONS_PER_REQUEST + 1)]
    await settle()
    answers.append(requests.batches.put(2, 2))
    requests.batches.end()
    for answer in answers:
        with pytest.raises(Rejected) as refused:
            await answer
        assert refused.value.code is ErrorCode.NETWORK_EXCEPTION


async def test_a_stop_before_the_first_request_is_sent_is_no_failure(caplog: pytest.LogCaptureFixture) -> None:
    requests = Requests()
    result = requests.batches.put(2, 0)
    requests.batches.end()
    with pytest.raises(Rejected):
        await result
    await settle()
    assert (requests.sent, caplog.messages) == ([], [])
