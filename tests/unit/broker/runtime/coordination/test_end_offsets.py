from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from ottla.broker.core.rejected import Rejected
from ottla.broker.runtime.coordination.end_offsets import EndOffsets
from ottla.protocol.api_keys import ApiKey
from ottla.protocol.codec import Request
from ottla.protocol.error_codes import ErrorCode
from ottla.protocol.messages.k02_list_offsets import ListOffsetsPartitionResponse, ListOffsetsResponse, ListOffsetsTopicResponse
from tests.support.answering_node import HANG_UP
from tests.support.other_brokers import BrokerOne, T

SERVED = {int(ApiKey.LIST_OFFSETS): (1, 11)}


class Harness(BrokerOne):
    def __init__(self) -> None:
        super().__init__()
        led: Any = SimpleNamespace(get=lambda *_: SimpleNamespace(log=SimpleNamespace(high_watermark=7)))
        self.end_offsets = EndOffsets(led, self.catalog, 1, self.peers)

    async def failure(self, topic_id: bytes, index: int) -> ErrorCode:
        with pytest.raises(Rejected) as refused:
            await self.end_offsets.of(topic_id, index)
        return refused.value.code


def answered(error: ErrorCode) -> Any:
    async def answer(_: Request) -> ListOffsetsResponse:
        return ListOffsetsResponse(topics=[ListOffsetsTopicResponse("t", [ListOffsetsPartitionResponse(1, error, offset=42)])])

    return answer


async def test_the_leader_knows_the_end_offset() -> None:
    harness = Harness()
    leader = await harness.other(2, answered(ErrorCode.NONE), SERVED)
    assert (await harness.end_offsets.of(T, 0), await harness.end_offsets.of(T, 1)) == (7, 42)
    (requested,) = leader.requests[0].body.topics[0].partitions
    assert (requested.partition_index, requested.timestamp) == (1, -1)


async def test_a_leader_that_does_not_know_it_is_an_error() -> None:
    harness = Harness()
    await harness.other(2, answered(ErrorCode.NOT_LEADER_OR_FOLLOWER), SERVED)
    await harness.other(3, lambda _: HANG_UP, SERVED)
    assert await harness.failure(T, 1) is ErrorCode.NOT_LEADER_OR_FOLLOWER
    assert await harness.failure(T, 2) is ErrorCode.NETWORK_EXCEPTION
    assert await harness.failure(T, 3) is ErrorCode.LEADER_NOT_AVAILABLE
    assert await harness.failure(T, 9) is ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    assert await harness.failure(bytes(16), 0) is ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
