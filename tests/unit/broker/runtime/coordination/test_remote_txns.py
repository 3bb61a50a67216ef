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


class Here:
    """A stand-in for this broker's transaction coordinator, which rejects every request with PRODUCER_FENCED."""

    def __init__(self) -> None:
        self.asked: list[tuple[Any, ...]] = []

    def add_partitions(self, *question: Any) -> ErrorCode:
        self.asked.append(question)
        return ErrorCode.PRODUCER_FENCED

    def verify_partitions(self, *question: Any) -> ErrorCode:
        self.asked.append(question)
        return ErrorCode.TRANSACTION_ABORTABLE


class Scene(BrokerOne):
    def __init__(self) -> None:
        super().__init__()
        self.here = Here()
        self.codes: dict[tuple[str, int], int] = {}
        self.held: asyncio.Event | None = None
        self.txns = RemoteTxns(self.here, self.catalog, 1, self.peers, self.nursery)

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
async def scene() -> Scene:
    return Scene()


async def test_each_partition_gets_its_own_verification_result(scene: Scene) -> None:
    scene.codes[B] = ErrorCode.TRANSACTION_ABORTABLE
    coordinator = await scene.other(2, scene.answer)
    assert await scene.verified() == {A: ErrorCode.NONE, B: ErrorCode.TRANSACTION_ABORTABLE}
    (request,) = coordinator.asked
    (told,) = request.body.transactions
    assert request.header.api_version == 5
    assert (told.transactional_id, told.producer_id, told.producer_epoch, told.verify_only) == ("tx", 7, 5, True)
    assert [(topic.name, topic.partitions) for topic in told.topics] == [("t", [0]), ("u", [3])]


async def test_a_transaction_version_2_producer_adds_its_partitions(scene: Scene) -> None:
    coordinator = await scene.other(2, scene.answer)
    answer = scene.txns.add_partitions("tx", 7, 5, PLACES, 2)
    assert isinstance(answer, asyncio.Future)
    assert await answer == dict.fromkeys(PLACES, ErrorCode.NONE)
    assert not coordinator.asked[0].body.transactions[0].verify_only


async def test_a_local_coordinator_needs_no_request(scene: Scene) -> None:
    scene.moved(STATE, 0, 1)
    assert scene.txns.add_partitions("tx", 7, 5, PLACES, 2) is ErrorCode.PRODUCER_FENCED
    assert scene.txns.verify_partitions("tx", 7, 5, PLACES) is ErrorCode.TRANSACTION_ABORTABLE
    assert scene.here.asked == [("tx", 7, 5, PLACES, 2), ("tx", 7, 5, PLACES)]


async def test_no_reachable_coordinator_is_coordinator_not_available(scene: Scene) -> None:
    assert await scene.verified() is ErrorCode.COORDINATOR_NOT_AVAILABLE
    await scene.other(2, scene.answer)
    scene.moved(STATE, 0, NO_LEADER)
    assert await scene.verified() is ErrorCode.COORDINATOR_NOT_AVAILABLE


async def test_a_missing_transactions_topic_is_coordinator_not_available(scene: Scene) -> None:
    scene.catalog.apply([RemoveTopicRecord(STATE)])
    assert await scene.verified() is ErrorCode.COORDINATOR_NOT_AVAILABLE


async def test_a_failed_verification_request_is_a_network_exception(scene: Scene) -> None:
    await scene.other(2, lambda _: HANG_UP)
    assert await scene.verified() == dict.fromkeys(PLACES, ErrorCode.NETWORK_EXCEPTION)


async def test_a_partition_missing_from_the_verification_is_a_network_exception(scene: Scene) -> None:
    await scene.other(2, lambda _: AddPartitionsToTxnResponse())
    assert await scene.verified() == dict.fromkeys(PLACES, ErrorCode.NETWORK_EXCEPTION)


@pytest.mark.parametrize(
    ("whole", "told"),
    [
        (ErrorCode.CLUSTER_AUTHORIZATION_FAILED, ErrorCode.INVALID_TXN_STATE),
        (ErrorCode.COORDINATOR_LOAD_IN_PROGRESS, ErrorCode.COORDINATOR_LOAD_IN_PROGRESS),
    ],
)
async def test_a_top_level_error_applies_to_every_partition(scene: Scene, whole: ErrorCode, told: ErrorCode) -> None:
    await scene.other(2, lambda _: AddPartitionsToTxnResponse(error_code=whole))
    assert await scene.verified() == dict.fromkeys(PLACES, told)


async def test_a_coordinator_without_verification_support_is_trusted(scene: Scene) -> None:
    await scene.other(2, scene.answer, {27: (1, 2)})
    assert await scene.verified() == dict.fromkeys(PLACES, ErrorCode.NONE)


async def test_one_verification_is_in_flight_and_has_each_id_once(scene: Scene) -> None:
    scene.held = asyncio.Event()
    coordinator = await scene.other(2, scene.answer)
    asking = [asyncio.ensure_future(scene.verified())]
    await settle()
    asking += [asyncio.ensure_future(scene.verified(*producer)) for producer in (("tx", 5), ("tx", 6), ("other", 0))]
    await settle()
    assert len(coordinator.asked) == 1
    scene.held.set()
    assert await asyncio.gather(*asking) == [dict.fromkeys(PLACES, ErrorCode.NONE)] * 4
    told = [[(txn.transactional_id, txn.producer_epoch) for txn in request.body.transactions] for request in coordinator.asked]
    assert told == [[("tx", 5)], [("tx", 5), ("other", 0)], [("tx", 6)]]


async def test_after_a_stop_nobody_waits(scene: Scene) -> None:
    await scene.other(2, lambda _: None)
    answer = scene.txns.verify_partitions("tx", 7, 5, PLACES)
    assert isinstance(answer, asyncio.Future)
    await settle()
    await scene.nursery.stop()
    assert answer.done()
