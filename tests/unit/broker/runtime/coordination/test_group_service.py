"""The group service over partitions in memory: pending responses as futures, timers, failed and slow writes."""

from __future__ import annotations

import asyncio
import os
from types import SimpleNamespace
from typing import Any

import pytest

from ottla.broker.cluster.topic_names import CONSUMER_OFFSETS
from ottla.broker.core import limits
from ottla.broker.core.clock import VirtualClock
from ottla.broker.core.log_config import LogConfig
from ottla.broker.core.rejected import Rejected
from ottla.broker.core.settings import BrokerSettings
from ottla.broker.core.timers import Timers
from ottla.broker.groups.classic import LeavingMember, SyncRequest
from ottla.broker.groups.consumer import ConsumerGroup
from ottla.broker.groups.consumer_heartbeat import Heartbeat, HeartbeatResult
from ottla.broker.groups.coordinator import Commit, OffsetToCommit
from ottla.broker.groups.results import JoinGroupResult, SyncGroupResult
from ottla.broker.groups.states import ClassicState
from ottla.broker.runtime.coordination.group_service import GroupService, new_member_id
from ottla.broker.runtime.coordination.shards import LOAD_BEFORE_SERVING_MS
from ottla.broker.runtime.upkeep.nursery import Nursery
from ottla.broker.txns.txn_marker import TxnMarker
from ottla.protocol.error_codes import ErrorCode
from tests.support.classic_groups import join_request
from tests.support.memory_partition import MemoryPartition
from tests.support.simulation import settle


class Harness:
    """One partition of `__consumer_offsets`, a virtual clock, and services that are started and stopped over it."""

    def __init__(self) -> None:
        self.clock = VirtualClock()
        self.timers = Timers()
        self.partition = MemoryPartition()
        self.topic: SimpleNamespace | None = SimpleNamespace(partitions={0: self.partition}, count=1)
        self.service = self.open()

    def open(self, chunk_bytes: int = 5_000_000) -> GroupService:
        self.timers = Timers()
        self.nursery = Nursery(self.timers, self.clock, lambda _: None)
        registry = SimpleNamespace(
            by_name=lambda name: self.topic if name == CONSUMER_OFFSETS else None,
            get=lambda name, index: self.topic.partitions[index],
        )
        partitions: Any = registry
        cluster: Any = SimpleNamespace(
            partition_count=lambda _: 0 if self.topic is None else len(self.topic.partitions),
            by_name=lambda _: None,
            by_id=lambda _: None,
            names=lambda: ["t1", "u"],
            version=0,
            creation_version=0,
        )
        self.service = GroupService(
            BrokerSettings(offsets_load_buffer_size=chunk_bytes),
            self.nursery,
            partitions,
            self.create,
            cluster=cluster,
        )
        return self.service

    async def two_partitions(self) -> GroupService:
        """Return a service over two partitions, with the committed offset of one group in each."""
        partitions = {0: self.partition, 1: MemoryPartition()}
        partitions[1].index = 1
        self.topic = SimpleNamespace(partitions=partitions, count=2)
        service = self.open()
        await service.load()
        for group_id in ("g", "h"):
            service.commit(Commit(group_id=group_id, offsets=[OffsetToCommit("t", 0, 5)]))
        return service

    async def create(self, name: str) -> None:
        assert name == CONSUMER_OFFSETS
        self.topic = SimpleNamespace(partitions={0: self.partition}, count=1)

    def tick(self, ms: int) -> None:
        """Advance the clock and run the timers that are due, but no task."""
        self.clock.advance(ms)
        self.timers.run_due(self.clock.mono_ms())

    async def pass_ms(self, ms: int) -> None:
        self.tick(ms)
        await settle()

    def join(self, member_id: str = "", new_member_id: str = "m", **changes: object) -> JoinGroupResult | asyncio.Future[JoinGroupResult]:
        return self.service.join("g", join_request(member_id=member_id, new_member_id=new_member_id, **changes))

    def sync(self, member_id: str, generation: int) -> SyncGroupResult | asyncio.Future[SyncGroupResult]:
        return self.service.sync("g", SyncRequest(member_id=member_id, generation=generation, assignments={member_id: b"x"}))

    def stable(self) -> None:
        self.join()
        self.sync("m", 1)

    def commit(self, offset: int) -> list[ErrorCode] | asyncio.Future[list[ErrorCode]]:
        return self.service.commit(Commit(group_id="h", offsets=[OffsetToCommit("t", 0, offset)]))

    def state(self) -> ClassicState:
        group = self.service.get("g")
        assert group is not None
        return group.state


@pytest.fixture
async def harness() -> Harness:
    return Harness()


async def test_a_response_without_a_wait_needs_no_future(harness: Harness) -> None:
    joined = harness.join()
    assert isinstance(joined, JoinGroupResult)
    assert joined.generation == 1
    assert harness.sync("m", 1) == SyncGroupResult(protocol_type="consumer", protocol_name="range", assignment=b"x")
    assert harness.service.heartbeat("g", "m", None, 1) is ErrorCode.NONE


async def test_a_join_that_waits_is_answered_when_the_others_have_joined(harness: Harness) -> None:
    harness.stable()
    waiting = harness.join(new_member_id="n")
    assert isinstance(waiting, asyncio.Future)
    assert isinstance(harness.join("m"), JoinGroupResult)
    assert (await waiting).generation == 2


async def test_a_waiting_client_that_disconnected_is_skipped(harness: Harness) -> None:
    harness.stable()
    gone = harness.join(new_member_id="n")
    assert isinstance(gone, asyncio.Future)
    gone.cancel()
    assert isinstance(harness.join("m"), JoinGroupResult)


async def test_an_assignment_that_exceeds_max_message_bytes_starts_another_rebalance(harness: Harness) -> None:
    await harness.service.load()
    harness.partition.log.config = LogConfig(max_message_bytes=1_000)
    harness.join()
    answer = harness.service.sync("g", SyncRequest(member_id="m", generation=1, assignments={"m": bytes(1_000)}))
    assert isinstance(answer, SyncGroupResult)
    assert answer.error is ErrorCode.UNKNOWN_SERVER_ERROR
    assert harness.state() is ClassicState.PREPARING_REBALANCE


async def test_a_silent_member_is_removed_when_its_session_expires(harness: Harness) -> None:
    harness.stable()
    await harness.pass_ms(9_000)
    harness.service.heartbeat("g", "m", None, 1)
    await harness.pass_ms(9_999)
    assert harness.state() is ClassicState.STABLE
    await harness.pass_ms(1)
    assert harness.state() is ClassicState.EMPTY


async def test_a_group_has_at_most_one_timer_however_many_heartbeats_come(harness: Harness) -> None:
    harness.stable()
    for _ in range(100):
        await harness.pass_ms(50)
        harness.service.heartbeat("g", "m", None, 1)
    assert len(harness.timers) == 1


async def test_a_failed_write_of_the_assignment_fails_the_sync_and_rebalances(harness: Harness) -> None:
    harness.join()
    harness.partition.refusal = Rejected(ErrorCode.KAFKA_STORAGE_ERROR)
    assert harness.sync("m", 1) == SyncGroupResult(error=ErrorCode.NOT_COORDINATOR)
    assert harness.service.heartbeat("g", "m", None, 1) is ErrorCode.REBALANCE_IN_PROGRESS
    harness.partition.refusal = None
    again = harness.join("m")
    assert isinstance(again, JoinGroupResult)
    assert again.generation == 2


async def test_an_assignment_is_returned_when_it_is_durable(harness: Harness) -> None:
    harness.join()
    harness.partition.holds_back = True
    waiting = harness.sync("m", 1)
    assert isinstance(waiting, asyncio.Future)
    harness.partition.make_committed()
    assert (await waiting).assignment == b"x"


async def test_a_lost_assignment_is_answered_not_coordinator(harness: Harness) -> None:
    harness.join()
    harness.partition.holds_back = True
    waiting = harness.sync("m", 1)
    assert isinstance(waiting, asyncio.Future)
    harness.partition.lose(Rejected(ErrorCode.NOT_LEADER_OR_FOLLOWER))
    assert (await waiting).error is ErrorCode.NOT_COORDINATOR


async def test_a_commit_is_acknowledged_when_it_is_durable_and_a_fetch_waits_behind_it(harness: Harness) -> None:
    harness.partition.holds_back = True
    committed = harness.commit(5)
    fetched = harness.service.fetch("h", [("t", [0])], require_stable=False)
    assert isinstance(committed, asyncio.Future)
    assert isinstance(fetched, asyncio.Future)
    harness.partition.make_committed()
    assert await committed == [ErrorCode.NONE]
    assert (await fetched)[0][1][0].offset == 5


async def test_an_append_error_of_a_commit_becomes_a_coordinator_error(harness: Harness) -> None:
    harness.partition.refusal = Rejected(ErrorCode.NOT_LEADER_OR_FOLLOWER)
    with pytest.raises(Rejected) as refused:
        harness.commit(5)
    assert refused.value.code is ErrorCode.NOT_COORDINATOR


async def test_groups_and_sessions_are_restored_from_the_log(harness: Harness) -> None:
    harness.stable()
    harness.commit(5)
    harness.open()
    await harness.service.load()
    assert harness.service.heartbeat("g", "m", None, 1) is ErrorCode.NONE
    fetched = harness.service.fetch("h", [("t", [0])], require_stable=False)
    assert isinstance(fetched, list)
    assert fetched[0][1][0].offset == 5
    await harness.pass_ms(10_000)
    assert harness.state() is ClassicState.EMPTY


async def test_heartbeats_succeed_while_groups_are_loading(harness: Harness) -> None:
    harness.stable()
    harness.commit(5)
    load = asyncio.ensure_future(harness.open(chunk_bytes=1).load())
    await asyncio.sleep(0)
    assert not load.done()
    for refused in (harness.join, lambda: harness.commit(6), lambda: list(harness.service.all_groups())):
        with pytest.raises(Rejected) as refusal:
            refused()
        assert refusal.value.code is ErrorCode.COORDINATOR_LOAD_IN_PROGRESS
    assert harness.service.heartbeat("g", "stranger", None, 9) is ErrorCode.NONE
    await load
    assert {group.group_id for group in harness.service.all_groups()} == {"g", "h"}


async def test_a_marker_waits_until_its_offsets_are_loaded(harness: Harness) -> None:
    commit = Commit(group_id="g", transactional=True, offsets=[OffsetToCommit("t", 0, 7)])
    assert harness.service.commit_transactional(commit, 5, 0, None) == [ErrorCode.NONE]
    load = asyncio.ensure_future(harness.open(chunk_bytes=1).load())
    with pytest.raises(Rejected) as refused:
        harness.service.write_marker(0, TxnMarker(5, 0, True, 0, 0))
    assert refused.value.code is ErrorCode.NOT_LEADER_OR_FOLLOWER
    await load
    harness.service.write_marker(0, TxnMarker(5, 0, True, 0, 0))
    fetched = harness.service.fetch("g", [("t", [0])], require_stable=True)
    assert isinstance(fetched, list)
    assert fetched[0][1][0].offset == 7


def test_refused_transactional_offsets_are_not_pending(harness: Harness) -> None:
    commit = Commit(group_id="g", transactional=True, offsets=[OffsetToCommit("t", 0, 7)])
    harness.partition.refusal = Rejected(ErrorCode.KAFKA_STORAGE_ERROR)
    with pytest.raises(Rejected) as refused:
        harness.service.commit_transactional(commit, 5, 0, None)
    assert refused.value.code is ErrorCode.NOT_COORDINATOR
    fetched = harness.service.fetch("g", [("t", [0])], require_stable=True)
    assert isinstance(fetched, list)
    assert fetched[0][1][0].error is ErrorCode.NONE


async def test_no_coordinator_is_available_until_the_offsets_topic_exists(harness: Harness) -> None:
    harness.topic = None
    assert not harness.service.shards.exist
    with pytest.raises(Rejected) as refused:
        harness.join()
    assert refused.value.code is ErrorCode.NOT_COORDINATOR
    assert harness.service.heartbeat("g", "m", None, 1) is ErrorCode.NOT_COORDINATOR
    assert harness.service.heartbeat("", "m", None, 1) is ErrorCode.INVALID_GROUP_ID
    with pytest.raises(Rejected) as refused:
        harness.service.offsets_partition("g")
    assert refused.value.code is ErrorCode.COORDINATOR_NOT_AVAILABLE
    await harness.service.shards.create_topic()
    assert isinstance(harness.join(), JoinGroupResult)


async def test_offsets_expire_at_the_next_check_after_their_retention(harness: Harness) -> None:
    await harness.service.load()
    harness.commit(5)
    await harness.pass_ms(7 * 24 * 3_600_000 - 1)
    assert harness.service.get("h") is not None
    await harness.pass_ms(600_000)
    assert harness.service.get("h") is None


async def test_each_partitions_offsets_expire_in_a_turn_of_their_own(harness: Harness) -> None:
    service = await harness.two_partitions()
    harness.tick(7 * 24 * 3_600_000 + 600_000)
    await asyncio.sleep(0)
    assert len(list(service.all_groups())) == 1
    await asyncio.sleep(0)
    assert list(service.all_groups()) == []


async def test_a_deleted_topics_offsets_are_removed_in_batches_that_fit(harness: Harness) -> None:
    harness.service.commit(Commit(group_id="h", offsets=[OffsetToCommit("t", partition, 1) for partition in range(2_500)]))
    before = len(harness.partition.log.batches)
    harness.service.forget_topic("t", bytes(16))
    assert len(harness.partition.log.batches) - before == 3
    fetched = harness.service.fetch("h", None, require_stable=False)
    assert fetched == []


async def test_a_leave_completes_the_rebalance_that_waited_for_the_member(harness: Harness) -> None:
    harness.stable()
    waiting = harness.join(new_member_id="n")
    assert isinstance(waiting, asyncio.Future)
    assert harness.service.leave("g", [LeavingMember("m")]) == [ErrorCode.NONE]
    assert (await waiting).leader == "n"


async def test_a_leave_is_answered_when_the_empty_group_is_durable(harness: Harness) -> None:
    harness.stable()
    harness.partition.holds_back = True
    left = harness.service.leave("g", [LeavingMember("m")])
    assert isinstance(left, asyncio.Future)
    await settle()
    assert not left.done()
    harness.partition.make_committed()
    assert await left == [ErrorCode.NONE]


async def test_a_leave_whose_records_cannot_be_written_or_are_lost_is_a_coordinator_error(harness: Harness) -> None:
    harness.stable()
    harness.partition.refusal = Rejected(ErrorCode.NOT_ENOUGH_REPLICAS)
    with pytest.raises(Rejected) as refused:
        harness.service.leave("g", [LeavingMember("m")])
    assert refused.value.code is ErrorCode.COORDINATOR_NOT_AVAILABLE
    harness.partition.refusal = None
    harness.join(new_member_id="n")
    harness.partition.holds_back = True
    left = harness.service.leave("g", [LeavingMember("n")])
    assert isinstance(left, asyncio.Future)
    harness.partition.lose(Rejected(ErrorCode.NOT_LEADER_OR_FOLLOWER))
    with pytest.raises(Rejected) as lost:
        await left
    assert lost.value.code is ErrorCode.NOT_COORDINATOR


async def test_a_stop_answers_every_waiting_request_and_leaves_no_timer(harness: Harness) -> None:
    await harness.service.load()
    harness.stable()
    waiting = harness.join(new_member_id="n")
    assert isinstance(waiting, asyncio.Future)
    harness.service.stop()
    assert (await waiting).error is ErrorCode.NOT_COORDINATOR
    await harness.nursery.stop()
    assert len(harness.timers) == 0


def test_member_ids_begin_with_the_client_or_instance_id_and_differ() -> None:
    first, second = new_member_id("c", os.urandom), new_member_id("c", os.urandom)
    assert first.startswith("c-")
    assert first != second


def test_a_member_id_fits_into_a_string_however_long_the_clients_is() -> None:
    assert len(new_member_id("c" * 32_767, os.urandom)) == 32_767
    assert len(new_member_id("\N{SNOWMAN}" * 10_922, os.urandom).encode()) <= 32_767


async def test_a_slow_load_does_not_delay_the_start(harness: Harness) -> None:
    for offset in range(50):
        harness.commit(offset)
    starting = asyncio.ensure_future(harness.open(chunk_bytes=1).load())
    await asyncio.sleep(0)
    harness.tick(LOAD_BEFORE_SERVING_MS)
    await starting
    with pytest.raises(Rejected):
        harness.service.get("h")
    async with asyncio.timeout(10):
        while not harness.service.shards.serving():  # noqa: ASYNC110 # as a client asks
            await asyncio.sleep(0)
    assert harness.service.get("h") is not None


async def test_a_partition_that_fails_to_load_is_logged_and_the_start_continues(harness: Harness, caplog: pytest.LogCaptureFixture) -> None:
    harness.commit(5)

    def broken(*args: object, **kwargs: object) -> None:
        raise Rejected(ErrorCode.KAFKA_STORAGE_ERROR, "the disk is gone")

    harness.partition.log.read = broken  # type: ignore[method-assign,assignment]  # the disk breaks
    await harness.open().load()
    assert "loading of __consumer_offsets-0 failed" in caplog.text
    with pytest.raises(Rejected) as refused:
        harness.service.get("h")
    assert refused.value.code is ErrorCode.NOT_COORDINATOR
    assert list(harness.service.all_groups()) == []


async def test_a_damaged_batch_disables_only_its_partitions_groups(harness: Harness, caplog: pytest.LogCaptureFixture) -> None:
    harness.commit(5)
    damaged = bytearray(harness.partition.log.batches[0])
    damaged[-1] ^= 0xFF
    harness.partition.log.batches[0] = bytes(damaged)
    await harness.open().load()
    assert "loading of __consumer_offsets-0 failed" in caplog.text
    assert "offset 0" in caplog.text
    assert harness.service.heartbeat("h", "m", None, 1) is ErrorCode.NOT_COORDINATOR


def beat(harness: Harness, epoch: int = 0) -> HeartbeatResult | asyncio.Future[HeartbeatResult]:
    """Send a heartbeat of a consumer group's only member."""
    first: dict[str, Any] = {"rebalance_timeout_ms": 1_000, "topic_names": frozenset({"t"}), "owned": {}} if epoch == 0 else {}
    return harness.service.consumer_heartbeat(Heartbeat(group_id="g", member_id="m", epoch=epoch, **first))


async def test_a_consumer_group_heartbeat_is_answered_when_its_records_are_durable() -> None:
    harness = Harness()
    harness.partition.holds_back = True
    answer = beat(harness)
    assert isinstance(answer, asyncio.Future)
    await asyncio.sleep(0)
    assert not answer.done()
    harness.partition.make_committed()
    assert (await answer).epoch == 2


async def test_a_consumer_group_heartbeat_with_a_failed_write_can_be_retried() -> None:
    harness = Harness()
    harness.partition.refusal = Rejected(ErrorCode.KAFKA_STORAGE_ERROR)
    with pytest.raises(Rejected) as refused:
        beat(harness)
    assert refused.value.code is ErrorCode.NOT_COORDINATOR
    harness.partition.refusal = None
    answer = beat(harness)
    assert isinstance(answer, HeartbeatResult)
    assert answer.epoch == 2


async def test_a_join_with_a_failed_write_does_not_replace_an_empty_consumer_group(harness: Harness) -> None:
    beat(harness)
    beat(harness, -1)
    before = harness.service.get("g")
    harness.partition.refusal = Rejected(ErrorCode.NOT_ENOUGH_REPLICAS)
    refused = harness.join()
    assert isinstance(refused, JoinGroupResult)
    assert refused.error is ErrorCode.COORDINATOR_NOT_AVAILABLE
    assert harness.service.get("g") is before
    harness.partition.refusal = None
    joined = harness.join()
    assert isinstance(joined, JoinGroupResult)
    assert joined.generation == 1


async def test_a_consumer_group_members_session_expires_without_heartbeats() -> None:
    harness = Harness()
    beat(harness)
    await harness.pass_ms(30_000)
    beat(harness, 2)
    await harness.pass_ms(44_999)
    group = harness.service.get("g")
    assert isinstance(group, ConsumerGroup)
    assert set(group.members) == {"m"}
    await harness.pass_ms(1)
    assert group.members == {}


async def test_an_expression_is_resolved_after_its_heartbeat_is_answered(harness: Harness) -> None:
    first: dict[str, Any] = {"rebalance_timeout_ms": 1_000, "topic_regex": "t.*", "owned": {}}
    answer = harness.service.consumer_heartbeat(Heartbeat(group_id="g", member_id="m", epoch=0, **first))
    assert isinstance(answer, HeartbeatResult)
    group = harness.service.get("g")
    assert isinstance(group, ConsumerGroup)
    assert (answer.epoch, group.epoch, group.resolved) == (1, 1, {})
    for _ in range(3):
        await asyncio.sleep(0)
    assert (group.epoch, group.resolved) == (2, {"t.*": frozenset({"t1"})})


async def test_an_expression_is_not_resolved_any_more_when_the_service_stops(harness: Harness) -> None:
    first: dict[str, Any] = {"rebalance_timeout_ms": 1_000, "topic_regex": "t.*", "owned": {}}
    harness.service.consumer_heartbeat(Heartbeat(group_id="g", member_id="m", epoch=0, **first))
    group = harness.service.get("g")
    assert isinstance(group, ConsumerGroup)
    written = harness.partition.log.log_end_offset
    harness.service.stop()
    await asyncio.sleep(0)
    await asyncio.sleep(0)
    assert harness.partition.log.log_end_offset == written


async def test_a_classic_member_that_does_not_rejoin_is_removed_after_its_rebalance_timeout() -> None:
    harness = Harness()
    beat(harness)
    joined = harness.join("old", session_timeout_ms=45_000, rebalance_timeout_ms=1_000)
    assert isinstance(joined, JoinGroupResult)
    harness.sync("old", joined.generation)
    await harness.pass_ms(2_000)
    first: dict[str, Any] = {"rebalance_timeout_ms": 45_000, "topic_names": frozenset({"t"}), "owned": {}}
    harness.service.consumer_heartbeat(Heartbeat(group_id="g", member_id="third", epoch=0, **first))
    assert harness.service.heartbeat("g", "old", None, joined.generation) is ErrorCode.REBALANCE_IN_PROGRESS
    group = harness.service.get("g")
    assert isinstance(group, ConsumerGroup)
    await harness.pass_ms(999)
    assert "old" in group.members
    await harness.pass_ms(1)
    assert "old" not in group.members


async def test_a_bug_while_offsets_expire_stops_neither_other_partitions_nor_the_next_check(
    harness: Harness, monkeypatch: pytest.MonkeyPatch
) -> None:
    service = await harness.two_partitions()
    with monkeypatch.context() as patched:
        for shard in service.shards.serving()[-1:]:
            patched.setattr(shard.machine, "expire_offsets", lambda _: 1 // 0)
        await harness.pass_ms(7 * 24 * 3_600_000 + 600_000)
        await harness.pass_ms(limits.TIMER_RETRY_MS)
        assert len(list(service.all_groups())) == 1
    for wait_ms in (1, 600_000, 1):
        await harness.pass_ms(wait_ms)
    assert list(service.all_groups()) == []


async def test_a_member_whose_expiry_hit_a_bug_is_removed_later(harness: Harness, monkeypatch: pytest.MonkeyPatch) -> None:
    await harness.service.load()
    harness.stable()
    (shard,) = harness.service.shards.serving()
    with monkeypatch.context() as patched:
        patched.setattr(shard.machine, "expire_members", lambda *_: 1 // 0)
        await harness.pass_ms(60_000)
    assert harness.state() is ClassicState.STABLE
    await harness.pass_ms(limits.TIMER_RETRY_MS)
    assert harness.state() is ClassicState.EMPTY
