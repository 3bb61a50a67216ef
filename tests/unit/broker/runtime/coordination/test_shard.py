"""A shard decides, appends, applies, and responds when the records are durable: with a counting state machine, and loading groups'
records."""

from __future__ import annotations

import asyncio
import logging
from typing import Any

import pytest

from ottla.broker.core import limits
from ottla.broker.core.effects import Effects
from ottla.broker.core.log_config import LogConfig
from ottla.broker.core.rejected import Rejected
from ottla.broker.core.timers import Timers
from ottla.broker.groups.coordinator import GroupCoordinator, GroupsConfig
from ottla.broker.groups.group_records import GroupRecord, OffsetCommitKey, OffsetCommitValue, decode_record, encode_record
from ottla.broker.runtime.coordination.shard import Shard, ShardState, as_coordinator
from ottla.broker.txns.txn_marker import TxnMarker
from ottla.protocol.error_codes import ErrorCode
from ottla.protocol.records.batch import read_header
from ottla.protocol.records.record import SimpleRecord, build_batch
from tests.support.memory_partition import MemoryPartition


class Words:
    """A state machine whose state is the words written so far, with their offsets and producer ids."""

    def __init__(self) -> None:
        self.words: list[tuple[str, int, int]] = []
        self.ended: list[tuple[int, bool]] = []

    def apply(self, record: str, record_offset: int, producer_id: int = -1) -> None:
        self.words.append((record, record_offset, producer_id))

    def end_transaction(self, producer_id: int, *, commit: bool) -> None:
        self.ended.append((producer_id, commit))


def decode(key: object, value: object) -> str | None:
    return bytes(value).decode() if isinstance(value, bytes | memoryview) else None


def shard(partition: MemoryPartition, machine: Words) -> Shard[str, Words]:
    return Shard(partition, machine, lambda word: (b"k", word.encode()), decode)  # type: ignore[arg-type]  # the fake has what is used


async def test_records_are_applied_with_their_offsets_and_the_response_is_given_at_once_when_nothing_waits() -> None:
    partition, machine = MemoryPartition(), Words()
    runs = shard(partition, machine)
    assert runs.run(Effects(["a", "b"], "done")) == "done"
    assert runs.run(Effects(["c"], 7)) == 7
    assert machine.words == [("a", 0, -1), ("b", 1, -1), ("c", 2, -1)]
    assert len(partition.log.batches) == 2, "the records of one operation are one batch"


async def test_records_that_the_log_refuses_are_not_applied() -> None:
    partition, machine = MemoryPartition(), Words()
    partition.refusal = Rejected(ErrorCode.KAFKA_STORAGE_ERROR)
    with pytest.raises(Rejected):
        shard(partition, machine).run(Effects(["a"], "done"))
    assert machine.words == []


async def test_an_operation_whose_batch_exceeds_max_message_bytes_changes_nothing() -> None:
    partition, machine = MemoryPartition(), Words()
    partition.log.config = LogConfig(max_message_bytes=500)
    runs = shard(partition, machine)
    with pytest.raises(Rejected) as rejected:
        runs.run(Effects(["a" * 300, "b" * 300], "done"))
    assert rejected.value.code is ErrorCode.UNKNOWN_SERVER_ERROR
    assert (machine.words, partition.log.batches) == ([], [])


async def test_independent_records_are_written_in_batches_of_at_most_max_message_bytes() -> None:
    partition, machine = MemoryPartition(), Words()
    partition.log.config = LogConfig(max_message_bytes=500)
    words = ["a" * 300, "b" * 300, "c", "d", "e"]
    shard(partition, machine).append_independently(words, max_records=3)
    assert [word for word, *_ in machine.words] == words
    assert [read_header(batch).record_count for batch in partition.log.batches] == [1, 3, 1]


async def test_a_response_waits_until_its_records_are_durable() -> None:
    partition, machine = MemoryPartition(), Words()
    partition.holds_back = True
    response = shard(partition, machine).run(Effects(["a"], "done"))
    assert machine.words == [("a", 0, -1)], "applied before it is durable"
    assert isinstance(response, asyncio.Future)
    assert not response.done()
    partition.make_committed()
    assert await response == "done"


async def test_a_response_without_records_waits_for_an_earlier_write() -> None:
    partition = MemoryPartition()
    runs = shard(partition, Words())
    partition.holds_back = True
    runs.run(Effects(["a"], None))
    reads = runs.run(Effects((), "a was said"))
    assert isinstance(reads, asyncio.Future)
    partition.make_committed()
    assert await reads == "a was said"
    assert runs.run(Effects((), "at once")) == "at once"


async def test_cancelling_one_response_does_not_cancel_others() -> None:
    partition = MemoryPartition()
    runs = shard(partition, Words())
    partition.holds_back = True
    gone, stays = runs.run(Effects(["a"], 1)), runs.run(Effects((), 2))
    assert isinstance(gone, asyncio.Future)
    assert isinstance(stays, asyncio.Future)
    gone.cancel()
    partition.make_committed()
    assert await stays == 2


async def test_a_lost_write_fails_its_responses() -> None:
    partition = MemoryPartition()
    partition.holds_back = True
    response = shard(partition, Words()).run(Effects(["a"], 1))
    assert isinstance(response, asyncio.Future)
    partition.lose(Rejected(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION))
    with pytest.raises(Rejected):
        await response


async def turns_of_load(loading: Any, chunk_bytes: int = 1) -> int:
    """Load in chunks of `chunk_bytes` bytes; return the number of turns of the event loop that it takes."""
    turns, load = 0, asyncio.ensure_future(loading.load(chunk_bytes))
    while not load.done():
        turns += 1
        await asyncio.sleep(0)
    return turns


async def test_loading_yields_to_the_event_loop_after_each_chunk() -> None:
    partition, machine = MemoryPartition(), Words()
    writes = shard(partition, machine)
    for i in range(20):
        writes.run(Effects([f"w{i}"], None))
    restored = Words()
    turns = await turns_of_load(shard(partition, restored))
    assert restored.words == machine.words
    assert turns >= 19


async def test_loading_yields_to_the_event_loop_inside_a_large_batch() -> None:
    partition, machine, restored = MemoryPartition(), Words(), Words()
    shard(partition, machine).run(Effects([f"w{i}" for i in range(3 * limits.LOADED_AT_ONCE_STEPS)], None))
    turns = await turns_of_load(shard(partition, restored))
    assert restored.words == machine.words
    assert turns >= 4


async def test_loading_yields_to_the_event_loop_between_small_batches() -> None:
    partition, machine, restored = MemoryPartition(), Words(), Words()
    writes = shard(partition, machine)
    for _ in range(3 * limits.LOADED_AT_ONCE_STEPS):
        writes.run(Effects(["w"], None))
    turns = await turns_of_load(shard(partition, restored), chunk_bytes=1 << 20)
    assert restored.words == machine.words
    assert turns >= 6, "each batch counts as a step, and each record"


async def test_closing_a_shard_stops_its_load_inside_a_batch() -> None:
    partition, restored = MemoryPartition(), Words()
    shard(partition, Words()).run(Effects([f"w{i}" for i in range(3 * limits.LOADED_AT_ONCE_STEPS)], None))
    loading = shard(partition, restored)
    load = asyncio.ensure_future(loading.load(chunk_bytes=1))
    await asyncio.sleep(0)
    assert len(restored.words) == limits.LOADED_AT_ONCE_STEPS
    loading.state = ShardState.CLOSED
    await load
    assert len(restored.words) == limits.LOADED_AT_ONCE_STEPS


async def test_transactional_records_and_markers_are_loaded() -> None:
    partition, machine = MemoryPartition(), Words()
    writes = shard(partition, machine)
    writes.run_transactional(Effects(["t"], None), producer_id=7, producer_epoch=0, now_ms=1)
    writes.append_marker(TxnMarker(7, 0, True, 0, 0))
    writes.append_marker(TxnMarker(8, 0, False, 0, 0))
    assert (machine.words, machine.ended) == ([("t", 0, 7)], [(7, True), (8, False)])
    partition.append(build_batch([SimpleRecord(b"k", b"idempotent")], producer_id=9, producer_epoch=0, base_sequence=0))
    restored = Words()
    await shard(partition, restored).load(1 << 20)
    assert restored.words == [("t", 0, 7), ("idempotent", 3, -1)]
    assert restored.ended == [(7, True), (8, False)]


async def test_transactional_records_and_markers_are_answered_when_durable() -> None:
    partition, machine = MemoryPartition(), Words()
    partition.holds_back = True
    writes = shard(partition, machine)
    response = writes.run_transactional(Effects(["t"], "answer"), producer_id=7, producer_epoch=0, now_ms=1)
    assert isinstance(response, asyncio.Future)
    ended = writes.append_marker(TxnMarker(7, 0, True, 0, 0))
    behind = writes.append([])
    assert not response.done()
    assert ended is not None
    assert behind is ended
    partition.make_committed()
    assert await response == "answer"
    assert ended.done()
    assert writes.append([]) is None


def test_a_refused_marker_does_not_end_the_transaction() -> None:
    partition, machine = MemoryPartition(), Words()
    partition.refusal = Rejected(ErrorCode.INVALID_PRODUCER_EPOCH)
    with pytest.raises(Rejected):
        shard(partition, machine).append_marker(TxnMarker(7, 0, True, 0, 0))
    assert machine.ended == []


async def test_an_unreadable_record_is_logged_and_skipped(caplog: pytest.LogCaptureFixture) -> None:
    partition = MemoryPartition()
    good = GroupRecord(OffsetCommitKey("g", "t", 0), OffsetCommitValue(offset=5))
    partition.append_records(
        [SimpleRecord(b"\x00\x63key of a later version", b"v"), SimpleRecord(b"\x00\x01torn", b"v"), SimpleRecord(None, b"v")]
    )
    partition.append_records([SimpleRecord(*encode_record(good))])
    machine = GroupCoordinator(GroupsConfig())
    with caplog.at_level(logging.WARNING):
        await Shard(partition, machine, encode_record, decode_record).load(1 << 20)  # type: ignore[arg-type]  # the fake has what is used
    assert [line.split(" of ")[0] for line in caplog.messages] == [f"Skipping the record at offset {i}" for i in range(3)]
    found = machine.offsets.committed.get("g", "t", 0)
    assert found is not None
    assert (found.value.offset, found.record_offset) == (5, 3)


@pytest.mark.parametrize(
    ("code", "expected"),
    [
        (ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, ErrorCode.COORDINATOR_NOT_AVAILABLE),
        (ErrorCode.NOT_ENOUGH_REPLICAS, ErrorCode.COORDINATOR_NOT_AVAILABLE),
        (ErrorCode.KAFKA_STORAGE_ERROR, ErrorCode.NOT_COORDINATOR),
        (ErrorCode.MESSAGE_TOO_LARGE, ErrorCode.UNKNOWN_SERVER_ERROR),
        (ErrorCode.INVALID_RECORD, ErrorCode.INVALID_RECORD),
    ],
)
def test_append_errors_become_retriable_coordinator_errors(code: ErrorCode, expected: ErrorCode) -> None:
    assert as_coordinator(Rejected(code)).code is expected


async def test_a_decision_is_not_written_in_a_later_leader_epoch() -> None:
    partition, machine = MemoryPartition(), Words()
    runs = shard(partition, machine)
    partition.leader_epoch = 1
    with pytest.raises(Rejected) as refused:
        runs.run(Effects(["a"], "done"))
    assert refused.value.code is ErrorCode.NOT_COORDINATOR
    with pytest.raises(Rejected) as refused:
        runs.run_transactional(Effects(["a"], "done"), 7, 0, 1)
    assert refused.value.code is ErrorCode.NOT_COORDINATOR
    with pytest.raises(Rejected) as refused:
        runs.append_marker(TxnMarker(7, 0, True, 0, 0))
    assert refused.value.code is ErrorCode.NOT_LEADER_OR_FOLLOWER
    assert (machine.words, partition.log.batches) == ([], [])


@pytest.mark.parametrize(
    ("lost", "expected"),
    [
        (ErrorCode.NOT_LEADER_OR_FOLLOWER, ErrorCode.NOT_COORDINATOR),
        (ErrorCode.KAFKA_STORAGE_ERROR, ErrorCode.NOT_COORDINATOR),
        (ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, ErrorCode.COORDINATOR_NOT_AVAILABLE),
    ],
)
async def test_an_uncommitted_write_that_is_lost_gets_a_coordinator_error(lost: ErrorCode, expected: ErrorCode) -> None:
    partition = MemoryPartition()
    partition.holds_back = True
    response = shard(partition, Words()).run(Effects(["a"], "done"))
    assert isinstance(response, asyncio.Future)
    partition.lose(Rejected(lost))
    with pytest.raises(Rejected) as refused:
        await response
    assert refused.value.code is expected


async def test_a_slow_commit_times_out_and_may_still_be_committed() -> None:
    partition, machine, timers = MemoryPartition(), Words(), Timers()
    runs = Shard(
        partition,  # type: ignore[arg-type]  # the fake has what is used
        machine,
        lambda word: (b"k", word.encode()),
        decode,
        lambda callback: timers.schedule(5_000, callback),
    )
    partition.holds_back = True
    late, in_time = runs.run(Effects(["a"], "done")), runs.run(Effects((), "a was said"))
    assert isinstance(late, asyncio.Future)
    assert isinstance(in_time, asyncio.Future)
    timers.run_due(4_999)
    assert not late.done()
    timers.run_due(5_000, max_callbacks=1)
    with pytest.raises(Rejected) as refused:
        await late
    assert refused.value.code is ErrorCode.COORDINATOR_NOT_AVAILABLE
    partition.make_committed()
    assert await in_time == "a was said"
    assert len(timers) == 0


async def test_loaded_records_above_the_high_watermark_wait_for_their_commit() -> None:
    partition, machine = MemoryPartition(), Words()
    partition.append_records([SimpleRecord(b"k", b"a"), SimpleRecord(b"k", b"b")])
    partition.log.high_watermark = 1
    partition.holds_back = True
    runs = shard(partition, machine)
    await runs.load(1 << 20)
    assert [word for word, _, _ in machine.words] == ["a", "b"]
    response = runs.run(Effects((), "b was said"))
    assert isinstance(response, asyncio.Future)
    assert not response.done()
    partition.make_committed()
    assert await response == "b was said"
