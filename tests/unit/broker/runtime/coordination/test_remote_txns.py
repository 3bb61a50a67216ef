from __future__ import annotations

import asyncio
from typing import Any

import pytest

from ottla.broker.cluster.metadata_records import NO_LEADER, RemoveTopicRecord
from ottla.broker.runtime.coordination.remote_txns import RemoteTxns
from ottla.protocol.codec import Request
from ottla.protocol.error_codes import ErrorCode
from ottla.protocol.messages.k24_add_partitions_to_txn import (
    AddPartitionsToTxnPartitionResult,
    AddPartitionsToTxnResponse,
    AddPartitionsToTxnResult,
    AddPartitionsToTxnTopicResult,
    AddPartitionsToTxnTransaction,
)
from tests.support.answering_node import HANG_UP
from tests.support.other_brokers import STATE, BrokerOne
from tests.support.simulation import settle

A, B = ("t", 0), ("u", 3)
PLACES = frozenset({A, B})


class LocalCoordinator:
    """A stand-in for this broker's transaction coordinator, which rejects every request with PRODUCER_FENCED."""

    def __init__(self) -> None:
        self.requests: list[tuple[Any, ...]] = []

    def add_partitions(self, *arguments: Any) -> ErrorCode:
        self.requests.append(arguments)
        return ErrorCode.PRODUCER_FENCED

    def verify_partitions(self, *arguments: Any) -> ErrorCode:
        self.requests.append(arguments)
        return ErrorCode.TRANSACTION_ABORTABLE


class Harness(BrokerOne):
    def __init__(self) -> None:
        super().__init__()
        self.local_coordinator = LocalCoordinator()
        self.codes: dict[tuple[str, int], int] = {}
        self.held: asyncio.Event | None = None
        self.txns = RemoteTxns(self.local_coordinator, self.catalog, 1, self.peers, self.nursery)

    async def answer(self, request: Request) -> Any:
        if self.held is not None:
            await self.held.wait()
        return AddPartitionsToTxnResponse(results_by_transaction=[self._result(txn) for txn in request.body.transactions])

    def _result(self, txn: AddPartitionsToTxnTransaction) -> AddPartitionsToTxnResult:
        def one(topic: str, index: int) -> AddPartitionsToTxnPartitionResult:
            return AddPartitionsToTxnPartitionResult(index, self.codes.get((topic, index), 0))

        topics = [AddPartitionsToTxnTopicResult(topic.name, [one(topic.name, n) for n in topic.partitions]) for topic in txn.topics]
        return AddPartitionsToTxnResult(txn.transactional_id, topics)

    async def verified(self, transactional_id: str = "tx", epoch: int = 5) -> Any:
        answer = self.txns.verify_partitions(transactional_id, 7, epoch, PLACES)
        return await answer if isinstance(answer, asyncio.Future) else answer


@pytest.fixture
async def harness() -> Harness:
    return Harness()


async def test_each_partition_gets_its_own_verification_result(harness: Harness) -> None:
    harness.codes[B] = ErrorCode.TRANSACTION_ABORTABLE
    coordinator = await harness.other(2, harness.answer)
    assert await harness.verified() == {A: ErrorCode.NONE, B: ErrorCode.TRANSACTION_ABORTABLE}
    (request,) = coordinator.requests
    (transaction,) = request.body.transactions
    assert request.header.api_version == 5
    assert (transaction.transactional_id, transaction.producer_id, transaction.producer_epoch, transaction.verify_only) == (
        "tx",
        7,
        5,
        True,
    )
    assert [(topic.name, topic.partitions) for topic in transaction.topics] == [("t", [0]), ("u", [3])]


async def test_a_transaction_version_2_producer_adds_its_partitions(harness: Harness) -> None:
    coordinator = await harness.other(2, harness.answer)
    answer = harness.txns.add_partitions("tx", 7, 5, PLACES, 2)
    assert isinstance(answer, asyncio.Future)
    assert await answer == dict.fromkeys(PLACES, ErrorCode.NONE)
    assert not coordinator.requests[0].body.transactions[0].verify_only


async def test_a_local_coordinator_needs_no_request(harness: Harness) -> None:
    harness.moved(STATE, 0, 1)
    assert harness.txns.add_partitions("tx", 7, 5, PLACES, 2) is ErrorCode.PRODUCER_FENCED
    assert harness.txns.verify_partitions("tx", 7, 5, PLACES) is ErrorCode.TRANSACTION_ABORTABLE
    assert harness.local_coordinator.requests == [("tx", 7, 5, PLACES, 2), ("tx", 7, 5, PLACES)]


async def test_no_reachable_coordinator_is_coordinator_not_available(harness: Harness) -> None:
    assert await harness.verified() is ErrorCode.COORDINATOR_NOT_AVAILABLE
    await harness.other(2, harness.answer)
    harness.moved(STATE, 0, NO_LEADER)
    assert await harness.verified() is ErrorCode.COORDINATOR_NOT_AVAILABLE


async def test_a_missing_transactions_topic_is_coordinator_not_available(harness: Harness) -> None:
    harness.catalog.apply([RemoveTopicRecord(STATE)])
    assert await harness.verified() is ErrorCode.COORDINATOR_NOT_AVAILABLE


async def test_a_failed_verification_request_is_a_network_exception(harness: Harness) -> None:
    await harness.other(2, lambda _: HANG_UP)
    assert await harness.verified() == dict.fromkeys(PLACES, ErrorCode.NETWORK_EXCEPTION)


async def test_a_partition_missing_from_the_verification_is_a_network_exception(harness: Harness) -> None:
    await harness.other(2, lambda _: AddPartitionsToTxnResponse())
    assert await harness.verified() == dict.fromkeys(PLACES, ErrorCode.NETWORK_EXCEPTION)


@pytest.mark.parametrize(
    ("whole", "expected"),
    [
        (ErrorCode.CLUSTER_AUTHORIZATION_FAILED, ErrorCode.INVALID_TXN_STATE),
        (ErrorCode.COORDINATOR_LOAD_IN_PROGRESS, ErrorCode.COORDINATOR_LOAD_IN_PROGRESS),
    ],
)
async def test_a_top_level_error_applies_to_every_partition(harness: Harness, whole: ErrorCode, expected: ErrorCode) -> None:
    await harness.other(2, lambda _: AddPartitionsToTxnResponse(error_code=whole))
    assert await harness.verified() == dict.fromkeys(PLACES, expected)


async def test_a_coordinator_without_verification_support_is_trusted(harness: Harness) -> None:
    await harness.other(2, harness.answer, {27: (1, 2)})
    assert await harness.verified() == dict.fromkeys(PLACES, ErrorCode.NONE)


async def test_one_verification_is_in_flight_and_has_each_id_once(harness: Harness) -> None:
    harness.held = asyncio.Event()
    coordinator = await harness.other(2, harness.answer)
    asking = [asyncio.ensure_future(harness.verified())]
    await settle()
    asking += [asyncio.ensure_future(harness.verified(*producer)) for producer in (("tx", 5), ("tx", 6), ("other", 0))]
    await settle()
    assert len(coordinator.requests) == 1
    harness.held.set()
    assert await asyncio.gather(*asking) == [dict.fromkeys(PLACES, ErrorCode.NONE)] * 4
    transactions = [[(txn.transactional_id, txn.producer_epoch) for txn in request.body.transactions] for request in coordinator.requests]
    assert transactions == [[("tx", 5)], [("tx", 5), ("other", 0)], [("tx", 6)]]


async def test_stop_completes_pending_verifications(harness: Harness) -> None:
    await harness.other(2, lambda _: None)
    answer = harness.txns.verify_partitions("tx", 7, 5, PLACES)
    assert isinstance(answer, asyncio.Future)
    await settle()
    await harness.nursery.stop()
    assert answer.done()
