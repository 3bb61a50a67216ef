from __future__ import annotations

import asyncio
import gc
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from ottla.broker.core.clock import VirtualClock
from ottla.broker.core.log_config import LogConfig
from ottla.broker.core.rejected import Rejected
from ottla.broker.replication.leadership import Registration, sole_replica_registration
from ottla.broker.replication.purgatory import Condition
from ottla.broker.runtime.replicas.partition import Partition
from ottla.broker.storage.files import Files
from ottla.broker.storage.partition_log import Isolation, Origin
from ottla.broker.txns.txn_marker import TxnMarker
from ottla.protocol.error_codes import ErrorCode
from ottla.protocol.records.record import SimpleRecord, build_batch, iter_records
from tests.support.partition_logs import PartitionHarness, append_verified, one_batch
from tests.support.slow_disk import SlowDisk

Open = Callable[..., PartitionHarness]


def beside_2(leader_epoch: int) -> Registration:
    """Return a registration of the partition: broker 1 leads, and brokers 1 and 2 are in sync."""
    return Registration(1, (1, 2), (1, 2), leader_epoch, partition_epoch=leader_epoch)


class WithoutDescriptors(Files):
    """Files that have no free descriptor for a sync while `exhausted`."""

    exhausted = False

    def dup(self, fd: int) -> int:
        if self.exhausted:
            raise OSError(24, "Too many open files")
        return super().dup(fd)


@pytest.fixture
def harness(tmp_path: Path) -> Iterator[Open]:
    opened: list[PartitionHarness] = []

    def build(config: LogConfig | None = None, files: Files | None = None, clock: VirtualClock | None = None) -> PartitionHarness:
        opened.append(PartitionHarness(tmp_path / "data", clock or VirtualClock(), config, files=files or Files()))
        return opened[-1]

    yield build
    for each in opened:
        each.close()


def test_append_without_flush_messages_is_readable_and_durable_at_once(harness: Open) -> None:
    partition = harness().partitions.get("t", 0)
    info = partition.append(one_batch(b"a", b"b"))
    assert (info.first_offset, partition.log.high_watermark) == (0, 2)
    assert partition.when(Condition.COMMITTED, info) is None


def test_invalid_batch_is_rejected_and_not_written(harness: Open) -> None:
    partition = harness().partitions.get("t", 0)
    with pytest.raises(Rejected):
        partition.append(one_batch()[:-1] + b"\xff")
    assert partition.log.log_end_offset == 0


def test_batch_is_recompressed_with_the_topics_codec(harness: Open) -> None:
    partition = harness(LogConfig(compression_type="zstd")).partitions.get("t", 0)
    partition.append(one_batch(b"a" * 500))
    assert partition.log.size_bytes < 500


def test_coordinator_records_are_one_batch_with_the_current_time(harness: Open) -> None:
    clock = VirtualClock()
    partition = harness(clock=clock).partitions.get("t", 0)
    info = partition.append_records([SimpleRecord(b"k", b"v"), SimpleRecord(b"k", None, 5)])
    assert (info.first_offset, info.last_offset) == (0, 1)
    stored = partition.log.read(0, 1000, isolation=Isolation.LOG_END).records
    assert [(r.key, r.value, r.timestamp) for r in iter_records(stored)] == [(b"k", b"v", clock.now_ms()), (b"k", None, 5)]


def test_coordinator_batch_that_exceeds_max_message_bytes_is_rejected_and_not_written(harness: Open) -> None:
    partition = harness(LogConfig(max_message_bytes=500)).partitions.get("t", 0)
    with pytest.raises(Rejected) as rejected:
        partition.append_records([SimpleRecord(b"k", bytes(500))])
    assert rejected.value.code is ErrorCode.MESSAGE_TOO_LARGE
    assert partition.log.log_end_offset == 0


async def test_flush_messages_delays_ack_and_high_watermark_until_the_sync(harness: Open) -> None:
    disk = SlowDisk()
    opened = harness(LogConfig(flush_messages=1), disk)
    partition = opened.partitions.get("t", 0)
    disk.arm()
    info = partition.append(one_batch())
    durable = partition.when(Condition.COMMITTED, info)
    assert durable is not None
    await asyncio.sleep(0)
    assert not durable.done()
    assert partition.log.high_watermark == 0
    disk.gate.release(100)
    await asyncio.wait_for(durable, 60)
    assert partition.log.high_watermark == 1


async def test_one_sync_completes_all_waiting_appends(harness: Open) -> None:
    disk = SlowDisk()
    opened = harness(LogConfig(flush_messages=1), disk)
    partition = opened.partitions.get("t", 0)
    disk.arm()
    waits = [partition.when(Condition.COMMITTED, partition.append(one_batch())) for _ in range(20)]
    disk.armed = False
    disk.gate.release(100)
    await asyncio.wait_for(asyncio.gather(*[wait for wait in waits if wait is not None]), 5)
    assert partition.log.high_watermark == 20
    assert opened.flusher.syncs == 2, "the one that was under way, and one for all that came meanwhile"


async def test_append_below_flush_messages_does_not_wait(harness: Open) -> None:
    opened = harness(LogConfig(flush_messages=3))
    partition = opened.partitions.get("t", 0)
    assert [partition.when(Condition.COMMITTED, partition.append(one_batch())) for _ in range(2)] == [None, None]
    third = partition.when(Condition.COMMITTED, partition.append(one_batch()))
    assert third is not None
    await asyncio.wait_for(third, 60)


async def test_a_failed_sync_acknowledges_nothing_and_is_reported_once(harness: Open) -> None:
    disk = SlowDisk()
    opened = harness(LogConfig(flush_messages=1), disk)
    partition = opened.partitions.get("t", 0)
    disk.error = OSError(5, "Input/output error")
    durable = partition.when(Condition.COMMITTED, partition.append(one_batch()))
    assert durable is not None
    async with asyncio.timeout(5):
        while not opened.failures:  # noqa: ASYNC110 # the report comes from a callback
            await asyncio.sleep(0)
    assert not durable.done()
    assert partition.log.high_watermark == 0
    disk.error = None


async def test_sync_that_cannot_start_acknowledges_nothing_until_a_later_one_succeeds(harness: Open) -> None:
    disk = WithoutDescriptors()
    partition = harness(LogConfig(flush_messages=1), disk).partitions.get("t", 0)
    disk.exhausted = True
    first = partition.when(Condition.COMMITTED, partition.append(one_batch()))
    assert first is not None
    await asyncio.sleep(0)
    assert (first.done(), partition.log.high_watermark) == (False, 0)
    disk.exhausted = False
    second = partition.when(Condition.COMMITTED, partition.append(one_batch()))
    assert second is not None
    await asyncio.wait_for(asyncio.gather(first, second), 5)
    assert partition.log.high_watermark == 2


async def test_append_that_rolls_a_segment_succeeds_even_if_its_sync_fails(harness: Open) -> None:
    disk = WithoutDescriptors()
    partition = harness(LogConfig(segment_bytes=200), disk).partitions.get("t", 0)
    disk.exhausted = True
    for _ in range(5):
        partition.append(one_batch())
    assert (partition.log.high_watermark, partition.log.recovery_point) == (5, 0)
    disk.exhausted = False
    sync = partition.flush()
    assert sync is not None
    await asyncio.wait_for(sync, 60)
    await asyncio.sleep(0)
    assert partition.log.recovery_point == 5


async def test_unsynced_records_after_a_crash_are_synced_without_an_append(harness: Open) -> None:
    opened = harness()
    log = opened.partitions.get("t", 0).log
    log.append(one_batch(), origin=Origin.CLIENT, leader_epoch=0, now_ms=0)
    sync = Partition(log, opened.flusher, VirtualClock()).flush()
    assert sync is not None
    await asyncio.wait_for(sync, 60)
    await asyncio.sleep(0)
    assert log.recovery_point == 1


async def test_flush_ms_syncs_when_its_time_has_passed(harness: Open) -> None:
    clock = VirtualClock()
    clock.advance(1)
    opened = harness(LogConfig(flush_ms=100), clock=clock)
    partition = opened.partitions.get("t", 0)
    partition.append(one_batch())
    clock.advance(99)
    partition.flush_if_due()
    assert partition.log.recovery_point == 0
    clock.advance(1)
    partition.flush_if_due()
    async with asyncio.timeout(5):
        while partition.log.recovery_point != 1:  # noqa: ASYNC110 # moved by a callback of another thread's work
            await asyncio.sleep(0)


async def test_a_roll_starts_a_sync_of_the_closed_segment(harness: Open) -> None:
    opened = harness(LogConfig(segment_bytes=200))
    partition = opened.partitions.get("t", 0)
    for _ in range(4):
        partition.append(one_batch())
    async with asyncio.timeout(5):
        while not opened.flusher.syncs:  # noqa: ASYNC110 # as above
            await asyncio.sleep(0)
    assert partition.log.recovery_point > 0


def test_watchers_get_the_bytes_of_an_append(harness: Open) -> None:
    partition = harness().partitions.get("t", 0)
    heard: list[int] = []
    partition.watchers["me"] = heard.append
    batch = one_batch()
    partition.append(batch)
    assert heard == [len(batch)]


async def test_abandoned_waiter_fails_without_a_log_message(harness: Open) -> None:
    disk = SlowDisk()
    partition = harness(LogConfig(flush_messages=1), disk).partitions.get("t", 0)
    complaints: list[object] = []
    asyncio.get_running_loop().set_exception_handler(lambda _, context: complaints.append(context))
    disk.arm()
    wait = partition.when(Condition.COMMITTED, partition.append(one_batch(b"a")))
    assert wait is not None
    partition.remove()
    del wait
    gc.collect()
    assert not complaints
    disk.gate.release(10)


async def test_waiters_and_watchers_of_a_removed_partition_are_completed(harness: Open) -> None:
    disk = SlowDisk()
    opened = harness(LogConfig(flush_messages=1), disk)
    partition = opened.partitions.get("t", 0)
    disk.arm()
    durable = partition.when(Condition.COMMITTED, partition.append(one_batch()))
    heard: list[int] = []
    partition.watchers["me"] = heard.append
    opened.partitions.remove("t", 0)
    assert durable is not None
    with pytest.raises(Rejected):
        await durable
    assert heard == [0]
    disk.gate.release(100)


@pytest.mark.parametrize(
    ("requested", "error"), [(4, ErrorCode.FENCED_LEADER_EPOCH), (6, ErrorCode.UNKNOWN_LEADER_EPOCH), (5, None), (-1, None)]
)
def test_other_leader_epoch_is_rejected(harness: Open, requested: int, error: ErrorCode | None) -> None:
    partition = harness().partitions.get("t", 0)
    partition.lead(sole_replica_registration(5))
    if error is None:
        partition.replica.check_epoch(requested)
        return
    with pytest.raises(Rejected) as caught:
        partition.replica.check_epoch(requested)
    assert caught.value.code is error


def test_coordinators_batch_skips_client_checks(harness: Open) -> None:
    partition = harness(LogConfig(cleanup_policy=frozenset({"compact"}))).partitions.get("t", 0)
    assert partition.append(one_batch(), Origin.COORDINATOR).first_offset == 0


async def test_marker_wakes_waiting_read_committed_fetches(harness: Open) -> None:
    partition = harness().partitions.get("t", 0)
    records = [SimpleRecord(None, b"x", 1)]
    append_verified(partition, build_batch(records, producer_id=7, producer_epoch=0, base_sequence=0, transactional=True))
    woken: list[int] = []
    partition.watchers["me"] = woken.append
    partition.append_marker(TxnMarker(7, 0, True, 3, 0))
    assert woken[-1] == 0, "looks again, however many bytes it lacks"
    (entry,) = partition.log.producers()
    assert (entry.coordinator_epoch, entry.current_txn_first_offset, partition.log.last_stable_offset) == (3, -1, 2)


def test_fenced_marker_is_rejected_and_wakes_no_fetch(harness: Open) -> None:
    partition = harness().partitions.get("t", 0)
    partition.append_marker(TxnMarker(7, 5, True, 0, 0))
    woken: list[int] = []
    partition.watchers["me"] = woken.append
    with pytest.raises(Rejected) as caught:
        partition.append_marker(TxnMarker(7, 4, True, 0, 0))
    assert (caught.value.code, woken, partition.log.log_end_offset) == (ErrorCode.INVALID_PRODUCER_EPOCH, [], 1)


async def test_pending_requests_fail_when_another_broker_becomes_leader(harness: Open) -> None:
    disk = SlowDisk()
    partition = harness(LogConfig(flush_messages=1), disk).partitions.get("t", 0)
    disk.arm()
    waits = [partition.when(condition, partition.append(one_batch())) for condition in Condition]
    partition.follow(Registration(2, (1, 2), (1, 2), partition.leader_epoch + 1, 1))
    for wait in waits:
        assert wait is not None
        with pytest.raises(Rejected) as caught:
            await wait
        assert caught.value.code is ErrorCode.NOT_LEADER_OR_FOLLOWER
    with pytest.raises(Rejected) as refused:
        partition.append(one_batch())
    assert refused.value.code is ErrorCode.NOT_LEADER_OR_FOLLOWER
    disk.gate.release(100)


async def test_pending_commit_fails_when_a_new_leader_epoch_commits_its_record(harness: Open) -> None:
    partition = harness().partitions.get("t", 0)
    partition.lead(beside_2(1))
    wait = partition.when(Condition.COMMITTED, partition.append(one_batch()))
    assert wait is not None
    partition.lead(Registration(1, (1, 2), (1,), 2, partition_epoch=2))
    assert partition.log.high_watermark == 1
    with pytest.raises(Rejected):
        await wait


async def test_acks_1_completes_at_once_and_acks_all_waits_for_an_in_sync_follower(harness: Open) -> None:
    partition = harness().partitions.get("t", 0)
    partition.lead(beside_2(1))
    info = partition.append(one_batch())
    assert partition.when(Condition.IN_OWN_LOG, info) is None
    assert partition.when(Condition.COMMITTED, info) is not None
    assert partition.log.high_watermark == 0


def test_older_leader_epochs_from_metadata_are_ignored(harness: Open) -> None:
    partition = harness().partitions.get("t", 0)
    partition.lead(beside_2(3))
    partition.follow(beside_2(2))
    partition.lead(beside_2(2))
    assert (partition.leads, partition.leader_epoch, partition.log.leader_epoch) == (True, 3, 3)
