from __future__ import annotations

import asyncio
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from ottla.broker.core.clock import VirtualClock
from ottla.broker.core.timers import Timers
from ottla.broker.replication.brokers import BrokerLiveness, Brokers
from ottla.broker.replication.leadership import Registration
from ottla.broker.replication.progress import FollowerFetch
from ottla.broker.runtime.nodes.controller_channel import ControllerUnreachable
from ottla.broker.runtime.replicas.alter_partition_manager import RETRY_MS, AlterPartitionManager
from ottla.broker.runtime.replicas.partition import ClusterContext
from ottla.broker.runtime.upkeep.nursery import Nursery
from ottla.protocol.error_codes import ErrorCode
from ottla.protocol.messages.k56_alter_partition import AlterPartitionRequest, AlterPartitionResponse, PartitionResult, TopicResult
from ottla.protocol.schema import Message
from tests.support.partition_logs import TOPIC_ID, PartitionHarness, one_batch
from tests.support.simulation import settle

LAG_MS = 1000


class ControllerRequests:
    """The requests to the controller, which the test answers."""

    def __init__(self) -> None:
        self.requests: list[AlterPartitionRequest] = []
        self.answers: list[asyncio.Future[Any]] = []

    async def call(self, request: Message) -> Any:
        assert isinstance(request, AlterPartitionRequest)
        self.requests.append(request)
        self.answers.append(asyncio.get_running_loop().create_future())
        return await self.answers[-1]


class Leader:
    """Broker 1, which leads `t-0` and `t-1`; broker 2 is in sync."""

    def __init__(self, path: Path) -> None:
        self.clock = VirtualClock()
        self.timers = Timers()
        self.nursery = Nursery(self.timers, self.clock, lambda _: None)
        self.channel = ControllerRequests()
        self.brokers = Brokers(own_epoch=11)
        self.brokers.liveness = {1: BrokerLiveness(11), 2: BrokerLiveness(12)}
        self.proposals = AlterPartitionManager(self.channel, 1, self.brokers, self.nursery)
        context = ClusterContext(self.brokers, self.proposals.submit, lambda *_: True, LAG_MS)
        self.harness = PartitionHarness(path, self.clock, partitions=2, context=context)
        self.partitions = [self.harness.partitions.get("t", index) for index in (0, 1)]
        for partition in self.partitions:
            partition.lead(Registration(1, (1, 2), (1, 2), 5, 8))

    async def lag(self, index: int) -> None:
        """Let broker 2 lag in the partition, and wait for the leader's proposal."""
        partition = self.partitions[index]
        partition.append(one_batch())
        await self.wait(LAG_MS + 1)
        partition.maybe_shrink_isr()
        await settle()

    async def wait(self, ms: int) -> None:
        self.clock.advance(ms)
        self.timers.run_due(self.clock.mono_ms())
        await settle()

    async def answer(self, *results: PartitionResult, error: ErrorCode = ErrorCode.NONE) -> None:
        self.channel.answers[-1].set_result(AlterPartitionResponse(0, error, [TopicResult(TOPIC_ID, list(results))]))
        await settle()

    def in_sync(self, index: int) -> set[int]:
        return set(self.partitions[index].replica.leadership.in_sync.committed)

    @property
    def requested_partitions(self) -> list[list[int]]:
        """Return the partition indexes in each request."""
        return [[data.partition_index for topic in request.topics for data in topic.partitions] for request in self.channel.requests]


@pytest.fixture
def leader(tmp_path: Path) -> Iterator[Leader]:
    made = Leader(tmp_path / "data")
    yield made
    made.harness.close()


def accepted(index: int, *isr: int, partition_epoch: int = 9) -> PartitionResult:
    return PartitionResult(index, 0, 1, 5, list(isr), 0, partition_epoch)


async def test_alter_partition_request_has_broker_leader_and_partition_epochs(leader: Leader) -> None:
    await leader.lag(0)
    request = leader.channel.requests[0]
    data = request.topics[0].partitions[0]
    assert (request.broker_id, request.broker_epoch, request.topics[0].topic_id) == (1, 11, TOPIC_ID)
    assert (data.leader_epoch, data.partition_epoch, data.new_isr) == (5, 8, [1])
    assert [(state.broker_id, state.broker_epoch) for state in data.new_isr_with_epochs] == [(1, 11)]
    await leader.answer(accepted(0, 1))
    assert (leader.in_sync(0), leader.partitions[0].log.high_watermark) == ({1}, 1)


async def test_one_request_is_in_flight_and_the_next_has_all_newer_proposals(leader: Leader) -> None:
    await leader.lag(0)
    await leader.lag(1)
    assert leader.requested_partitions == [[0]]
    await leader.answer(accepted(0, 1))
    assert leader.requested_partitions == [[0], [1]]
    await leader.answer(accepted(1, 1))
    assert leader.requested_partitions == [[0], [1]]


async def test_top_level_error_is_retried_after_a_pause(leader: Leader) -> None:
    await leader.lag(0)
    await leader.answer(error=ErrorCode.STALE_BROKER_EPOCH)
    assert leader.requested_partitions == [[0]]
    leader.brokers.own_epoch = 21
    await leader.wait(RETRY_MS)
    assert leader.requested_partitions == [[0], [0]]
    assert leader.channel.requests[1].broker_epoch == 21


async def test_unreachable_controller_is_retried(leader: Leader) -> None:
    await leader.lag(0)
    leader.channel.answers[0].set_exception(ControllerUnreachable("gone"))
    await settle()
    await leader.wait(RETRY_MS)
    await leader.answer(accepted(0, 1))
    assert (leader.requested_partitions, leader.in_sync(0)) == ([[0], [0]], {1})


async def test_partition_missing_from_the_response_or_with_a_retriable_error_is_sent_again(leader: Leader) -> None:
    await leader.lag(0)
    await leader.lag(1)
    await leader.answer()
    await leader.wait(RETRY_MS)
    assert leader.requested_partitions == [[0], [0, 1]]
    await leader.answer(PartitionResult(0, ErrorCode.UNKNOWN_SERVER_ERROR), accepted(1, 1))
    await leader.wait(RETRY_MS)
    assert leader.requested_partitions == [[0], [0, 1], [0]]


async def test_error_code_of_a_newer_controller_is_retried(leader: Leader) -> None:
    await leader.lag(0)
    await leader.answer(PartitionResult(0, 9999))
    await leader.wait(RETRY_MS)
    leader.channel.answers[-1].set_result(AlterPartitionResponse(0, 9999))
    await settle()
    await leader.wait(RETRY_MS)
    await leader.answer(accepted(0, 1))
    assert (leader.requested_partitions, leader.in_sync(0)) == ([[0], [0], [0]], {1})


@pytest.mark.parametrize("error", [ErrorCode.INVALID_UPDATE_VERSION, ErrorCode.INELIGIBLE_REPLICA])
async def test_final_error_is_not_retried(leader: Leader, error: ErrorCode) -> None:
    await leader.lag(0)
    await leader.answer(PartitionResult(0, error))
    await leader.wait(RETRY_MS)
    assert (leader.requested_partitions, leader.in_sync(0)) == ([[0]], {1, 2})


async def test_proposal_overtaken_by_metadata_is_dropped(leader: Leader) -> None:
    """KAFKA-14154 and KAFKA-14144, scenarios 24 and 25: the response of a controller that was replaced comes too late."""
    await leader.lag(0)
    leader.partitions[0].lead(Registration(1, (1, 2), (1, 2), 5, 10))
    await leader.answer(accepted(0, 1))
    await leader.wait(RETRY_MS)
    assert (leader.requested_partitions, leader.in_sync(0)) == ([[0]], {1, 2})


async def test_joining_replica_is_proposed_with_its_fetches_broker_epoch(leader: Leader) -> None:
    """KIP-903: an ISR proposal names each new member with the broker epoch of its fetch."""
    partition = leader.partitions[0]
    partition.lead(Registration(1, (1, 2), (1,), 5, 9))
    partition.fetched(FollowerFetch(2, 0, 0, broker_epoch=12, leader_epoch=5), 0)
    await settle()
    states = leader.channel.requests[0].topics[0].partitions[0].new_isr_with_epochs
    assert [(state.broker_id, state.broker_epoch) for state in states] == [(1, 11), (2, 12)]


async def test_no_proposal_is_sent_after_a_stop(leader: Leader) -> None:
    await leader.lag(0)
    await leader.nursery.stop()
    await leader.wait(RETRY_MS)
    assert leader.requested_partitions == [[0]]


async def test_proposal_made_during_an_older_proposals_response_is_sent_next(leader: Leader) -> None:
    await leader.lag(0)
    leader.partitions[0].lead(Registration(1, (1, 2), (1, 2), 5, 9))
    leader.partitions[0].maybe_shrink_isr()
    await leader.answer(PartitionResult(0, ErrorCode.INVALID_UPDATE_VERSION))
    await leader.wait(RETRY_MS)
    assert leader.requested_partitions == [[0], [0]]
    await leader.answer(accepted(0, 1, partition_epoch=10))
    assert leader.in_sync(0) == {1}
