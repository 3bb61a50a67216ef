from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from pathlib import Path
from typing import Any

import pytest

from ottla.broker.core.clock import VirtualClock
from ottla.broker.core.log_config import LogConfig
from ottla.broker.core.timers import Timers
from ottla.broker.replication.brokers import Brokers
from ottla.broker.replication.fetch_plan import FetchLimits
from ottla.broker.replication.leadership import Registration
from ottla.broker.runtime.nodes.link import LinkBroken, Node
from ottla.broker.runtime.replicas.fetchers import FetcherParameters, Fetchers, fetch_version, list_offsets_version
from ottla.broker.runtime.replicas.partition import ClusterContext, Partition
from ottla.broker.runtime.upkeep.nursery import Nursery
from ottla.broker.storage.files import FILES, Files
from ottla.protocol.error_codes import ErrorCode
from ottla.protocol.messages.k01_fetch import EpochEndOffset, FetchableTopicResponse, FetchRequest, FetchResponse, PartitionData
from ottla.protocol.messages.k02_list_offsets import ListOffsetsPartitionResponse, ListOffsetsResponse, ListOffsetsTopicResponse
from ottla.protocol.records.record import SimpleRecord, build_batch
from ottla.protocol.schema import Message
from tests.support.partition_logs import TOPIC_ID, PartitionHarness
from tests.support.simulation import settle
from tests.support.slow_disk import SlowDisk

BACKOFF_MS = 1000


class ScriptedLink:
    """A link to a leader that the test plays."""

    def __init__(self, node: Node) -> None:
        self.node = node
        self.requests: list[tuple[Message, int | None]] = []
        self.answer: asyncio.Future[Any] | None = None
        self.closed = False

    async def call(self, request: Message, *, timeout_ms: int, version: int | None = None) -> Any:
        self.requests.append((request, version))
        self.answer = asyncio.get_running_loop().create_future()
        return await self.answer

    def versions(self, api_key: int) -> tuple[int, int] | None:
        return None

    def close(self) -> None:
        self.closed = True


class Follower:
    """Broker 2, which follows `t-0` to `t-2`; `level` is the metadata level."""

    def __init__(self, path: Path, config: LogConfig | None = None, files: Files = FILES) -> None:
        self.clock = VirtualClock()
        self.timers = Timers()
        self.nursery = Nursery(self.timers, self.clock, lambda _: None)
        self.links: list[ScriptedLink] = []
        self.endpoints: dict[int, Node] = {1: Node(1, "one", 9092), 3: Node(3, "three", 9092)}
        self.level = 30
        brokers = Brokers(own_epoch=77)
        context = ClusterContext(brokers, lambda _: None, lambda *_: True)
        self.harness = PartitionHarness(path, self.clock, config, partitions=3, files=files, context=context)
        self.parameters = FetcherParameters(
            2,
            brokers,
            self.connect,
            self.endpoints.get,
            lambda: self.level,
            self.nursery,
            FetchLimits(),
            request_timeout_ms=30_000,
            log_dir=self.harness.log_dir,
            flusher=self.harness.flusher,
        )
        self.fetchers = Fetchers(self.parameters)

    def connect(self, node: Node) -> ScriptedLink:
        self.links.append(ScriptedLink(node))
        return self.links[-1]

    def partition(self, index: int) -> Partition:
        return self.harness.partitions.get("t", index)

    async def follow(self, index: int, leader: int = 1, epoch: int = 1) -> None:
        partition = self.partition(index)
        partition.follow(Registration(leader, (1, 2, 3), (1, 2, 3), epoch, epoch))
        self.fetchers.follow(partition, leader)
        await settle()

    async def wait(self, ms: int) -> None:
        self.clock.advance(ms)
        self.timers.run_due(self.clock.mono_ms())
        await settle()

    async def answer(self, *data: PartitionData, link: int = -1, session_id: int = 5) -> None:
        """Answer the pending fetch of that link."""
        answer = self.links[link].answer
        assert answer is not None
        answer.set_result(
            FetchResponse(session_id=session_id, responses=[FetchableTopicResponse(topic_id=TOPIC_ID, partitions=list(data))])
        )
        await settle()

    def fetches(self, link: int = -1) -> list[list[tuple[int, int]]]:
        """Return (partition, fetch offset) of every partition in each fetch over the link."""
        requests = [request for request, _ in self.links[link].requests if isinstance(request, FetchRequest)]
        return [[(p.partition, p.fetch_offset) for topic in request.topics for p in topic.partitions] for request in requests]


class Disk(SlowDisk):
    """A slow disk; while `exhausted`, a sync finds no free file descriptor."""

    exhausted = False
    refused = 0

    def dup(self, fd: int) -> int:
        if self.exhausted:
            self.refused += 1
            raise OSError(24, "Too many open files")
        return super().dup(fd)


@pytest.fixture
async def follower(tmp_path: Path) -> AsyncIterator[Follower]:
    made = Follower(tmp_path / "data")
    yield made
    await made.nursery.stop()
    made.harness.close()


def data(index: int, *values: bytes, base_offset: int = 0, epoch: int = 1, high_watermark: int = 0) -> PartitionData:
    records = (
        build_batch([SimpleRecord(None, value, 1) for value in values], base_offset=base_offset, leader_epoch=epoch) if values else b""
    )
    return PartitionData(index, 0, high_watermark, high_watermark, 0, records=records)


@pytest.mark.parametrize(("level", "fetch", "offsets"), [(7, 13, 7), (9, 14, 8), (10, 15, 8), (19, 16, 8), (25, 17, 10), (30, 18, 11)])
def test_request_versions_follow_the_metadata_version(level: int, fetch: int, offsets: int) -> None:
    assert (fetch_version(level), list_offsets_version(level)) == (fetch, offsets)


async def test_fetch_has_the_replica_id_in_both_fields_and_the_broker_epoch(follower: Follower) -> None:
    await follower.follow(0)
    request, version = follower.links[0].requests[0]
    assert isinstance(request, FetchRequest)
    assert (request.replica_id, request.replica_state.replica_id, request.replica_state.replica_epoch, version) == (2, 2, 77, 18)


async def test_newly_followed_partition_is_in_the_next_fetch_and_a_forgotten_one_is_not(follower: Follower) -> None:
    await follower.follow(0)
    await follower.follow(1)
    assert follower.fetches() == [[(0, 0)]]
    await follower.answer(data(0, b"a"))
    assert follower.fetches()[1:] == [[(1, 0), (0, 1)]]
    follower.fetchers.forget(follower.partition(0))
    await follower.answer(data(0, b"b", base_offset=1), data(1, b"c"))
    assert follower.partition(0).log.log_end_offset == 1
    request = follower.links[0].requests[2][0]
    assert isinstance(request, FetchRequest)
    assert [topic.partitions for topic in request.forgotten_topics_data] == [[0]]


async def test_broken_connection_is_retried_after_the_backoff(follower: Follower) -> None:
    await follower.follow(0)
    answer = follower.links[0].answer
    assert answer is not None
    answer.set_exception(LinkBroken("gone"))
    await settle()
    await follower.wait(BACKOFF_MS - 1)
    assert len(follower.fetches()) == 1
    await follower.wait(1)
    assert follower.fetches() == [[(0, 0)], [(0, 0)]]


async def test_leader_endpoint_is_looked_up_again_and_a_moved_leader_is_reconnected(follower: Follower) -> None:
    node = follower.endpoints.pop(1)
    await follower.follow(0)
    assert follower.links == []
    follower.endpoints[1] = node
    await follower.wait(BACKOFF_MS)
    follower.endpoints[1] = Node(1, "moved", 9092)
    await follower.answer(data(0))
    assert [(link.node.host, link.closed) for link in follower.links] == [("one", True), ("moved", False)]


async def test_partition_has_one_fetcher_and_a_leader_without_partitions_is_disconnected(follower: Follower) -> None:
    await follower.follow(0, leader=1)
    await follower.follow(0, leader=3, epoch=2)
    assert [(link.node.node_id, link.closed) for link in follower.links] == [(1, True), (3, False)]
    await follower.follow(0, leader=-1, epoch=3)
    assert follower.links[1].closed
    assert not follower.fetchers.is_fetched(follower.partition(0))


async def test_new_epoch_of_the_same_leader_uses_the_same_connection(follower: Follower) -> None:
    await follower.follow(0)
    await follower.follow(0, epoch=2)
    await follower.answer(data(0, b"a"))
    assert follower.partition(0).log.log_end_offset == 0, "what was asked in another epoch is of no account"
    request = follower.links[0].requests[-1][0]
    assert isinstance(request, FetchRequest)
    assert [p.current_leader_epoch for topic in request.topics for p in topic.partitions] == [2]
    assert [link.closed for link in follower.links] == [False]


async def test_partitions_of_one_leader_are_spread_over_its_fetchers(follower: Follower) -> None:
    follower.parameters.fetchers = 2
    for index in range(3):
        await follower.follow(index)
    assert sorted(sorted(index for index, _ in follower.fetches(link)[0]) for link in (0, 1)) == [[0], [1]]


async def test_damaged_batch_ends_the_append_and_is_fetched_again_after_the_backoff(follower: Follower) -> None:
    await follower.follow(0)
    broken = data(0, b"a")
    broken.records = bytes(broken.records or b"") + bytes(data(0, b"b", base_offset=1).records or b"")[:-1] + b"\xff"
    await follower.answer(broken)
    assert follower.partition(0).log.log_end_offset == 1
    await follower.answer()  # to the fetch that takes the partition out of the session
    assert follower.fetches()[1:] == [[]]
    await follower.wait(BACKOFF_MS)
    assert follower.fetches()[2] == [(0, 1)]


async def test_log_with_a_disk_error_fails_alone_until_a_new_leader_epoch(follower: Follower) -> None:
    await follower.follow(0)
    await follower.follow(1)
    await follower.answer(data(0))
    follower.partition(0).log.failure = OSError(5, "Input/output error")
    await follower.answer(data(0, b"a"), data(1, b"b"))
    assert [follower.fetchers.is_fetched(follower.partition(index)) for index in (0, 1)] == [False, True]
    assert follower.partition(1).log.log_end_offset == 1
    follower.partition(0).log.failure = None
    await follower.follow(0, epoch=2)
    assert follower.fetchers.is_fetched(follower.partition(0))


async def test_fenced_epoch_is_not_fetched_again(follower: Follower) -> None:
    await follower.follow(0)
    await follower.answer(PartitionData(0, ErrorCode.FENCED_LEADER_EPOCH))
    assert not follower.fetchers.is_fetched(follower.partition(0))


@pytest.mark.parametrize(("start", "end", "expected"), [(9, 12, (9, 9)), (0, 1, (0, 1)), (0, 5, (0, 2))])
async def test_out_of_range_restarts_at_the_leaders_log_start_or_truncates_to_its_end(
    follower: Follower, start: int, end: int, expected: tuple[int, int]
) -> None:
    await follower.follow(0)
    await follower.answer(data(0, b"a"))
    await follower.answer(data(0, b"b", base_offset=1))
    await follower.answer(PartitionData(0, ErrorCode.OFFSET_OUT_OF_RANGE))
    for offset in (end, start):
        topic = ListOffsetsTopicResponse("t", [ListOffsetsPartitionResponse(0, 0, -1, offset, 1)])
        answer = follower.links[0].answer
        assert answer is not None
        answer.set_result(ListOffsetsResponse(topics=[topic]))
        await settle()
    log = follower.partition(0).log
    assert (log.log_start_offset, log.log_end_offset) == expected
    await until_it_asks_again(follower, 3)  # a checkpoint may be written before
    changed = expected[1] != 2  # what did not change in the session is not named again
    assert follower.fetches()[-1] == ([(0, expected[1])] if changed else [])


async def test_next_fetch_after_a_truncation_waits_until_the_lowered_recovery_point_is_on_disk(
    follower: Follower, monkeypatch: pytest.MonkeyPatch
) -> None:
    checkpoint = follower.harness.log_dir.path / "recovery-point-offset-checkpoint"
    await follower.follow(0)
    await follower.answer(data(0, b"a"))
    await follower.answer(data(0, b"b", base_offset=1))
    follower.partition(0).log.flush()
    follower.harness.log_dir.recovery_point_checkpoint()()
    assert "t 0 2" in checkpoint.read_text()
    written: list[asyncio.Future[None]] = []
    run = follower.harness.flusher.run

    def run_later(work: Callable[[], None]) -> asyncio.Future[None]:
        written.append(asyncio.get_running_loop().create_future())
        return run(work) if len(written) > 1 else written[0]

    monkeypatch.setattr(follower.harness.flusher, "run", run_later)
    diverging = data(0)
    diverging.diverging_epoch = EpochEndOffset(1, 1)
    await follower.answer(diverging)
    assert (follower.partition(0).log.log_end_offset, len(written), len(follower.fetches())) == (1, 1, 3)
    written[0].set_exception(OSError(28, "No space left on device"))
    await settle()
    assert len(follower.fetches()) == 3, "a checkpoint that could not be written is retried after the back-off"
    await follower.wait(BACKOFF_MS)
    assert await until_it_asks_again(follower, 3) == [(0, 1)]
    assert "t 0 1" in checkpoint.read_text()


async def test_failed_list_offsets_is_retried_after_the_backoff(follower: Follower) -> None:
    await follower.follow(0)
    await follower.answer(PartitionData(0, ErrorCode.OFFSET_OUT_OF_RANGE))
    answer = follower.links[0].answer
    assert answer is not None
    topic = ListOffsetsTopicResponse("t", [ListOffsetsPartitionResponse(0, ErrorCode.NOT_LEADER_OR_FOLLOWER)])
    answer.set_result(ListOffsetsResponse(topics=[topic]))
    await settle()
    await follower.answer()  # to the fetch that takes the partition out of the session
    assert len(follower.fetches()) == 2
    await follower.wait(BACKOFF_MS)
    assert follower.fetches()[2] == [(0, 0)]


async def test_response_after_the_broker_became_leader_is_ignored(follower: Follower) -> None:
    await follower.follow(0)
    follower.partition(0).lead(Registration(2, (1, 2, 3), (1, 2, 3), 2, 2))
    await follower.answer(data(0, b"a"))
    assert follower.partition(0).log.log_end_offset == 0


# --- flush.messages: what a follower says that it has is on its disk -----------------------------------------------------------------


@pytest.fixture
def disk() -> Disk:
    return Disk()


@pytest.fixture
async def synced(tmp_path: Path, disk: Disk) -> AsyncIterator[Follower]:
    """Broker 2 follows `t-0` with flush.messages=1, has received a record, and its sync waits until the disk's gate is released."""
    made = Follower(tmp_path / "data", LogConfig(flush_messages=1), disk)
    await made.follow(0)
    disk.arm()
    await made.answer(data(0, b"a"))
    yield made
    disk.gate.release(1000)
    await made.nursery.stop()
    made.harness.close()


async def until_it_asks_again(follower: Follower, before: int, link: int = -1) -> list[tuple[int, int]]:
    async with asyncio.timeout(5):
        while len(follower.fetches(link)) == before:  # noqa: ASYNC110 # the disk answers from its thread
            await asyncio.sleep(0)
    return follower.fetches(link)[before]


async def test_next_fetch_waits_until_the_records_are_synced(synced: Follower, disk: Disk) -> None:
    assert len(synced.fetches()) == 1
    disk.gate.release(1000)
    assert await until_it_asks_again(synced, 1) == [(0, 1)]


async def test_isr_or_epoch_changes_do_not_fetch_before_the_sync(synced: Follower, disk: Disk) -> None:
    """Neither a changed ISR nor a new leader epoch of the same leader makes the follower fetch before the sync is done."""
    synced.partition(0).follow(Registration(1, (1, 2, 3), (1, 2), 1, partition_epoch=2))
    await settle()
    assert len(synced.fetches()) == 1
    await synced.follow(0, epoch=3)
    assert len(synced.fetches()) == 1
    disk.gate.release(1000)
    assert await until_it_asks_again(synced, 1) == [(0, 1)]


async def test_new_leader_is_not_fetched_from_before_the_sync(synced: Follower, disk: Disk) -> None:
    await synced.follow(1)
    await synced.follow(0, leader=3, epoch=2)
    assert [link.node.node_id for link in synced.links] == [1]
    disk.gate.release(1000)
    async with asyncio.timeout(5):
        while len(synced.links) < 2:  # noqa: ASYNC110 # the disk answers from its thread
            await asyncio.sleep(0)
    assert await until_it_asks_again(synced, 0) == [(0, 1)]


async def test_records_that_arrive_during_another_sync_wait_for_disk_only_with_flush_messages(tmp_path: Path, disk: Disk) -> None:
    follower = Follower(tmp_path / "data", LogConfig(flush_messages=10), disk)
    try:
        await follower.follow(0)
        await follower.answer(data(0, b"a"))
        disk.arm()
        assert follower.partition(0).flush() is not None  # as a checkpoint does
        await follower.answer(data(0, b"b", base_offset=1))
        disk.gate.release(1000)
        assert await until_it_asks_again(follower, 2) == [(0, 2)]
    finally:
        disk.gate.release(1000)
        await follower.nursery.stop()
        follower.harness.close()


async def test_removed_flush_setting_during_a_sync_does_not_block_fetching(synced: Follower, disk: Disk) -> None:
    synced.partition(0).reconfigure(LogConfig())
    disk.gate.release(1000)
    assert await until_it_asks_again(synced, 1) == [(0, 1)]


async def test_failed_sync_start_is_retried_after_a_pause_and_other_partitions_continue(tmp_path: Path, disk: Disk) -> None:
    follower = Follower(tmp_path / "data", LogConfig(flush_messages=1), disk)
    try:
        await follower.follow(0)
        await follower.follow(1)
        await follower.answer(data(0))
        disk.exhausted = True
        await follower.answer(data(0, b"a"))
        assert await until_it_asks_again(follower, 2) == []
        request = follower.links[0].requests[2][0]
        assert isinstance(request, FetchRequest)
        assert [topic.partitions for topic in request.forgotten_topics_data] == [[0]], "the other one is asked for as before"
        before = disk.refused
        await follower.answer(data(1))
        assert await until_it_asks_again(follower, 3) == []
        assert disk.refused == before, "not with every answer"
        disk.exhausted = False
        await follower.wait(BACKOFF_MS)
        await follower.answer()
        assert await until_it_asks_again(follower, 4) == [(0, 1)]
    finally:
        await follower.nursery.stop()
        follower.harness.close()


async def test_delayed_partition_stays_out_of_the_fetch_while_another_partitions_sync_runs(synced: Follower, disk: Disk) -> None:
    """The sync of one partition fails, which delays its fetches. The fetcher waits for the other partition's sync, and the delay ends
    meanwhile."""
    disk.gate.release(1000)
    await until_it_asks_again(synced, 1)
    await synced.follow(1)
    disk.exhausted = True
    await synced.answer(data(0, b"b", base_offset=1))
    assert (await until_it_asks_again(synced, 2), disk.refused) == ([(1, 0)], 2)
    disk.exhausted = False
    disk.arm()
    await synced.answer(data(1, b"a"))
    await synced.wait(BACKOFF_MS)
    assert len(synced.fetches()) == 3
    disk.gate.release(1000)
    async with asyncio.timeout(5):
        while (0, 2) not in sum(synced.fetches(), []):  # noqa: ASYNC110, RUF017 # the disk answers from its thread; there are few
            await asyncio.sleep(0)
    assert synced.partition(0).log.recovery_point == 2


@pytest.mark.parametrize("ending", ["leads", "goes"])
async def test_removed_partitions_sync_does_not_delay_the_others(synced: Follower, disk: Disk, ending: str) -> None:
    await synced.follow(1)
    partition = synced.partition(0)
    synced.fetchers.forget(partition)
    if ending == "leads":
        partition.lead(Registration(2, (1, 2, 3), (1, 2, 3), 2, 2))
    else:
        synced.harness.partitions.remove("t", 0)
    disk.gate.release(1000)
    assert await until_it_asks_again(synced, 1) == [(1, 0)]
