"""The persister on broker 1 of a cluster, with scripted other brokers."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from ottla.broker.cluster.metadata_records import NO_LEADER, PartitionRecord, TopicRecord
from ottla.broker.cluster.topic_names import SHARE_GROUP_STATE
from ottla.broker.core.rejected import Rejected
from ottla.broker.runtime.coordination.share_persister import ATTEMPTS, SharePersister
from ottla.broker.share.persister import ReadState, SharePartitionKey, StateBatch, StateSummary, WrittenState
from ottla.protocol.api_keys import ApiKey
from ottla.protocol.codec import Request
from ottla.protocol.error_codes import ErrorCode
from ottla.protocol.messages import k83_initialize_share_group_state as k83
from ottla.protocol.messages import k84_read_share_group_state as k84
from ottla.protocol.messages import k85_write_share_group_state as k85
from ottla.protocol.messages import k86_delete_share_group_state as k86
from ottla.protocol.messages import k87_read_share_group_state_summary as k87
from ottla.protocol.messages import share_state
from tests.support.answering_node import HANG_UP
from tests.support.other_brokers import BrokerOne
from tests.support.simulation import settle

STATE_TOPIC = b"s" * 16
TOPIC = b"t" * 16
KEY = SharePartitionKey("g", TOPIC, 0)
BATCH = StateBatch(3, 4, 2, 1)
WRITTEN = WrittenState(1, 2, 3, 4, [BATCH])
RESULTS: dict[int, Any] = {
    ApiKey.INITIALIZE_SHARE_GROUP_STATE: (k83.InitializeShareGroupStateResponse, share_state.StateResult, share_state.PartitionResult),
    ApiKey.READ_SHARE_GROUP_STATE: (k84.ReadShareGroupStateResponse, k84.ReadStateResult, k84.PartitionResult),
    ApiKey.WRITE_SHARE_GROUP_STATE: (k85.WriteShareGroupStateResponse, share_state.StateResult, share_state.PartitionResult),
    ApiKey.DELETE_SHARE_GROUP_STATE: (k86.DeleteShareGroupStateResponse, share_state.StateResult, share_state.PartitionResult),
    ApiKey.READ_SHARE_GROUP_STATE_SUMMARY: (k87.ReadShareGroupStateSummaryResponse, k87.ReadStateSummaryResult, k87.PartitionResult),
}
FIELDS: dict[int, dict[str, Any]] = {
    ApiKey.READ_SHARE_GROUP_STATE: {"state_epoch": 5, "start_offset": 3, "state_batches": [k84.StateBatch(*BATCH)]},
    ApiKey.READ_SHARE_GROUP_STATE_SUMMARY: {"state_epoch": 5, "leader_epoch": 2, "start_offset": 3, "delivery_complete_count": 4},
}
SERVED = {int(key): (0, 1 if key in {85, 87} else 0) for key in RESULTS}


class LocalShareCoordinator:
    """The share coordinator on broker 1. `codes` are the errors of its next calls."""

    def __init__(self) -> None:
        self.requests: list[tuple[Any, ...]] = []
        self.codes: list[ErrorCode] = []
        self.shards = self
        self.exist = True

    async def create_topic(self) -> None:
        self.exist = True

    def write(self, *arguments: Any) -> None:
        self.requests.append(arguments)
        if self.codes:
            raise Rejected(self.codes.pop(0))

    def summary(self, *arguments: Any) -> Any:
        self.requests.append(arguments)
        late: asyncio.Future[StateSummary] = asyncio.get_running_loop().create_future()
        late.set_result(StateSummary(9))
        return late


class Harness(BrokerOne):
    """The persister on broker 1. Broker 2 leads `__share_group_state-0` unless `leader` says otherwise."""

    def __init__(self, leader: int = 2) -> None:
        super().__init__()
        self.catalog.apply([TopicRecord(SHARE_GROUP_STATE, STATE_TOPIC), PartitionRecord(0, STATE_TOPIC, [1, 2], [1, 2], leader=leader)])
        self.local_coordinator = LocalShareCoordinator()
        self.codes: list[ErrorCode] = []
        local: Any = self.local_coordinator
        self.persister = SharePersister(local, self.catalog, 1, self.nursery, self.peers)

    async def answer(self, request: Request) -> Any:
        response, result, part = RESULTS[request.header.api_key]
        code = self.codes.pop(0) if self.codes else ErrorCode.NONE
        fields = FIELDS.get(request.header.api_key, {})
        return response(
            [result(topic.topic_id, [part(each.partition, code, **fields) for each in topic.partitions]) for topic in request.body.topics]
        )

    async def after(self, *pauses_ms: int) -> None:
        """Advance the time by each pause in turn, and run what is then due."""
        for pause_ms in pauses_ms:
            await settle()
            await self.pass_ms(pause_ms)
        await settle()


async def result(begun: Any) -> Any:
    return await begun if isinstance(begun, asyncio.Future) else begun


async def test_every_operation_reaches_another_brokers_coordinator() -> None:
    harness = Harness()
    coordinator = await harness.other(2, harness.answer, SERVED)
    persister = harness.persister
    assert await result(persister.initialize(KEY, 1, -1)) is None
    assert await result(persister.read(KEY, 6)) == ReadState(5, 3, [BATCH])
    assert await result(persister.write(KEY, WRITTEN)) is None
    assert await result(persister.summary(KEY)) == StateSummary(5, 2, 3, 4)
    assert await result(persister.delete(KEY)) is None
    bodies = [request.body for request in coordinator.requests]
    assert all((body.group_id, body.topics[0].topic_id) == ("g", TOPIC) for body in bodies)
    assert [body.topics[0].partitions[0] for body in bodies] == [
        k83.PartitionData(0, 1, -1),
        k84.PartitionData(0, 6),
        k85.PartitionData(0, 1, 2, 3, 4, [share_state.StateBatch(*BATCH)]),
        k87.PartitionData(0, -1),
        k86.PartitionData(0),
    ]


async def test_operations_that_wait_are_sent_in_one_request() -> None:
    harness = Harness()
    coordinator = await harness.other(2, harness.answer, SERVED)
    keys = [KEY._replace(partition=index) for index in range(4)] + [KEY, KEY._replace(group_id="h")]
    await asyncio.gather(*(result(harness.persister.write(key, WRITTEN)) for key in keys))
    sent = [(request.body.group_id, len(request.body.topics[0].partitions)) for request in coordinator.requests]
    assert sorted(sent) == [("g", 1), ("g", 4), ("h", 1)], "one group, and each share partition once"


async def test_a_local_coordinator_answers_in_the_same_turn() -> None:
    harness = Harness(leader=1)
    assert harness.persister.write(KEY, WRITTEN) is None
    assert await result(harness.persister.summary(KEY)) == StateSummary(9)
    assert len(harness.local_coordinator.requests) == 2


@pytest.mark.parametrize("code", [ErrorCode.NOT_COORDINATOR, ErrorCode.COORDINATOR_LOAD_IN_PROGRESS, ErrorCode.COORDINATOR_NOT_AVAILABLE])
async def test_retriable_coordinator_error_is_retried(code: ErrorCode) -> None:
    harness = Harness()
    harness.codes = [code, code]
    await harness.other(2, harness.answer, SERVED)
    written = harness.persister.write(KEY, WRITTEN)
    assert isinstance(written, asyncio.Future)
    await harness.after(100, 199)
    assert not written.done()
    await harness.after(1)
    assert await written is None
    local = Harness(leader=1)
    local.local_coordinator.codes = [code]
    written = local.persister.write(KEY, WRITTEN)
    await local.after(100)
    assert await result(written) is None


async def test_other_errors_are_final() -> None:
    harness = Harness(leader=1)
    harness.local_coordinator.codes = [ErrorCode.FENCED_STATE_EPOCH]
    with pytest.raises(Rejected) as fenced:
        harness.persister.write(KEY, WRITTEN)
    assert fenced.value.code is ErrorCode.FENCED_STATE_EPOCH
    remote = Harness()
    remote.codes = [ErrorCode.FENCED_LEADER_EPOCH]
    await remote.other(2, remote.answer, SERVED)
    with pytest.raises(Rejected) as fenced:
        await result(remote.persister.write(KEY, WRITTEN))
    assert fenced.value.code is ErrorCode.FENCED_LEADER_EPOCH


async def test_a_coordinator_that_stays_away_ends_the_attempts() -> None:
    harness = Harness(leader=NO_LEADER)
    written = harness.persister.write(KEY, WRITTEN)
    assert isinstance(written, asyncio.Future)
    await harness.after(*(100 << attempt for attempt in range(ATTEMPTS - 2)))
    assert not written.done()
    await harness.after(100 << ATTEMPTS - 2)
    with pytest.raises(Rejected) as failed:
        await written
    assert failed.value.code is ErrorCode.COORDINATOR_NOT_AVAILABLE


async def test_a_broken_connection_is_tried_again() -> None:
    harness = Harness()
    await harness.other(2, lambda _: HANG_UP, SERVED)
    written = harness.persister.write(KEY, WRITTEN)
    await settle()
    assert isinstance(written, asyncio.Future)
    assert not written.done()
    await harness.nursery.stop()
    assert written.done(), "nothing waits for a broker that has stopped"


async def test_the_first_operation_creates_the_topic() -> None:
    harness = Harness()
    harness.local_coordinator.exist = False
    await harness.other(2, harness.answer, SERVED)
    await result(harness.persister.write(KEY, WRITTEN))
    assert harness.local_coordinator.exist
