"""The share coordinator's service over a partition in memory."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from types import SimpleNamespace
from typing import Any

import pytest

from ottla.broker.cluster.topic_names import SHARE_GROUP_STATE
from ottla.broker.core.clock import VirtualClock
from ottla.broker.core.log_config import LogConfig
from ottla.broker.core.rejected import Rejected
from ottla.broker.core.settings import BrokerSettings
from ottla.broker.core.timers import Timers
from ottla.broker.runtime.coordination.share_state_service import ShareStateService
from ottla.broker.runtime.upkeep.nursery import Nursery
from ottla.broker.share.persister import ReadState, SharePartitionKey, StateBatch, StateSummary, WrittenState
from ottla.protocol.error_codes import ErrorCode
from tests.support.memory_partition import MemoryPartition
from tests.support.simulation import settle

TOPIC = b"t" * 16
KEY, OTHER = SharePartitionKey("g", TOPIC, 0), SharePartitionKey("g", TOPIC, 1)


class Harness:
    """One partition of `__share_group_state`, a virtual clock, and the services that are started over it."""

    def __init__(self) -> None:
        self.clock = VirtualClock()
        self.partition = MemoryPartition()
        self.partition.topic = SHARE_GROUP_STATE
        self.exists = True
        self.deleted: list[int] = []
        self.partition.log.delete_records_before = self._delete  # type: ignore[attr-defined] # the log in memory deletes nothing
        self.partition.log.high_watermark = 1_000
        self.service = self.open()

    def _delete(self, offset: int) -> None:
        self.deleted.append(offset)
        self.partition.log.log_start_offset = offset

    def open(self) -> ShareStateService:
        self.timers = Timers()
        self.nursery = Nursery(self.timers, self.clock, pytest.fail)
        topic = SimpleNamespace(partitions=range(2))
        state = SimpleNamespace(partitions={0: self.partition})
        partitions: Any = SimpleNamespace(by_name=lambda _: state, get=lambda _, index: state.partitions[index])
        catalog: Any = SimpleNamespace(
            partition_count=lambda _: int(self.exists), topic_by_id=lambda topic_id: topic if topic_id == TOPIC else None
        )
        settings = BrokerSettings(share_coordinator_snapshot_update_records_per_snapshot=1)
        self.service = ShareStateService(settings, self.nursery, partitions, create_topic=self.create, catalog=catalog)
        return self.service

    async def create(self, name: str) -> None:
        assert name == SHARE_GROUP_STATE
        self.exists = True

    async def pass_ms(self, ms: int) -> None:
        self.clock.advance(ms)
        self.timers.run_due(self.clock.mono_ms())
        await settle()

    def write(self, *batches: StateBatch) -> asyncio.Future[None] | None:
        return self.service.write(KEY, WrittenState(1, 0, 0, 0, batches))


@pytest.fixture
async def harness() -> AsyncIterator[Harness]:
    made = Harness()
    yield made
    await made.nursery.stop()


async def test_state_is_loaded_by_the_next_service(harness: Harness) -> None:
    harness.service.initialize(KEY, 1, 0)
    harness.service.initialize(OTHER, 1, 7)
    harness.write(StateBatch(0, 3, 2, 1))
    harness.service.delete(OTHER)
    again = harness.open()
    await again.load()
    assert again.read(KEY, 0) == ReadState(1, 0, [StateBatch(0, 3, 2, 1)])
    assert again.summary(OTHER) == StateSummary()


async def test_a_write_waits_until_it_is_committed(harness: Harness) -> None:
    harness.service.initialize(KEY, 1, 0)
    harness.partition.holds_back = True
    written = harness.write()
    assert isinstance(written, asyncio.Future)
    read = harness.service.read(KEY, 0)
    assert isinstance(read, asyncio.Future), "a read may reveal uncommitted state"
    harness.partition.make_committed()
    assert await written is None
    assert (await read).state_epoch == 1


async def test_a_write_that_takes_too_long_fails(harness: Harness) -> None:
    harness.service.initialize(KEY, 1, 0)
    harness.partition.holds_back = True
    written = harness.write()
    assert isinstance(written, asyncio.Future)
    await harness.pass_ms(5_000)
    with pytest.raises(Rejected) as late:
        await written
    assert late.value.code is ErrorCode.COORDINATOR_NOT_AVAILABLE


async def test_superseded_records_are_deleted_at_intervals(harness: Harness) -> None:
    await harness.service.load()
    harness.service.initialize(KEY, 1, 0)
    for _ in range(4):
        harness.write()
    await harness.pass_ms(299_999)
    assert harness.deleted == []
    await harness.pass_ms(1)
    assert harness.deleted == [4], "the offset of the newest snapshot"


async def test_idle_share_partitions_get_snapshots_so_that_the_log_can_be_cut(harness: Harness) -> None:
    await harness.service.load()
    harness.service.initialize(KEY, 1, 0)
    harness.service.initialize(OTHER, 1, 0)
    for _ in range(4):
        harness.write()
    await harness.pass_ms(300_000)
    await harness.pass_ms(300_000)
    assert harness.deleted[-1] > 1


async def test_snapshots_of_idle_share_partitions_and_deletions_may_exceed_one_batch(harness: Harness) -> None:
    await harness.service.load()
    for key in (KEY, OTHER):
        harness.service.initialize(key, 1, 0)
    before = harness.partition.log.log_end_offset
    harness.partition.log.config = LogConfig(max_message_bytes=200)
    await harness.pass_ms(300_000)
    assert harness.partition.log.log_end_offset == before + 2
    harness.partition.log.config = LogConfig(max_message_bytes=140)
    harness.service.forget_topic(TOPIC)
    assert [harness.service.summary(key) for key in (KEY, OTHER)] == [StateSummary(), StateSummary()]


async def test_a_deleted_topic_loses_its_state(harness: Harness) -> None:
    harness.service.initialize(KEY, 1, 0)
    harness.service.forget_topic(TOPIC)
    assert harness.service.summary(KEY) == StateSummary()


async def test_without_the_state_topic_this_broker_coordinates_nothing(harness: Harness) -> None:
    harness.exists = False
    with pytest.raises(Rejected) as refused:
        harness.service.summary(KEY)
    assert refused.value.code is ErrorCode.NOT_COORDINATOR
    harness.service.stop()
