from __future__ import annotations

from typing import cast

import pytest

from ottla.broker.replication.brokers import Brokers
from ottla.broker.replication.fetch_plan import FetchLimits, FetchPlan, FetchStep
from ottla.broker.replication.follower import BACKOFF_MS, AppendFetched, FetchAction, RestartLog, TruncateLog
from ottla.protocol.error_codes import ErrorCode
from ottla.protocol.messages.k01_fetch import (
    FetchableTopicResponse,
    FetchPartition,
    FetchRequest,
    FetchResponse,
    PartitionData,
    ReplicaState,
)
from tests.support.list_log import Entry, ListLog

T, U = b"t" * 16, b"u" * 16


def plan(*keys: tuple[bytes, int]) -> tuple[FetchPlan, dict[tuple[bytes, int], ListLog]]:
    """Return the fetch plan of broker 2 (broker epoch 72), which follows `keys` in leader epoch 7, and their logs of one record of
    epoch 1."""
    made = FetchPlan(2, Brokers(own_epoch=72), FetchLimits(wait_max_ms=50, partition_max_bytes=1000))
    logs = {key: ListLog(1) for key in keys}
    for key, log in logs.items():
        made.follow(key, log, 7)
    return made, logs


def named(request: FetchRequest | None) -> list[tuple[bytes, int]]:
    assert request is not None
    return [(topic.topic_id, partition.partition) for topic in request.topics for partition in topic.partitions]


def forgotten(request: FetchRequest | None) -> list[tuple[bytes, int]]:
    assert request is not None
    return [(topic.topic_id, index) for topic in request.forgotten_topics_data for index in topic.partitions]


def response(*answers: tuple[tuple[bytes, int], int], session_id: int = 5, error: int = 0) -> FetchResponse:
    topics = [FetchableTopicResponse("", topic, [PartitionData(index, code)]) for (topic, index), code in answers]
    return FetchResponse(error_code=error, session_id=session_id, responses=topics)


def test_fetch_request_has_the_replica_its_epoch_and_the_limits() -> None:
    made, _ = plan((T, 0))
    request = made.next_request(0)
    assert request is not None
    assert request.replica_state == ReplicaState(2, 72)
    assert (request.max_wait_ms, request.min_bytes, request.max_bytes) == (50, 1, 10 << 20)
    assert (request.session_id, request.session_epoch, request.isolation_level) == (0, 0, 0)
    assert request.topics[0].partitions == [FetchPartition(0, 7, 1, 1, 0, 1000)]


def test_without_partitions_there_is_no_fetch_request() -> None:
    made, _ = plan()
    assert made.next_request(0) is None
    assert made.wakes_ms(0) is None


def test_consecutive_partitions_of_one_topic_share_an_entry() -> None:
    made, _ = plan((T, 0), (T, 1), (U, 0))
    request = made.next_request(0)
    assert request is not None
    assert [len(topic.partitions) for topic in request.topics] == [2, 1]


def test_partition_with_records_moves_to_the_end() -> None:
    made, logs = plan((T, 0), (U, 0))
    assert named(made.next_request(0)) == [(T, 0), (U, 0)]
    steps = made.handle_response(response(((T, 0), 0), ((U, 0), 0), session_id=0), 0)
    assert [(step.key, step.action) for step in steps] == [((T, 0), AppendFetched(7)), ((U, 0), AppendFetched(7))]
    made.appended((U, 0), None, 0)
    logs[T, 0].append(Entry(7, 0))
    made.appended((T, 0), 7, 2)
    request = made.next_request(0)
    assert named(request) == [(U, 0), (T, 0)]
    made.handle_response(response(((T, 0), 0), ((U, 0), 0), session_id=0), 0)
    made.appended((U, 0), None, 0)
    assert named(made.next_request(0)) == [(U, 0), (T, 0)], "neither gave any this time"


def test_delayed_partition_leaves_the_session_and_returns() -> None:
    made, _ = plan((T, 0), (U, 0))
    made.next_request(0)
    steps = made.handle_response(response(((T, 0), ErrorCode.NOT_LEADER_OR_FOLLOWER), ((U, 0), 0)), 0)
    assert [step.action for step in steps] == [FetchAction.BACK_OFF, AppendFetched(7)]
    made.appended((U, 0), None, 0)
    request = made.next_request(1)
    assert (named(request), forgotten(request)) == ([], [(T, 0)])
    assert made.wakes_ms(1) == BACKOFF_MS
    made.handle_response(response(), 1)
    assert named(made.next_request(BACKOFF_MS)) == [(T, 0)]


def test_leader_is_told_once_that_no_partition_is_left() -> None:
    made, _ = plan((T, 0))
    made.next_request(0)
    made.handle_response(response(((T, 0), 0)), 0)
    made.forget((T, 0))
    assert forgotten(made.next_request(0)) == [(T, 0)]
    made.handle_response(response(), 0)
    assert made.next_request(0) is None


def test_a_failed_partition_is_not_fetched_until_it_is_followed_again() -> None:
    made, logs = plan((T, 0))
    made.next_request(0)
    steps = made.handle_response(response(((T, 0), ErrorCode.FENCED_LEADER_EPOCH)), 0)
    assert [step.action for step in steps] == [FetchAction.FAIL]
    assert ((T, 0) in made, made.failed) == (False, {(T, 0)})
    made.follow((T, 0), logs[T, 0], 8)
    assert (made[T, 0].leader_epoch, made.failed) == (8, set())


def test_following_in_the_same_epoch_keeps_the_backoff_and_in_another_restarts() -> None:
    made, logs = plan((T, 0))
    made[T, 0].back_off(0)
    made.follow((T, 0), logs[T, 0], 7)
    assert not made[T, 0].is_ready(1)
    made.follow((T, 0), logs[T, 0], 8)
    assert made[T, 0].is_ready(1)


def test_response_for_a_forgotten_or_changed_partition_is_ignored() -> None:
    made, logs = plan((T, 0), (U, 0))
    made.next_request(0)
    made.forget((T, 0))
    made.follow((U, 0), logs[U, 0], 8)
    assert made.handle_response(response(((T, 0), 0), ((U, 0), 0)), 0) == []


def test_failed_request_delays_all_partitions_and_restarts_the_session() -> None:
    made, _ = plan((T, 0), (U, 0))
    made.next_request(0)
    made.handle_response(response(((T, 0), 0), ((U, 0), 0)), 0)
    made.next_request(0)
    made.request_failed(10)
    assert made.next_request(11) is None
    request = made.next_request(10 + BACKOFF_MS)
    assert request is not None
    assert (named(request), request.session_id, request.session_epoch) == ([(T, 0), (U, 0)], 5, 0)


@pytest.mark.parametrize(
    ("error", "at_once"),
    [
        (ErrorCode.FETCH_SESSION_ID_NOT_FOUND, True),
        (ErrorCode.INVALID_FETCH_SESSION_EPOCH, True),
        (ErrorCode.FETCH_SESSION_TOPIC_ID_ERROR, False),
        (ErrorCode.UNKNOWN_SERVER_ERROR, False),
    ],
)
def test_unknown_session_is_restarted_at_once_and_another_error_delays_all_partitions(error: ErrorCode, at_once: bool) -> None:
    made, _ = plan((T, 0))
    made.next_request(0)
    assert made.handle_response(response(error=error), 0) == []
    assert (made.next_request(1) is not None) is at_once


def test_log_without_an_epoch_is_truncated_before_it_is_fetched() -> None:
    made = FetchPlan(2, Brokers())
    made.follow((T, 0), ListLog(start=4, high_watermark=4), 7)
    assert made.next_request(0) is None
    assert made.truncations(0) == [((T, 0), TruncateLog(4))]
    made.truncated((T, 0))
    assert made.truncations(0) == []
    assert named(made.next_request(0)) == [(T, 0)]


def test_out_of_range_partition_restarts_at_the_leaders_log_start() -> None:
    made, logs = plan((T, 0))
    made.next_request(0)
    (step,) = made.handle_response(response(((T, 0), ErrorCode.OFFSET_OUT_OF_RANGE)), 0)
    assert step == FetchStep((T, 0), PartitionData(0, ErrorCode.OFFSET_OUT_OF_RANGE), FetchAction.ASK_OFFSETS)
    assert made.handle_offsets((T, 0), made.session_partition((T, 0)), 6, 9, 0) == RestartLog(6)
    logs[T, 0].restart_at(6)
    made.truncated((T, 0))
    assert (made[T, 0].fetch_offset, made[T, 0].last_fetched_epoch) == (6, -1)


@pytest.mark.parametrize(
    ("error", "action"), [(ErrorCode.FENCED_LEADER_EPOCH, FetchAction.FAIL), (ErrorCode.UNKNOWN_LEADER_EPOCH, FetchAction.BACK_OFF)]
)
def test_failed_list_offsets_is_retried_or_fails_the_partition(error: ErrorCode, action: FetchAction) -> None:
    made, _ = plan((T, 0))
    made.next_request(0)
    sent = made.session_partition((T, 0))
    assert made.handle_offsets_error((T, 0), sent, error, 0) is action
    assert made.next_request(1) is None
    made.forget((T, 0))
    assert made.handle_offsets_error((T, 0), sent, error, 0) is FetchAction.NOTHING
    assert made.handle_offsets((T, 0), sent, 0, 9, 0) is FetchAction.NOTHING


def test_unusable_data_is_fetched_again_after_the_backoff() -> None:
    made, _ = plan((T, 0), (U, 0))
    made.back_off((T, 0), 0)
    assert named(made.next_request(1)) == [(U, 0)]
    made.request_failed(1)
    assert named(made.next_request(1 + BACKOFF_MS)) == [(U, 0), (T, 0)]


class Looks:
    """A log that counts its accesses."""

    def __init__(self, log: ListLog) -> None:
        self.log = log
        self.times = 0

    def __getattr__(self, name: str) -> object:
        self.times += 1
        return getattr(self.log, name)


def test_request_examines_only_changed_partitions() -> None:
    made = FetchPlan(2, Brokers())
    looks = {(T, index): Looks(ListLog(1)) for index in range(3)}
    for key, log in looks.items():
        made.follow(key, cast("ListLog", log), 7)
    made.next_request(0)
    made.handle_response(response(*[(key, 0) for key in looks]), 0)
    for key in looks:
        made.appended(key, None, 0)
    assert named(made.next_request(0)) == []
    made.handle_response(response(), 0)
    for log in looks.values():
        log.times = 0
    made.handle_response(response(((T, 1), 0)), 0)
    looks[T, 1].log.append(Entry(7, 0))
    made.appended((T, 1), 7, 2)
    assert named(made.next_request(0)) == [(T, 1)]
    assert [log.times > 0 for log in looks.values()] == [False, True, False]
    assert made.wakes_ms(0) is None
    assert made.truncations(0) == []


def test_moved_log_start_is_in_the_next_request() -> None:
    made, logs = plan((T, 0), (U, 0))
    made.next_request(0)
    made.handle_response(response(((T, 0), 0), ((U, 0), 0)), 0)
    for key in logs:
        made.appended(key, None, 0)
    made.next_request(0)
    made.handle_response(response(), 0)
    logs[T, 0].log_start_offset = 1
    made.log_start_changed((T, 0))
    made.log_start_changed((T, 9))
    request = made.next_request(0)
    assert request is not None
    assert [(topic.topic_id, topic.partitions) for topic in request.topics] == [(T, [FetchPartition(0, 7, 1, 1, 1, 1000)])]


def test_throttled_partition_leaves_the_session_while_it_lags_and_returns() -> None:
    held: set[tuple[bytes, int]] = set()
    made = FetchPlan(2, Brokers(), FetchLimits(), lambda key: key in held)
    for key in ((T, 0), (U, 0)):
        made.follow(key, ListLog(1), 7)
    made.next_request(0)
    made.handle_response(response(((T, 0), 0), ((U, 0), 0)), 0)
    made.appended((T, 0), None, 5)
    made.appended((U, 0), None, 0)
    held.update([(T, 0), (U, 0)])
    request = made.next_request(0)
    assert (named(request), forgotten(request)) == ([], [(T, 0)])
    assert made.wakes_ms(0) == BACKOFF_MS
    made.handle_response(response(), 0)
    held.clear()
    assert named(made.next_request(0)) == [(T, 0)]
