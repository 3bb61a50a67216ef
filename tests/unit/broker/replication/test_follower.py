from __future__ import annotations

from pathlib import Path

import pytest

from ottla.broker.core.clock import VirtualClock
from ottla.broker.replication.follower import (
    BACKOFF_MS,
    Action,
    AppendFetched,
    FetchAction,
    Follower,
    RestartLog,
    TruncateLog,
    truncation,
)
from ottla.broker.storage.partition_log import Origin
from ottla.protocol.error_codes import ErrorCode
from ottla.protocol.messages.k01_fetch import EpochEndOffset, FetchPartition, PartitionData
from tests.support.list_log import Entry, ListLog
from tests.support.partition_logs import PartitionHarness, one_batch


def follower(*epochs: int, leader_epoch: int = 7, high_watermark: int = 0) -> tuple[Follower, ListLog]:
    log = ListLog(*epochs, high_watermark=high_watermark)
    return Follower(log, leader_epoch), log


def data(error: int = 0, *, diverging: EpochEndOffset | None = None, high_watermark: int = 0) -> PartitionData:
    return PartitionData(0, error, high_watermark, diverging_epoch=diverging or EpochEndOffset())


def test_a_log_with_an_epoch_is_fetched_for_from_its_end_with_its_last_epoch() -> None:
    made, _ = follower(1, 1, 4, high_watermark=1)
    assert made.is_ready(0)
    assert made.request(3, 1000) == FetchPartition(3, 7, 3, 4, 0, 1000)


def test_unchanged_request_is_the_same_object() -> None:
    made, log = follower(1, 1, 4, high_watermark=1)
    first = made.request(3, 1000)
    assert made.request(3, 1000) is first
    log.append(Entry(4, 0))
    made.appended(4, 1)
    assert made.request(3, 1000) == FetchPartition(3, 7, 4, 4, 0, 1000)


def test_log_without_an_epoch_is_truncated_to_its_high_watermark_first() -> None:
    log = ListLog(start=5, high_watermark=5)
    made = Follower(log, 7)
    assert (made.truncating, made.is_ready(0), made.fetch_offset) == (True, False, 5)
    made.truncated()
    assert made.is_ready(0)
    assert (made.fetch_offset, made.last_fetched_epoch) == (5, -1)


@pytest.mark.parametrize(
    ("got", "action", "paused"),
    [
        (data(), AppendFetched(7), False),
        (data(diverging=EpochEndOffset(1, 2)), TruncateLog(2), False),
        (data(diverging=EpochEndOffset(0, 0)), TruncateLog(0), False),
        (data(ErrorCode.OFFSET_OUT_OF_RANGE), FetchAction.ASK_OFFSETS, False),
        (data(ErrorCode.OFFSET_OUT_OF_RANGE, diverging=EpochEndOffset(1, 2)), FetchAction.ASK_OFFSETS, False),
        (data(ErrorCode.FENCED_LEADER_EPOCH), FetchAction.FAIL, False),
        (data(ErrorCode.UNKNOWN_LEADER_EPOCH), FetchAction.BACK_OFF, True),
        (data(ErrorCode.NOT_LEADER_OR_FOLLOWER), FetchAction.BACK_OFF, True),
        (data(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION), FetchAction.BACK_OFF, True),
        (data(ErrorCode.UNKNOWN_TOPIC_ID), FetchAction.BACK_OFF, True),
        (data(ErrorCode.INCONSISTENT_TOPIC_ID), FetchAction.BACK_OFF, True),
        (data(ErrorCode.KAFKA_STORAGE_ERROR), FetchAction.BACK_OFF, True),
        (data(ErrorCode.UNKNOWN_SERVER_ERROR), FetchAction.BACK_OFF, True),
        (data(32_000), FetchAction.BACK_OFF, True),
    ],
)
def test_a_fetch_response_gives_the_action_and_the_back_off(got: PartitionData, action: Action, paused: bool) -> None:
    made, _ = follower(1, 1, 4)
    assert made.handle_response(made.request(0, 1000), got, 100) == action
    assert [made.is_delayed(at) for at in (100, 99 + BACKOFF_MS, 100 + BACKOFF_MS)] == [paused, paused, False]


@pytest.mark.parametrize(
    "sent",
    [FetchPartition(0, 7, 2, 4, 0, 1000), FetchPartition(0, 6, 3, 4, 0, 1000), FetchPartition(0, 7, 3, 1, 0, 1000)],
    ids=["another offset", "another leader epoch", "another log before it"],
)
@pytest.mark.parametrize("error", [0, ErrorCode.OFFSET_OUT_OF_RANGE, ErrorCode.FENCED_LEADER_EPOCH, ErrorCode.UNKNOWN_LEADER_EPOCH])
def test_response_to_an_outdated_request_is_ignored(sent: FetchPartition, error: int) -> None:
    made, _ = follower(1, 1, 4)
    assert made.handle_response(sent, data(error), 0) is FetchAction.NOTHING
    assert made.handle_offsets(sent, 0, 1, 0) is FetchAction.NOTHING
    assert made.is_ready(0)


def test_response_during_a_backoff_is_ignored() -> None:
    made, _ = follower(1)
    sent = made.request(0, 1000)
    made.back_off(50)
    assert made.handle_response(sent, data(), 60) is FetchAction.NOTHING


def test_another_error_does_not_extend_the_backoff() -> None:
    made, _ = follower(1)
    made.back_off(0)
    made.back_off(BACKOFF_MS - 1)
    assert made.is_ready(BACKOFF_MS)


def test_backoff_of_0_ms_still_delays_the_next_fetch() -> None:
    """With replica.fetch.backoff.ms=0, a fetch that fails at once would otherwise be repeated without end, and nothing else would run."""
    made = Follower(ListLog(1), 7, backoff_ms=0)
    made.back_off(50)
    assert (made.is_delayed(50), made.is_delayed(51)) == (True, False)


def test_fenced_epoch_is_retried_if_a_newer_one_is_known() -> None:
    made, _ = follower(1)
    assert made.refused(ErrorCode.FENCED_LEADER_EPOCH, FetchPartition(0, 6, 1, 1, 0, 1000), 0) is FetchAction.BACK_OFF


def test_log_end_other_than_the_requested_offset_fails_the_partition() -> None:
    made, log = follower(1)
    sent = made.request(0, 1000)
    log.append(Entry(1, 0))
    assert made.handle_response(sent, data(), 0) is FetchAction.FAIL


def test_fetching_continues_after_an_append_with_the_last_batchs_epoch() -> None:
    made, log = follower(1)
    log.append(Entry(3, 0))
    assert made.appended(3, leader_high_watermark=5)
    assert (made.fetch_offset, made.last_fetched_epoch, made.lag) == (2, 3, 3)


def test_empty_response_keeps_the_last_fetched_epoch() -> None:
    made, _ = follower(1)
    assert made.appended(None, leader_high_watermark=0), "the first answer tells the lag"
    assert not made.appended(None, leader_high_watermark=0)
    assert (made.fetch_offset, made.last_fetched_epoch, made.lag) == (1, 1, 0)


@pytest.mark.parametrize(
    ("leader_start", "leader_end", "action", "lag"),
    [
        (0, 2, TruncateLog(2), 0),
        (5, 9, RestartLog(5), 4),
        (3, 9, FetchAction.NOTHING, 6),
        (0, 3, FetchAction.NOTHING, 0),
        (0, 9, FetchAction.NOTHING, 6),
        (4, 4, RestartLog(4), 0),
    ],
)
def test_out_of_range_is_resolved_by_the_leaders_log_start_and_end(leader_start: int, leader_end: int, action: Action, lag: int) -> None:
    made, _ = follower(1, 1, 4)
    assert made.handle_offsets(made.request(0, 1000), leader_start, leader_end, 0) == action
    assert (made.lag, made.fetch_offset) == (lag, 3)


LOG = (1, 1, 1, 3, 3, 5, 5)
"""Epochs of the records 0 to 6: 1 ends at 3, 3 at 5, 5 at 7."""


@pytest.mark.parametrize(
    ("epoch", "end", "cut"),
    [
        (5, 6, 6),
        (5, 9, 7),
        (3, 4, 4),
        (3, 9, 5),
        (4, 9, 5),
        (4, 4, 5),
        (2, 2, 3),
        (1, 2, 2),
        (0, 2, 0),
        (6, 2, 2),
        (6, 9, 7),
        (-1, 4, 4),
        (-1, 9, 7),
        (3, -1, 42),
        (-1, -1, 42),
    ],
)
def test_truncation_offset_follows_from_the_leaders_end_of_the_epoch(epoch: int, end: int, cut: int) -> None:
    assert truncation(EpochEndOffset(epoch, end), ListLog(*LOG), 42) == cut


def test_two_logs_with_disjoint_epochs_converge_in_several_truncations() -> None:
    """KAFKA-6361, scenario 3: after fast unclean elections each log has epochs that the other never saw."""
    leaders = ListLog(1, 1, 2, 4, 6)
    made, log = follower(1, 1, 3, 5, 5)
    cuts = []
    while True:
        epoch, end = leaders.epochs.end_offset_for(made.last_fetched_epoch, leaders.log_end_offset)
        if epoch == made.last_fetched_epoch and end >= made.fetch_offset:
            break
        action = made.handle_response(made.request(0, 1000), data(diverging=EpochEndOffset(epoch, end)), 0)
        assert isinstance(action, TruncateLog)
        log.truncate_to(action.offset)
        made.truncated()
        cuts.append(action.offset)
    assert cuts == [3, 2]
    assert (made.fetch_offset, made.last_fetched_epoch) == (2, 1)


def test_partition_log_can_be_used_by_a_follower(tmp_path: Path) -> None:
    harness = PartitionHarness(tmp_path, VirtualClock())
    log = harness.partitions.get("t", 0).log
    made = Follower(log, 7)
    made.truncated()
    log.append(one_batch(b"a"), origin=Origin.CLIENT, leader_epoch=2, now_ms=0)
    log.append(one_batch(b"b", b"c"), origin=Origin.CLIENT, leader_epoch=3, now_ms=0)
    made.appended(3, leader_high_watermark=0)
    assert (made.fetch_offset, made.last_fetched_epoch) == (3, 3)
    log.truncate_to(2, now_ms=0)
    made.truncated()
    assert (made.fetch_offset, made.last_fetched_epoch) == (1, 2), "the batch that held the offset went whole"
    harness.close()
