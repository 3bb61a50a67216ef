from __future__ import annotations

import asyncio
from typing import Any

import pytest

from ottla.broker.core.rejected import Rejected
from ottla.broker.runtime.coordination.remote_markers import RemoteMarkers
from ottla.broker.runtime.coordination.shard import Committed
from ottla.broker.txns.transaction import TopicPartition
from ottla.broker.txns.txn_marker import TxnMarker
from ottla.protocol.api_keys import ApiKey
from ottla.protocol.codec import Request
from ottla.protocol.error_codes import ErrorCode
from ottla.protocol.messages.k27_write_txn_markers import (
    WritableTxnMarker,
    WritableTxnMarkerPartitionResult,
    WritableTxnMarkerResult,
    WritableTxnMarkerTopicResult,
    WriteTxnMarkersResponse,
)
from tests.support.answering_node import HANG_UP
from tests.support.other_brokers import BrokerOne, T
from tests.support.simulation import settle

HERE, AT_2, AT_3, NOWHERE = (("t", n) for n in range(4))
MARKER = TxnMarker(7, 5, True, 9, 2)


class Harness(BrokerOne):
    """The markers that broker 1 sends. `codes` are the errors of other brokers by partition; while `held` is set, their responses wait for
    it."""

    def __init__(self) -> None:
        super().__init__()
        self.written: list[tuple[TopicPartition, TxnMarker]] = []
        self.codes: dict[TopicPartition, int] = {}
        self.held: asyncio.Event | None = None
        self.markers = RemoteMarkers(self._local, self.catalog, 1, self.peers, self.nursery)

    def _local(self, place: TopicPartition, marker: TxnMarker) -> Committed:
        self.written.append((place, marker))
        return None

    async def answer(self, request: Request) -> Any:
        if self.held is not None:
            await self.held.wait()
        return WriteTxnMarkersResponse([self._result(marker) for marker in request.body.markers])

    def _result(self, marker: WritableTxnMarker) -> WritableTxnMarkerResult:
        def one(topic: str, index: int) -> WritableTxnMarkerPartitionResult:
            return WritableTxnMarkerPartitionResult(index, self.codes.get((topic, index), 0))

        topics = [
            WritableTxnMarkerTopicResult(topic.name, [one(topic.name, n) for n in topic.partition_indexes]) for topic in marker.topics
        ]
        return WritableTxnMarkerResult(marker.producer_id, topics)

    def send(self, place: TopicPartition, marker: TxnMarker = MARKER) -> asyncio.Future[None]:
        sent = self.markers.send(place, marker)
        assert sent is not None
        return sent


async def code_of(sent: asyncio.Future[None]) -> ErrorCode:
    try:
        await sent
    except Rejected as refused:
        return refused.code
    return ErrorCode.NONE


@pytest.fixture
async def harness() -> Harness:
    return Harness()


async def test_a_partition_led_by_this_broker_gets_its_marker_at_once(harness: Harness) -> None:
    assert harness.markers.send(HERE, MARKER) is None
    assert harness.written == [(HERE, MARKER)]


async def test_a_remote_partitions_marker_is_sent_with_all_its_fields(harness: Harness) -> None:
    two, three = await harness.other(2, harness.answer), await harness.other(3, harness.answer)
    sent = [harness.send(AT_2), harness.send(AT_3)]
    assert [await code_of(each) for each in sent] == [ErrorCode.NONE, ErrorCode.NONE]
    for node, index in ((two, 1), (three, 2)):
        (request,) = node.requests
        (marker,) = request.body.markers
        assert request.header.api_version == 2
        assert (marker.producer_id, marker.producer_epoch, marker.transaction_result, marker.coordinator_epoch) == (7, 5, True, 9)
        assert (marker.transaction_version, [(topic.name, topic.partition_indexes) for topic in marker.topics]) == (2, [("t", [index])])
    assert harness.written == []


async def test_the_transaction_version_is_omitted_for_older_brokers(harness: Harness) -> None:
    two = await harness.other(2, harness.answer, {ApiKey.WRITE_TXN_MARKERS: (1, 1)})
    assert await code_of(harness.send(AT_2)) is ErrorCode.NONE
    assert two.requests[0].header.api_version == 1


async def test_each_broker_has_one_marker_request_in_flight(harness: Harness) -> None:
    harness.held = asyncio.Event()
    two = await harness.other(2, harness.answer)
    sent = [harness.send(AT_2)]
    await settle()
    sent += [harness.send(AT_2, TxnMarker(producer_id, 5, False, 9, 2)) for producer_id in (8, 9)]
    await settle()
    assert len(two.requests) == 1
    harness.held.set()
    assert [await code_of(each) for each in sent] == [ErrorCode.NONE] * 3
    assert [[marker.producer_id for marker in request.body.markers] for request in two.requests] == [[7], [8, 9]]


async def test_a_request_contains_each_producer_once(harness: Harness) -> None:
    two = await harness.other(2, harness.answer)
    sent = [harness.send(AT_2), harness.send(AT_2, TxnMarker(7, 6, False, 9, 2))]
    assert [await code_of(each) for each in sent] == [ErrorCode.NONE] * 2
    assert [[marker.producer_epoch for marker in request.body.markers] for request in two.requests] == [[5], [6]]


async def test_each_partition_gets_its_own_marker_error(harness: Harness) -> None:
    harness.moved(T, 2, 2)
    harness.codes[AT_2] = ErrorCode.TRANSACTION_COORDINATOR_FENCED
    await harness.other(2, harness.answer)
    sent = [harness.send(AT_2), harness.send(AT_3)]
    assert [await code_of(each) for each in sent] == [ErrorCode.TRANSACTION_COORDINATOR_FENCED, ErrorCode.NONE]


async def test_a_partition_missing_from_the_response_has_failed(harness: Harness) -> None:
    await harness.other(2, lambda _: WriteTxnMarkersResponse())
    assert await code_of(harness.send(AT_2)) is ErrorCode.UNKNOWN_SERVER_ERROR


async def test_a_marker_is_refused_without_a_leader_and_sent_to_a_new_one(harness: Harness) -> None:
    with pytest.raises(Rejected) as refused:
        harness.markers.send(NOWHERE, MARKER)
    assert refused.value.code is ErrorCode.LEADER_NOT_AVAILABLE
    harness.moved(T, 3, 2)
    await harness.other(2, harness.answer)
    assert await code_of(harness.send(NOWHERE)) is ErrorCode.NONE


async def test_an_unreachable_broker_fails_the_marker_with_a_network_error(harness: Harness) -> None:
    assert await code_of(harness.send(AT_2)) is ErrorCode.NETWORK_EXCEPTION
    await harness.other(3, lambda _: HANG_UP)
    assert await code_of(harness.send(AT_3)) is ErrorCode.NETWORK_EXCEPTION


async def test_stop_fails_pending_markers(harness: Harness) -> None:
    harness.held = asyncio.Event()
    await harness.other(2, harness.answer)
    sent = harness.send(AT_2)
    await settle()
    await harness.nursery.stop()
    assert await code_of(sent) is ErrorCode.NETWORK_EXCEPTION
