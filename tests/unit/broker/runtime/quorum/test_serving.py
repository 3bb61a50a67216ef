"""The leader of a quorum of one answers fetches of its metadata log."""

from __future__ import annotations

import asyncio

import pytest

from ottla.broker.cluster.snapshots import SnapshotId
from ottla.broker.runtime.quorum import serving
from ottla.broker.runtime.quorum.serving import OBSERVER_SESSION_MS
from ottla.protocol.error_codes import ErrorCode
from ottla.protocol.messages.k01_fetch import FetchRequest, FetchTopic, PartitionData
from ottla.protocol.messages.k55_describe_quorum import DescribeQuorumRequest
from ottla.protocol.messages.k55_describe_quorum import PartitionData as DescribedPartition
from ottla.protocol.messages.k55_describe_quorum import TopicData as DescribedTopic
from ottla.protocol.messages.k59_fetch_snapshot import FetchSnapshotRequest, PartitionSnapshot, TopicSnapshot
from ottla.protocol.messages.k59_fetch_snapshot import SnapshotId as WireId
from ottla.protocol.records.batch import split_batches
from tests.support.raft_logs import put_snapshot
from tests.support.simulation import settle
from tests.support.voter_harness import VoterHarness, fetch


@pytest.fixture
async def harness() -> VoterHarness:
    """The voter in epoch 1, with records at offsets 1 and 2."""
    made = VoterHarness()
    made.begin()
    made.first()
    made.set("a")
    await settle()
    return made


async def read(harness: VoterHarness, request: FetchRequest) -> PartitionData:
    answer = await harness.answer(request)
    (partition,) = answer.responses[0].partitions
    assert isinstance(partition, PartitionData)
    return partition


def offsets(data: PartitionData) -> list[int]:
    return [header.base_offset for _, header in split_batches(data.records or b"")]


async def test_a_fetch_returns_committed_records_and_the_leaders_endpoint(harness: VoterHarness) -> None:
    answer = await harness.answer(fetch(0))
    (data,) = answer.responses[0].partitions
    assert (offsets(data), data.high_watermark, data.log_start_offset) == ([0, 1, 2], 3, 0)
    assert (data.current_leader.leader_id, data.current_leader.leader_epoch) == (1, 1)
    assert [(at.node_id, at.host, at.port) for at in answer.node_endpoints] == [(1, "c1", 9093)]
    assert offsets(await read(harness, fetch(2))) == [2]


async def test_records_that_are_not_durable_are_not_returned(harness: VoterHarness) -> None:
    harness.threads.holds = True
    harness.set("b")
    assert (offsets(await read(harness, fetch(2))), (await read(harness, fetch(2))).high_watermark) == ([2], 3)
    assert await harness.answer(fetch(3)) is None
    harness.threads.run_all()
    await settle()
    assert offsets(harness.waiting.result().responses[0].partitions[0]) == [3]


async def test_an_empty_fetch_waits_for_records_or_max_wait(harness: VoterHarness) -> None:
    assert await harness.answer(fetch(3)) is None
    await harness.pass_ms(499)
    assert not harness.waiting.done()
    await harness.pass_ms(1)
    data = harness.waiting.result().responses[0].partitions[0]
    assert (offsets(data), data.high_watermark, data.error_code) == ([], 3, 0)
    assert (await harness.answer(fetch(3, wait_ms=0))) is not None


async def test_a_waiting_fetch_ends_with_its_connection(harness: VoterHarness) -> None:
    assert await harness.answer(fetch(3, wait_ms=2**31 - 1)) is None
    (closed,) = harness.on_closed.values()
    closed()
    await settle()
    assert harness.waiting.done()
    assert not harness.on_closed


async def test_a_fetch_with_an_old_high_watermark_is_answered_at_once(harness: VoterHarness) -> None:
    assert (await read(harness, fetch(3, high_watermark=-1))).high_watermark == 3
    assert await harness.answer(fetch(3, high_watermark=3)) is None


@pytest.mark.parametrize(("epoch", "error"), [(0, ErrorCode.FENCED_LEADER_EPOCH), (2, ErrorCode.UNKNOWN_LEADER_EPOCH), (1, ErrorCode.NONE)])
async def test_a_fetch_with_another_epoch_gets_the_current_one(harness: VoterHarness, epoch: int, error: ErrorCode) -> None:
    data = await read(harness, fetch(1, epoch, last_epoch=0 if epoch == 0 else 1))
    assert (data.error_code, data.current_leader.leader_epoch) == (error, 1)
    assert bool(data.records) is (error == ErrorCode.NONE)


async def test_a_diverging_log_gets_the_diverging_epoch() -> None:
    harness = VoterHarness()
    harness.begin()
    harness.first()
    await settle()
    harness.end()
    harness.begin()
    data = await read(harness, fetch(5, 2, last_epoch=1))
    assert (data.diverging_epoch.epoch, data.diverging_epoch.end_offset, data.records) == (1, 2, b"")
    assert (await read(harness, fetch(2, 2, last_epoch=1))).diverging_epoch.epoch == -1


async def test_a_fetch_below_the_log_start_or_of_an_empty_log_gets_the_newest_snapshot(harness: VoterHarness) -> None:
    log = harness.voter.raft_log
    put_snapshot(log, SnapshotId(2, 1))
    data = await read(harness, fetch(0))
    assert (data.snapshot_id.end_offset, data.snapshot_id.epoch, data.records) == (2, 1, b"")
    assert offsets(await read(harness, fetch(1))) == [1, 2], "the log still has it"
    log.log.delete_records_before(2)
    assert (await read(harness, fetch(1))).snapshot_id.end_offset == 2
    assert offsets(await read(harness, fetch(2))) == [2]


async def test_the_bootstrap_snapshot_is_never_sent() -> None:
    harness = VoterHarness(static=False)
    harness.format_dynamic()
    harness.open_log()
    harness.begin()
    assert offsets(await read(harness, fetch(0))) == [0]
    assert (
        harness.serving.fetch_snapshot(snapshot_part(SnapshotId(0, 0))).topics[0].partitions[0].error_code == ErrorCode.SNAPSHOT_NOT_FOUND
    )


@pytest.mark.parametrize(
    ("change", "error"),
    [
        (lambda request: setattr(request, "cluster_id", "other"), ErrorCode.INCONSISTENT_CLUSTER_ID),
        (lambda request: setattr(request, "topics", []), ErrorCode.INVALID_REQUEST),
        (lambda request: setattr(request, "topics", [FetchTopic("t", partitions=request.topics[0].partitions)]), ErrorCode.INVALID_REQUEST),
    ],
)
async def test_a_fetch_of_another_cluster_or_topic_is_refused_entirely(harness: VoterHarness, change: object, error: ErrorCode) -> None:
    request = fetch(0)
    assert callable(change)
    change(request)
    assert (await harness.answer(request)).error_code == error


async def test_a_stopping_leader_answers_not_available(harness: VoterHarness) -> None:
    harness.serving.stopping = True
    assert (await read(harness, fetch(1))).error_code == ErrorCode.BROKER_NOT_AVAILABLE


def snapshot_part(snapshot: SnapshotId, position: int = 0, epoch: int = 1, max_bytes: int = 1 << 20) -> FetchSnapshotRequest:
    partition_snapshot = PartitionSnapshot(0, epoch, WireId(snapshot.end_offset, snapshot.epoch), position)
    return FetchSnapshotRequest("cluster", 7, max_bytes, [TopicSnapshot("__cluster_metadata", [partition_snapshot])])


async def test_the_parts_of_a_snapshot_join_to_the_whole_file(harness: VoterHarness) -> None:
    log, made = harness.voter.raft_log, SnapshotId(2, 1)
    put_snapshot(log, made)
    whole = harness.files.read_bytes(log.snapshots.path(made))
    got = b""
    while len(got) < len(whole):
        (part,) = harness.serving.fetch_snapshot(snapshot_part(made, len(got), max_bytes=50)).topics[0].partitions
        assert (part.error_code, part.size, part.position) == (0, len(whole), len(got))
        got += bytes(part.unaligned_records)
    assert got == whole


@pytest.mark.parametrize(
    ("snapshot_request", "error"),
    [
        (snapshot_part(SnapshotId(3, 1)), ErrorCode.SNAPSHOT_NOT_FOUND),
        (snapshot_part(SnapshotId(2, 1), 1 << 20), ErrorCode.POSITION_OUT_OF_RANGE),
        (snapshot_part(SnapshotId(2, 1), -1), ErrorCode.POSITION_OUT_OF_RANGE),
        (snapshot_part(SnapshotId(2, 1), epoch=0), ErrorCode.FENCED_LEADER_EPOCH),
    ],
)
async def test_a_position_outside_the_snapshot_is_refused(
    harness: VoterHarness, snapshot_request: FetchSnapshotRequest, error: ErrorCode
) -> None:
    put_snapshot(harness.voter.raft_log, SnapshotId(2, 1))
    (part,) = harness.serving.fetch_snapshot(snapshot_request).topics[0].partitions
    assert (part.error_code, part.current_leader.leader_epoch) == (error, 1)


def quorum(*places: tuple[str, int]) -> DescribeQuorumRequest:
    return DescribeQuorumRequest([DescribedTopic(topic, [DescribedPartition(index)]) for topic, index in places])


async def test_describe_quorum_lists_the_leader_and_its_active_observers(harness: VoterHarness) -> None:
    await harness.answer(fetch(2))
    now_ms = harness.clock.now_ms()
    answer = harness.serving.describe(quorum(("__cluster_metadata", 0)))
    (result,) = answer.topics[0].partitions
    assert (result.leader_id, result.leader_epoch, result.high_watermark) == (1, 1, 3)
    assert [(voter.replica_id, voter.log_end_offset, voter.last_caught_up_timestamp) for voter in result.current_voters] == [(1, 3, now_ms)]
    assert [(at.replica_id, at.log_end_offset, at.last_fetch_timestamp, at.last_caught_up_timestamp) for at in result.observers] == [
        (7, 2, now_ms, -1)
    ]
    assert [(node.node_id, node.listeners[0].port) for node in answer.nodes] == [(1, 9093)]
    waiting = asyncio.ensure_future(harness.answer(fetch(3)))
    await settle()
    (observer,) = harness.serving.describe(quorum(("__cluster_metadata", 0))).topics[0].partitions[0].observers
    assert (observer.log_end_offset, observer.last_caught_up_timestamp) == (3, now_ms)
    await harness.pass_ms(OBSERVER_SESSION_MS + 500)
    await waiting
    await harness.pass_ms(OBSERVER_SESSION_MS)
    assert harness.serving.describe(quorum(("__cluster_metadata", 0))).topics[0].partitions[0].observers == []


async def test_describe_quorum_of_another_topic_is_refused(harness: VoterHarness) -> None:
    answer = harness.serving.describe(quorum(("t", 0), ("__cluster_metadata", 0)))
    assert [topic.partitions[0].error_code for topic in answer.topics] == [ErrorCode.UNKNOWN_TOPIC_OR_PARTITION] * 2


async def test_the_observer_that_fetched_longest_ago_is_dropped_above_the_limit(
    harness: VoterHarness, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(serving, "OBSERVERS_MAX", 2)
    for node_id in (7, 8, 7, 9, 9):
        request = fetch(2)
        request.replica_state.replica_id = node_id
        await harness.answer(request)
        await harness.pass_ms(1)
    observers = harness.serving.describe(quorum(("__cluster_metadata", 0))).topics[0].partitions[0].observers
    assert [observer.replica_id for observer in observers] == [7, 9]
