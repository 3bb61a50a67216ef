"""The service of share groups over a partition in memory and a persister that fails when the test says so."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from types import SimpleNamespace
from typing import Any

import pytest

from ottla.broker.core.clock import VirtualClock
from ottla.broker.core.rejected import Rejected
from ottla.broker.core.settings import BrokerSettings
from ottla.broker.core.timers import Timers
from ottla.broker.groups.share_heartbeat import ShareHeartbeat
from ottla.broker.runtime.coordination.group_service import GroupService
from ottla.broker.runtime.coordination.share_group_service import DescribedOffset, ShareGroupService
from ottla.broker.runtime.upkeep.nursery import Nursery
from ottla.broker.share.persister import SharePartitionKey, StateSummary
from ottla.protocol.error_codes import ErrorCode
from tests.support.consumer_groups import FakeTopics, topic_id
from tests.support.memory_partition import MemoryPartition
from tests.support.simulation import settle

T = topic_id("t")


class States:
    """A persister in memory. Operations for the partitions in `failing` are rejected."""

    def __init__(self) -> None:
        self.failing: set[int] = set()
        self.states: dict[SharePartitionKey, StateSummary] = {}

    def _check(self, key: SharePartitionKey) -> None:
        if key.partition in self.failing:
            raise Rejected(ErrorCode.COORDINATOR_NOT_AVAILABLE)

    def initialize(self, key: SharePartitionKey, state_epoch: int, start_offset: int) -> None:
        self._check(key)
        self.states[key] = StateSummary(state_epoch, 0, start_offset, -1 if start_offset < 0 else 0)

    def delete(self, key: SharePartitionKey) -> None:
        self._check(key)
        self.states.pop(key, None)

    def summary(self, key: SharePartitionKey) -> StateSummary:
        self._check(key)
        return self.states.get(key, StateSummary())


class SlowStates(States):
    """A persister whose operations take effect one by one, when the test calls `complete`; by default the oldest one."""

    def __init__(self) -> None:
        super().__init__()
        self.waiting: list[tuple[Callable[[], None], asyncio.Future[None]]] = []

    def _later(self, operation: Callable[[], None]) -> asyncio.Future[None]:
        done: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self.waiting.append((operation, done))
        return done

    def initialize(self, key: SharePartitionKey, state_epoch: int, start_offset: int) -> Any:
        return self._later(lambda: States.initialize(self, key, state_epoch, start_offset))

    def delete(self, key: SharePartitionKey) -> Any:
        return self._later(lambda: States.delete(self, key))

    async def complete(self, *, newest: bool = False) -> None:
        """Let all operations that wait now take effect. With `newest`, let only the newest two do so."""
        chosen = self.waiting[-2:] if newest else self.waiting[:]
        for operation, done in chosen:
            self.waiting.remove((operation, done))
            operation()
            done.set_result(None)
        await settle()


class EndAt10:
    async def of(self, topic: bytes, index: int) -> int:
        return 10


class Harness:
    def __init__(self, states: States | None = None) -> None:
        self.clock = clock = VirtualClock()
        partition = MemoryPartition()
        self.nursery = Nursery(Timers(), clock, pytest.fail)
        topic = SimpleNamespace(partitions={0: partition})
        partitions: Any = SimpleNamespace(by_name=lambda _: topic, get=lambda _, index: topic.partitions[index])
        cluster: Any = FakeTopics(t=2)
        cluster.partition_count = lambda _: 1
        settings = BrokerSettings(group_share_assignment_interval_ms=0)

        async def exists(_: str) -> None: ...

        self.groups = GroupService(settings, self.nursery, partitions, exists, cluster=cluster)
        self.states = states or States()
        persister: Any = self.states
        end_offsets: Any = EndAt10()
        self.service = ShareGroupService(self.groups, persister, end_offsets, self.nursery)

    async def beat(self, epoch: int = 0) -> int:
        """Send a heartbeat, wait until the partitions that it adds are initialized, and return the member's epoch."""
        names = frozenset({"t"}) if epoch == 0 else None
        answer: Any = self.service.heartbeat(ShareHeartbeat(group_id="g", member_id="m", epoch=epoch, topic_names=names))
        await settle()
        return int(answer.epoch)


@pytest.fixture
async def harness() -> AsyncIterator[Harness]:
    made = Harness()
    yield made
    await made.nursery.stop()


async def test_a_heartbeat_begins_the_initialization_of_new_partitions(harness: Harness) -> None:
    epoch = await harness.beat()
    assert {key.partition for key in harness.states.states} == {0, 1}
    assert harness.service.initialized_partitions("g") == {T: [0, 1]}
    assert await harness.beat(epoch) == epoch + 1, "they are assigned"


async def test_an_initialization_that_fails_is_begun_again_by_the_next_heartbeat(harness: Harness) -> None:
    harness.states.failing = {1}
    epoch = await harness.beat()
    assert harness.service.initialized_partitions("g") == {}
    harness.states.failing = set()
    await harness.beat(epoch)
    assert harness.service.initialized_partitions("g") == {T: [0, 1]}


async def test_altered_offsets_have_a_failure_for_each_partition(harness: Harness) -> None:
    harness.states.failing = {1}
    failures = await harness.service.alter_offsets("g", {(T, 0): 4, (T, 1): 5})
    assert {found: failure.code for found, failure in failures.items()} == {(T, 1): ErrorCode.COORDINATOR_NOT_AVAILABLE}
    described = await harness.service.describe_offsets("g", {T: [0, 1]})
    assert described == {T: [DescribedOffset(0, 4, lag=6), DescribedOffset(1)]}


async def test_offsets_that_cannot_be_deleted_stay(harness: Harness) -> None:
    await harness.beat()
    await harness.beat(-1)
    harness.states.failing = {0}
    results, unknown = await harness.service.delete_offsets("g", ["t", "u"])
    failure = results[T]
    assert failure is not None
    assert (failure.code, unknown) == (ErrorCode.COORDINATOR_NOT_AVAILABLE, ["u"])
    harness.states.failing = set()
    assert (await harness.service.delete_offsets("g", ["t"]))[0] == {T: None}


async def test_a_group_whose_state_cannot_be_deleted_stays(harness: Harness) -> None:
    await harness.beat()
    await harness.beat(-1)
    harness.states.failing = {0}
    with pytest.raises(Rejected):
        await harness.service.delete_group("g")
    assert harness.service.has("g")
    harness.states.failing = set()
    await harness.service.delete_group("g")
    assert (harness.service.has("g"), harness.states.states) == (False, {})


@pytest.fixture
async def slow() -> AsyncIterator[tuple[Harness, SlowStates]]:
    states = SlowStates()
    made = Harness(states)
    yield made, states
    await made.nursery.stop()


async def test_a_slow_initialization_is_not_repeated_after_it_has_succeeded(slow: tuple[Harness, SlowStates]) -> None:
    harness, states = slow
    epoch = await harness.beat()
    harness.clock.advance(30_000)
    epoch = await harness.beat(epoch)
    await states.complete(newest=True)
    assert harness.service.initialized_partitions("g") == {T: [0, 1]}
    read_to_7 = {SharePartitionKey("g", T, index): StateSummary(1, 0, 7, 0) for index in (0, 1)}
    states.states.update(read_to_7)
    await states.complete()
    assert states.states == read_to_7


async def test_a_slow_change_of_offsets_is_not_undone_by_an_initialization(slow: tuple[Harness, SlowStates]) -> None:
    harness, states = slow
    change = asyncio.ensure_future(harness.service.alter_offsets("g", {(T, 0): 4, (T, 1): 5}))
    await settle()
    harness.clock.advance(30_000)
    await harness.beat()
    assert len(states.waiting) == 2, "the heartbeat begins no other initialization"
    await states.complete()
    assert await change == {}
    assert {key.partition: state.start_offset for key, state in states.states.items()} == {0: 4, 1: 5}
    assert harness.service.initialized_partitions("g") == {T: [0, 1]}


async def test_a_member_that_joins_during_a_deletion_has_its_partitions_initialized_afterwards(slow: tuple[Harness, SlowStates]) -> None:
    harness, states = slow
    await harness.beat()
    await states.complete()
    await harness.beat(-1)
    deletion = asyncio.ensure_future(harness.service.delete_group("g"))
    await settle()
    await harness.beat()
    await states.complete(newest=True)
    await states.complete()
    await states.complete()
    with pytest.raises(Rejected) as refused:
        await deletion
    assert refused.value.code is ErrorCode.NON_EMPTY_GROUP
    assert harness.service.initialized_partitions("g") == {T: [0, 1]}
    assert len(states.states) == 2, "they have state"
