from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from ottla.broker.core.rejected import Rejected
from ottla.broker.runtime.share.share_partitions import SharePartitionManager
from ottla.broker.share.acknowledgement import AcknowledgementBatch
from ottla.broker.share.dead_letters import DELIVERED_TOO_OFTEN, REJECTED, DeadLetters
from ottla.broker.share.persister import UNINITIALIZED_START_OFFSET, ReadState, SharePartitionKey, StateBatch
from ottla.broker.share.sessions import ShareSession, TopicPartition
from ottla.broker.share.settings import BY_DURATION, EARLIEST, LATEST, ShareSettings
from ottla.protocol.error_codes import ErrorCode
from ottla.protocol.records.compression import Codec
from ottla.protocol.records.record import SimpleRecord, build_batch
from tests.support.partition_logs import TOPIC_ID
from tests.support.share_harness import KEY, LOCK_MS, ShareHarness, acquired

ACCEPT, REJECT = [AcknowledgementBatch(0, 1, [1])], [AcknowledgementBatch(0, 1, [3])]


@pytest.fixture
def harness(tmp_path: Path) -> Iterator[ShareHarness]:
    """A share partition whose log has one batch of two records."""
    opened = ShareHarness(tmp_path / "data")
    opened.append(b"a", b"b")
    yield opened
    opened.logs.close()


def test_an_acknowledgement_that_is_persisted_at_once_is_answered_at_once(harness: ShareHarness) -> None:
    assert acquired(harness.fetch()) == [(0, 1, 1)]
    assert harness.shares.acknowledge(KEY, "m", ACCEPT) is None
    assert harness.persister.state(KEY).batches == [StateBatch(0, 1, 2, 1)]


async def test_an_acknowledgement_is_answered_when_it_is_persisted(harness: ShareHarness) -> None:
    harness.fetch()
    harness.persister.holds_back = True
    durable = harness.shares.acknowledge(KEY, "m", ACCEPT)
    assert durable is not None
    assert not durable.done()
    harness.persister.complete_all()
    await durable
    assert harness.shares.get(KEY).state.start_offset == 2


@pytest.mark.parametrize(
    ("code", "expected"),
    [
        (ErrorCode.NOT_COORDINATOR, ErrorCode.COORDINATOR_NOT_AVAILABLE),
        (ErrorCode.FENCED_STATE_EPOCH, ErrorCode.NOT_LEADER_OR_FOLLOWER),
        (ErrorCode.FENCED_LEADER_EPOCH, ErrorCode.NOT_LEADER_OR_FOLLOWER),
        (ErrorCode.GROUP_ID_NOT_FOUND, ErrorCode.GROUP_ID_NOT_FOUND),
        (ErrorCode.INVALID_REQUEST, ErrorCode.UNKNOWN_SERVER_ERROR),
    ],
)
async def test_failed_write_is_reported_and_returns_the_records_to_their_member(
    harness: ShareHarness, code: ErrorCode, expected: ErrorCode
) -> None:
    harness.fetch()
    harness.persister.holds_back = True
    durable = harness.shares.acknowledge(KEY, "m", ACCEPT)
    shared = harness.shares.get(KEY)
    harness.persister.fail(code)
    assert durable is not None
    with pytest.raises(Rejected) as refused:
        await durable
    assert refused.value.code is expected
    assert shared.state.release("m").batches == [StateBatch(0, 1, 0, 1)]


async def test_records_that_a_failed_write_leaves_archived_do_not_fill_the_limit_of_record_locks(tmp_path: Path) -> None:
    harness = ShareHarness(tmp_path / "full", settings=ShareSettings(partition_max_record_locks=1, delivery_count_limit=1))
    harness.append(b"a")
    assert acquired(harness.fetch()) == [(0, 0, 1)]
    harness.persister.holds_back = True
    harness.shares.acknowledge(KEY, "m", [AcknowledgementBatch(0, 0, [1])])
    harness.advance(LOCK_MS)
    harness.persister.fail(ErrorCode.COORDINATOR_NOT_AVAILABLE)
    await asyncio.sleep(0)
    harness.append(b"b")
    assert acquired(harness.fetch("n")) == [(1, 1, 1)]
    harness.logs.close()


def test_a_fenced_share_partition_is_loaded_again(harness: ShareHarness) -> None:
    harness.fetch()
    harness.persister.refusal = Rejected(ErrorCode.FENCED_STATE_EPOCH)
    with pytest.raises(Rejected):
        harness.shares.acknowledge(KEY, "m", ACCEPT)
    harness.persister.refusal = None
    assert acquired(harness.fetch("n")) == [(0, 1, 1)]
    assert harness.persister.reads == 2


def test_an_expired_lock_is_persisted_and_its_records_are_delivered_again(harness: ShareHarness) -> None:
    harness.fetch()
    harness.advance(LOCK_MS - 1)
    assert acquired(harness.fetch("n")) == []
    harness.advance(1)
    assert harness.persister.state(KEY).batches == [StateBatch(0, 1, 0, 1)]
    assert acquired(harness.fetch("n")) == [(0, 1, 2)]


def test_an_expired_lock_takes_effect_even_if_it_cannot_be_persisted(harness: ShareHarness, caplog: pytest.LogCaptureFixture) -> None:
    harness.fetch()
    harness.persister.refusal = Rejected(ErrorCode.COORDINATOR_NOT_AVAILABLE)
    harness.advance(LOCK_MS)
    assert "The share state of t-0 could not be written" in caplog.text
    assert acquired(harness.fetch("n")) == [(0, 1, 2)]


def test_a_share_partition_has_one_timer(harness: ShareHarness) -> None:
    for value in (b"c", b"d", b"e"):
        harness.fetch()
        harness.append(value)
    assert len(harness.timers) == 1


def test_a_closed_connection_releases_the_records_and_drops_an_empty_group(harness: ShareHarness) -> None:
    session = harness.shares.sessions.begin("g", "m", [(TopicPartition(TOPIC_ID, 0), "t")])
    harness.fetch()
    harness.shares.disconnected(session)
    assert (len(harness.shares), len(harness.shares.sessions)) == (0, 0)
    assert acquired(harness.fetch("n")) == [(0, 1, 2)]


@pytest.mark.parametrize("end", [SharePartitionManager.disconnected, SharePartitionManager.release], ids=["closed connection", "late end"])
def test_the_end_of_an_older_session_does_not_end_a_newer_one(
    harness: ShareHarness, end: Callable[[SharePartitionManager, ShareSession], object]
) -> None:
    older = harness.shares.sessions.begin("g", "m", [(TopicPartition(TOPIC_ID, 0), "t")])
    harness.shares.sessions.begin("g", "m", [(TopicPartition(TOPIC_ID, 0), "t")])
    harness.fetch()
    end(harness.shares, older)
    assert len(harness.shares.sessions) == 1
    assert acquired(harness.fetch("n")) == [], "the member still holds the record"


def test_the_end_of_leadership_drops_the_share_partition(harness: ShareHarness) -> None:
    harness.fetch()
    harness.shares.on_resignation("t", 0, 1)
    with pytest.raises(Rejected) as refused:
        harness.shares.acknowledge(KEY, "m", ACCEPT)
    assert refused.value.code is ErrorCode.UNKNOWN_TOPIC_OR_PARTITION


def test_an_unknown_partition_is_refused(harness: ShareHarness) -> None:
    with pytest.raises(Rejected) as refused:
        harness.shares.get(SharePartitionKey("g", TOPIC_ID, 9))
    assert refused.value.code is ErrorCode.UNKNOWN_TOPIC_OR_PARTITION


@pytest.mark.parametrize(
    ("reset", "duration_ms", "start"), [(EARLIEST, 0, 0), (LATEST, 0, 4), (BY_DURATION, 60_000, 0), (BY_DURATION, 5_000, 2)]
)
def test_a_new_group_starts_at_its_reset_offset(tmp_path: Path, reset: str, duration_ms: int, start: int) -> None:
    settings = ShareSettings(auto_offset_reset=reset, reset_duration_ms=duration_ms)
    harness = ShareHarness(tmp_path / "data", start_offset=UNINITIALIZED_START_OFFSET, settings=settings)
    harness.append(b"a", b"b")
    harness.advance(10_000)
    harness.append(b"c", b"d")
    assert harness.shares.get(KEY).state.start_offset == start
    harness.logs.close()


async def append_large(harness: ShareHarness, batch: bytes) -> None:
    partition = harness.partition()
    partition.append(batch, checked=await partition.check(batch))


async def test_a_large_batch_is_searched_for_the_start_offset_on_a_thread(tmp_path: Path) -> None:
    settings = ShareSettings(auto_offset_reset=BY_DURATION, reset_duration_ms=5_000)
    harness = ShareHarness(tmp_path / "data", start_offset=UNINITIALIZED_START_OFFSET, settings=settings)
    records = [SimpleRecord(None, bytes(700_000), harness.clock.now_ms() - age_ms) for age_ms in (10_000, 0)]
    await append_large(harness, build_batch(records, codec=Codec.GZIP))
    shared, woken = harness.shares.get(KEY), asyncio.Event()
    assert not shared.loaded
    shared.waiting[woken] = woken.set
    await woken.wait()
    assert (shared.loaded, shared.state.start_offset) == (True, 1)
    harness.logs.close()


async def test_a_share_partition_that_is_dropped_during_the_search_is_not_loaded(tmp_path: Path) -> None:
    settings = ShareSettings(auto_offset_reset=BY_DURATION, reset_duration_ms=5_000)
    harness = ShareHarness(tmp_path / "data", start_offset=UNINITIALIZED_START_OFFSET, settings=settings)
    records = [SimpleRecord(None, bytes(1_100_000), harness.clock.now_ms())]
    await append_large(harness, build_batch(records, codec=Codec.GZIP))
    shared = harness.shares.get(KEY)
    harness.shares.on_resignation("t", 0, 1)
    await harness.logs.partitions.compute(lambda: None)
    await asyncio.sleep(0)
    assert not shared.loaded
    harness.logs.close()


def test_a_duration_without_a_record_in_it_has_no_offset(tmp_path: Path) -> None:
    settings = ShareSettings(auto_offset_reset=BY_DURATION, reset_duration_ms=1_000)
    harness = ShareHarness(tmp_path / "data", start_offset=UNINITIALIZED_START_OFFSET, settings=settings)
    with pytest.raises(Rejected) as refused:
        harness.shares.get(KEY)
    assert refused.value.code is ErrorCode.OFFSET_NOT_AVAILABLE
    harness.logs.close()


@pytest.fixture
def queued(tmp_path: Path) -> Iterator[ShareHarness]:
    """The same share partition, for a group with a dead letter queue."""
    opened = ShareHarness(tmp_path / "queued", settings=ShareSettings(dead_letter_topic="dlq.q", delivery_count_limit=2))
    opened.append(b"a", b"b")
    yield opened
    opened.logs.close()


async def test_a_rejected_record_is_dead_lettered_when_that_is_persisted(queued: ShareHarness) -> None:
    queued.fetch()
    queued.persister.holds_back = True
    durable = queued.shares.acknowledge(KEY, "m", REJECT)
    await asyncio.sleep(0)
    assert queued.dead_letters == []
    queued.persister.complete_all()
    assert durable is not None
    await durable
    assert queued.persister.state(KEY).batches == [StateBatch(0, 1, 3, 1)]
    await asyncio.sleep(0)
    assert queued.dead_letters == [DeadLetters(0, 1, 1, REJECTED)]
    queued.persister.complete_all()
    await asyncio.sleep(0)
    assert queued.persister.state(KEY).batches == [StateBatch(0, 1, 4, 1)]
    assert queued.shares.get(KEY).state.start_offset == 2


async def test_a_record_whose_lock_expires_for_the_last_time_is_dead_lettered(queued: ShareHarness) -> None:
    for _ in range(2):
        queued.fetch()
        queued.advance(LOCK_MS)
    await asyncio.sleep(0)
    assert queued.dead_letters == [DeadLetters(0, 1, 2, DELIVERED_TOO_OFTEN)]


async def test_a_record_whose_last_lock_expires_during_a_failed_write_is_archived_without_a_dead_letter(queued: ShareHarness) -> None:
    """As in Kafka 4.4: InFlightState.completeStateTransition(false) archives a record at the delivery limit without a dead letter."""
    queued.fetch()
    queued.advance(LOCK_MS)
    queued.fetch()
    queued.persister.holds_back = True
    durable = queued.shares.acknowledge(KEY, "m", REJECT)
    assert durable is not None
    queued.advance(LOCK_MS)
    queued.persister.fail(ErrorCode.COORDINATOR_NOT_AVAILABLE)
    with pytest.raises(Rejected):
        await durable
    queued.persister.holds_back = False
    await asyncio.sleep(0)
    state = queued.shares.get(KEY).state
    assert (queued.dead_letters, acquired(queued.fetch()), state.delivery_complete_count) == ([], [], 2)
    queued.append(b"c")
    assert acquired(queued.fetch()) == [(2, 2, 1)]
    queued.shares.acknowledge(KEY, "m", [AcknowledgementBatch(2, 2, [1])])
    assert (state.start_offset, state.delivery_complete_count, queued.dead_letters) == (3, 0, [])


async def test_a_record_is_archived_even_if_the_queue_refuses_it(queued: ShareHarness, caplog: pytest.LogCaptureFixture) -> None:
    queued.queue_refusal = Rejected(ErrorCode.INVALID_CONFIG, "there is no such topic")
    queued.fetch()
    queued.shares.acknowledge(KEY, "m", REJECT)
    await asyncio.sleep(0)
    assert (
        "The records 0 to 1 of t-0 are not in the dead letter queue of share group g: INVALID_CONFIG: there is no such topic" in caplog.text
    )
    assert queued.shares.get(KEY).state.start_offset == 2


async def test_dead_letters_that_a_crash_has_prevented_are_written_by_the_next_leader(queued: ShareHarness) -> None:
    queued.persister.states[KEY] = ReadState(0, 0, [StateBatch(0, 1, 3, 1)])
    queued.shares.get(KEY)
    await asyncio.sleep(0)
    assert queued.dead_letters == [DeadLetters(0, 1, 1, REJECTED)]
