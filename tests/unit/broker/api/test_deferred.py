from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable
from pathlib import Path
from typing import Any

import pytest

from ottla.broker.api.deferred import respond_when_all_ready, respond_when_ready
from ottla.broker.app import Broker
from ottla.broker.cluster.topic_names import CONSUMER_OFFSETS, TRANSACTION_STATE
from ottla.broker.core.rejected import Rejected
from ottla.broker.core.settings_load import load
from ottla.broker.environment import Environment
from ottla.broker.faults.engine import Faults
from ottla.broker.replication.leadership import Registration
from ottla.protocol.client import Client
from ottla.protocol.error_codes import ErrorCode
from ottla.protocol.messages.k08_offset_commit import OffsetCommitRequest, OffsetCommitRequestPartition, OffsetCommitRequestTopic
from ottla.protocol.messages.k10_find_coordinator import FindCoordinatorRequest
from ottla.protocol.messages.k22_init_producer_id import InitProducerIdRequest
from ottla.protocol.messages.k68_consumer_group_heartbeat import ConsumerGroupHeartbeatRequest
from tests.support.slow_disk import SlowDisk
from tests.support.topic_calls import create

LOST = Rejected(ErrorCode.NOT_COORDINATOR)


def ask(answer: int | asyncio.Future[int]) -> str | Awaitable[str]:
    return respond_when_ready(lambda: answer, str, lambda rejected: rejected.code.name)


def refusing() -> int:
    raise LOST


def test_an_available_result_is_answered_at_once() -> None:
    assert ask(1) == "1"
    assert respond_when_ready(refusing, str, lambda rejected: rejected.code.name) == "NOT_COORDINATOR"


@pytest.mark.parametrize("lost", [False, True])
async def test_a_later_result_is_answered_or_rejected_in_the_same_way(lost: bool) -> None:
    future: asyncio.Future[int] = asyncio.get_running_loop().create_future()
    answer = ask(future)
    assert isinstance(answer, Awaitable)
    if lost:
        future.set_exception(LOST)
    else:
        future.set_result(1)
    assert await answer == ("NOT_COORDINATOR" if lost else "1")


async def test_several_results_are_answered_in_order() -> None:
    futures: list[asyncio.Future[int]] = [asyncio.get_running_loop().create_future() for _ in range(2)]
    answer = respond_when_all_ready([ask(futures[0]), ask(2), ask(futures[1])], "/".join)
    futures[1].set_exception(LOST)
    futures[0].set_result(1)
    assert isinstance(answer, Awaitable)
    assert await answer == "1/2/NOT_COORDINATOR"
    assert respond_when_all_ready([ask(1), ask(2)], "/".join) == "1/2"


COMMIT = OffsetCommitRequest("g", topics=[OffsetCommitRequestTopic("t", partitions=[OffsetCommitRequestPartition(0, 5)])])
BEAT = ConsumerGroupHeartbeatRequest("g", "m", 0, rebalance_timeout_ms=1_000, subscribed_topic_names=["t"], topic_partitions=[])
INIT = InitProducerIdRequest("tx", 60_000)


@pytest.fixture
async def disk() -> AsyncIterator[SlowDisk]:
    made = SlowDisk()
    yield made
    made.gate.release(1000)


@pytest.fixture
async def broker(tmp_path: Path, disk: SlowDisk) -> AsyncIterator[Broker]:
    """A broker that syncs after every record, on a disk whose syncs wait until the test releases them."""
    of_one = {"offsets.topic.num.partitions": "1", "transaction.state.log.num.partitions": "1", "log.flush.interval.messages": "1"}
    wanted = {"log.dir": str(tmp_path / "data"), "listeners": "PLAINTEXT://127.0.0.1:0", **of_one}
    broker = Broker(load(wanted, {}, None).settings, Faults(), Environment(files=disk), exit_now=pytest.fail)
    await broker.start()
    yield broker
    disk.gate.release(1000)
    await broker.stop()


def prepare(client: Client) -> None:
    """Create the topics, and let the broker allocate a block of producer ids."""
    create(client, "t")
    for key_type, key in enumerate(("g", "tx")):
        client.call(FindCoordinatorRequest(key_type=key_type, coordinator_keys=[key]), version=4)
    client.call(InitProducerIdRequest(None, 60_000), version=4)


@pytest.mark.parametrize(
    ("request_", "version", "topic"), [(COMMIT, 8, CONSUMER_OFFSETS), (BEAT, 1, CONSUMER_OFFSETS), (INIT, 4, TRANSACTION_STATE)]
)
async def test_a_write_that_is_lost_to_another_leader_makes_the_client_find_its_coordinator_again(
    broker: Broker, disk: SlowDisk, request_: Any, version: int, topic: str
) -> None:
    with Client(*broker.address) as client:
        await asyncio.to_thread(prepare, client)
        partition = broker.services.partitions.get(topic, 0)
        disk.arm()
        answer = asyncio.create_task(asyncio.to_thread(client.call, request_, version))
        async with asyncio.timeout(10):
            while not broker.waiting_requests:  # noqa: ASYNC110 # it arrives over a socket
                await asyncio.sleep(0)
        partition.follow(Registration(2, (1, 2), (1, 2), partition.leader_epoch + 1, 1))
        response: Any = await answer
    result = response.topics[0].partitions[0] if request_ is COMMIT else response
    assert ErrorCode(result.error_code) is ErrorCode.NOT_COORDINATOR
