from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from time import time_ns
from typing import Any

import pytest

from ottla.broker.core.clock import MovableClock
from ottla.protocol.client import Client
from ottla.protocol.error_codes import ErrorCode
from ottla.protocol.messages.k21_delete_records import DeleteRecordsPartition, DeleteRecordsRequest, DeleteRecordsTopic
from ottla.protocol.messages.k78_share_fetch import ShareFetchRequest, ShareFetchResponse
from ottla.protocol.messages.share_partitions import SharePartition, ShareTopic
from ottla.protocol.records.batch import split_batches
from ottla.protocol.records.record import SimpleRecord, build_batch
from tests.support import txn_calls
from tests.support.running_broker import RunningBroker
from tests.support.share_calls import ACCEPT, REJECT, RELEASE, RENEW, ShareMember, acquired, configure, initialize
from tests.support.topic_calls import create, delete, produce
from tests.support.transactions import produce_as

EARLIEST = {"share__auto__offset__reset": "earliest"}


@pytest.fixture(autouse=True)
def _topic(client: Client) -> None:
    create(client, "t", partitions=3)
    initialize(client, "t", 0, 1, 2)
    configure(client, "g", **EARLIEST)


def partition(response: ShareFetchResponse) -> Any:
    """The only partition of a response."""
    (topic,) = response.responses
    (data,) = topic.partitions
    return data


@pytest.mark.parametrize("version", [1, 2])
def test_a_member_acquires_whole_batches_and_acknowledges_them_with_its_next_fetch(client: Client, version: int) -> None:
    produce(client, "t", b"a", b"b")
    produce(client, "t", b"c")
    member = ShareMember(client, "m", version=version)
    first = member.fetch()
    assert acquired(first) == [(0, 2, 1)]
    assert first.acquisition_lock_timeout_ms == 30_000
    assert [(header.base_offset, header.last_offset) for _, header in split_batches(bytes(partition(first).records))] == [(0, 1), (2, 2)]
    second = member.fetch([(0, 2, [ACCEPT])])
    assert (partition(second).acknowledge_error_code, acquired(second)) == (0, [])
    produce(client, "t", b"d")
    assert acquired(member.fetch()) == [(3, 3, 1)]


def test_a_released_record_is_acquired_again_by_the_same_request(client: Client) -> None:
    produce(client, "t", b"a", b"b", b"c")
    member = ShareMember(client, "m")
    assert acquired(member.fetch()) == [(0, 2, 1)]
    assert acquired(member.fetch([(0, 2, [ACCEPT, RELEASE, REJECT])])) == [(1, 1, 2)]


def test_two_members_share_the_records_of_a_partition(client: Client, broker: RunningBroker) -> None:
    for value in (b"a", b"b"):
        produce(client, "t", value)
    with broker.client() as other:
        assert acquired(ShareMember(client, "m").fetch(max_records=1)) == [(0, 0, 1)]
        assert acquired(ShareMember(other, "n").fetch()) == [(1, 1, 1)]


def test_record_limit_mode_acquires_exactly_as_many_records_as_asked_for(client: Client, broker: RunningBroker) -> None:
    produce(client, "t", b"a", b"b", b"c", b"d")
    assert acquired(ShareMember(client, "m").fetch(max_records=3, share_acquire_mode=1)) == [(0, 2, 1)]
    with broker.client() as other:
        assert acquired(ShareMember(other, "n").fetch(max_records=3)) == [(3, 3, 1)]


def test_batch_optimized_mode_splits_acquired_records_by_the_batch_size(client: Client) -> None:
    for _ in range(3):
        produce(client, "t", b"a", b"b")
    assert acquired(ShareMember(client, "m").fetch(batch_size=3)) == [(0, 3, 1), (4, 5, 1)]


def parked(broker: RunningBroker) -> None:
    """Wait until one ShareFetch waits at the broker."""
    broker.call_until(lambda running: running.services.share.fetches.waiting == 1)


def test_a_fetch_waits_for_records(client: Client, broker: RunningBroker) -> None:
    with broker.client() as reader:
        member = ShareMember(reader, "m")
        member.begin()
        parked(broker)
        produce(client, "t", b"a")
        assert acquired(member.end()) == [(0, 0, 1)]


def test_a_fetch_waits_for_records_that_another_member_releases(client: Client, broker: RunningBroker) -> None:
    produce(client, "t", b"a")
    holder = ShareMember(client, "n")
    assert acquired(holder.fetch()) == [(0, 0, 1)]
    with broker.client() as reader:
        member = ShareMember(reader, "m")
        member.begin()
        parked(broker)
        holder.acknowledge((0, 0, [RELEASE]))
        assert acquired(member.end()) == [(0, 0, 2)]


def test_a_fetch_ends_at_its_deadline_without_records(client: Client) -> None:
    member = ShareMember(client, "m")
    assert acquired(member.fetch(max_wait_ms=10)) == []


def test_records_acquired_by_a_closed_connection_are_available_to_others(client: Client, broker: RunningBroker) -> None:
    produce(client, "t", b"a")
    with broker.client() as other:
        assert acquired(ShareMember(other, "n").fetch()) == [(0, 0, 1)]
    assert acquired(ShareMember(client, "m").fetch(max_wait_ms=20_000)) == [(0, 0, 2)]


def test_a_closed_connection_ends_the_sessions_of_all_members_that_used_it(client: Client, broker: RunningBroker) -> None:
    produce(client, "t", b"a")
    with broker.client() as other:
        assert acquired(ShareMember(other, "n").fetch()) == [(0, 0, 1)]
        assert acquired(ShareMember(other, "o").fetch()) == []
    broker.call_until(lambda running: len(running.services.share.partitions.sessions) == 0)
    assert acquired(ShareMember(client, "m").fetch()) == [(0, 0, 2)]


def test_a_closed_connection_whose_session_has_ended_drops_the_groups_share_partitions(client: Client, broker: RunningBroker) -> None:
    with broker.client() as other:
        member = ShareMember(other, "n")
        member.fetch()
        member.fetch(share_session_epoch=-1)
        broker.call_until(lambda running: len(running.services.share.partitions) == 1)
    broker.call_until(lambda running: len(running.services.share.partitions) == 0)


def test_final_share_fetch_of_a_session_releases_the_members_records(client: Client) -> None:
    produce(client, "t", b"a", b"b")
    member = ShareMember(client, "m")
    assert acquired(member.fetch()) == [(0, 1, 1)]
    assert acquired(member.fetch([(0, 0, [ACCEPT])], share_session_epoch=-1)) == []
    assert member.fetch().error_code == ErrorCode.SHARE_SESSION_NOT_FOUND
    assert acquired(ShareMember(client, "m").fetch()) == [(1, 1, 2)]


@pytest.fixture
def moved(tmp_path: Path) -> Iterator[RunningBroker]:
    """A broker with topic "t" and a clock that the test can advance."""
    with RunningBroker(tmp_path / "moved", clock=MovableClock()) as broker, broker.client() as client:
        create(client, "t")
        initialize(client)
        configure(client, "g", **EARLIEST)
        yield broker


def test_a_record_whose_locks_expire_is_delivered_five_times_and_then_archived(moved: RunningBroker) -> None:
    with moved.client() as client:
        produce(client, "t", b"a")
        member = ShareMember(client, "m")
        assert acquired(member.fetch()) == [(0, 0, 1)]
        assert acquired(member.fetch()) == []
        for count in range(2, 6):
            moved.clock.advance(30)
            assert acquired(member.fetch()) == [(0, 0, count)]
        moved.clock.advance(30)
        produce(client, "t", b"b")
        assert acquired(member.fetch()) == [(1, 1, 1)]


def test_an_expired_lock_lets_a_waiting_fetch_acquire_the_record(moved: RunningBroker) -> None:
    with moved.client() as client, moved.client() as reader:
        produce(client, "t", b"a")
        assert acquired(ShareMember(client, "n").fetch()) == [(0, 0, 1)]
        moved.clock.advance(10)
        member = ShareMember(reader, "m")
        member.begin()
        parked(moved)
        moved.clock.advance(20)
        assert acquired(member.end()) == [(0, 0, 2)]


def test_a_renewed_lock_lasts_longer(moved: RunningBroker) -> None:
    with moved.client() as client:
        produce(client, "t", b"a", b"b")
        member = ShareMember(client, "m")
        assert acquired(member.fetch()) == [(0, 1, 1)]
        moved.clock.advance(20)
        renewed = member.fetch([(0, 0, [RENEW])], is_renew_ack=True, min_bytes=0, max_records=0, max_bytes=0)
        assert partition(renewed).acknowledge_error_code == 0
        moved.clock.advance(20)
        assert acquired(member.fetch()) == [(1, 1, 2)]


@pytest.mark.parametrize("limit", ["max_bytes", "min_bytes", "max_records", "max_wait_ms"])
def test_a_request_that_renews_locks_must_not_fetch(client: Client, limit: str) -> None:
    nothing = {"max_bytes": 0, "min_bytes": 0, "max_records": 0, "max_wait_ms": 0}
    member = ShareMember(client, "m")
    assert member.fetch(is_renew_ack=True, **(nothing | {limit: 1})).error_code == ErrorCode.INVALID_REQUEST


def test_records_below_a_new_log_start_are_not_delivered_any_more(client: Client) -> None:
    produce(client, "t", b"a")
    produce(client, "t", b"b")
    member = ShareMember(client, "m")
    client.call(DeleteRecordsRequest([DeleteRecordsTopic("t", [DeleteRecordsPartition(0, 1)])], 10_000))
    assert acquired(member.fetch()) == [(1, 1, 1)]


@pytest.mark.parametrize(("reset", "expected"), [("latest", []), ("earliest", [(0, 0, 1)]), ("by_duration:PT1H", [(0, 0, 1)])])
def test_a_new_group_starts_where_its_offset_reset_says(client: Client, reset: str, expected: list[tuple[int, int, int]]) -> None:
    produce(client, "t", b"a")
    configure(client, "g", share__auto__offset__reset=reset)
    assert acquired(ShareMember(client, "m").fetch()) == expected


def test_a_group_that_reads_committed_records_skips_aborted_transactions(client: Client) -> None:
    configure(client, "g", share__isolation__level="read_committed")
    for value, committed in ((b"aborted", False), (b"committed", True)):
        holder = txn_calls.init(client)
        holder.add(("t", 0))
        ids: dict[str, Any] = {"producer_id": holder.producer_id, "producer_epoch": holder.epoch, "base_sequence": 0}
        batch = build_batch([SimpleRecord(None, value, time_ns() // 1_000_000)], transactional=True, **ids)
        assert produce_as(client, "tx", batch).error_code == 0
        holder.end(commit=committed)
    assert acquired(ShareMember(client, "m").fetch(max_wait_ms=20_000)) == [(1, 3, 1)]


def test_partitions_take_turns(client: Client) -> None:
    for index in (0, 1, 2):
        produce(client, "t", b"a", partition=index)
    member = ShareMember(client, "m", partitions=(0, 1, 2))
    found = []
    for _ in range(3):
        response = member.fetch(max_records=1)
        found += [data.partition_index for topic in response.responses for data in topic.partitions if data.acquired_records]
    assert sorted(found) == [0, 1, 2]


def test_a_forgotten_partition_is_not_fetched_any_more(client: Client) -> None:
    member = ShareMember(client, "m", partitions=(0, 1))
    member.fetch()
    member.forget(0)
    produce(client, "t", b"a", partition=0)
    produce(client, "t", b"b", partition=1)
    assert partition(member.fetch()).partition_index == 1


def test_a_session_refuses_a_wrong_epoch_and_is_replaced_by_epoch_0(client: Client) -> None:
    member = ShareMember(client, "m")
    assert member.fetch(share_session_epoch=1).error_code == ErrorCode.SHARE_SESSION_NOT_FOUND
    member.fetch()
    assert member.fetch(share_session_epoch=7).error_code == ErrorCode.INVALID_SHARE_SESSION_EPOCH
    member.epoch = 0
    assert member.fetch().error_code == 0
    assert member.epoch == 1


def test_the_first_request_of_a_session_must_not_acknowledge(client: Client) -> None:
    assert ShareMember(client, "m").fetch([(0, 0, [ACCEPT])]).error_code == ErrorCode.INVALID_REQUEST


@pytest.mark.broker_settings({"group.share.max.share.sessions": "1"})
def test_a_member_gets_no_session_if_there_are_too_many(client: Client) -> None:
    assert ShareMember(client, "m").fetch().error_code == 0
    assert ShareMember(client, "n").fetch(max_wait_ms=1).error_code == ErrorCode.SHARE_SESSION_LIMIT_REACHED


@pytest.mark.broker_settings({"group.share.max.share.sessions": "1"})
def test_a_member_without_a_session_waits_only_while_it_is_connected(broker: RunningBroker, client: Client) -> None:
    assert ShareMember(client, "m").fetch().error_code == 0
    with broker.client() as other:
        other.send(ShareFetchRequest("g", "n" * 22, max_wait_ms=2**31 - 1), 1)
        broker.call_until(lambda running: running.waiting_requests == 1)
    broker.call_until(lambda running: running.waiting_requests == 0)


@pytest.mark.parametrize(
    ("changes", "error"),
    [({"group_id": None}, 42), ({"member_id": ""}, 42), ({"member_id": "m" * 37}, 42), ({"share_acquire_mode": 2}, -1)],
)
def test_an_invalid_request_is_refused(client: Client, changes: dict[str, Any], error: int) -> None:
    assert ShareMember(client, "m").fetch(**changes).error_code == error


def test_unknown_topics_and_partitions_have_their_errors(client: Client) -> None:
    member = ShareMember(client, "m", partitions=(9,))
    assert partition(member.fetch()).error_code == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    unknown = [ShareTopic(bytes(15) + b"x", [SharePartition(0)])]
    other = ShareMember(client, "n").fetch(topics=unknown)
    assert partition(other).error_code == ErrorCode.UNKNOWN_TOPIC_ID


def test_a_deleted_topic_is_answered_with_its_error(client: Client) -> None:
    member = ShareMember(client, "m")
    member.fetch()
    delete(client, "t")
    assert partition(member.fetch()).error_code == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION


def test_the_state_survives_a_kill(broker: RunningBroker, client: Client) -> None:
    produce(client, "t", b"a", b"b", b"c")
    member = ShareMember(client, "m")
    assert acquired(member.fetch()) == [(0, 2, 1)]
    member.acknowledge((0, 0, [ACCEPT]), (1, 1, [RELEASE]))
    broker.kill()
    broker.start()
    with broker.client() as again:
        assert acquired(ShareMember(again, "m").fetch()) == [(1, 1, 2), (2, 2, 1)]


def test_a_group_coordinator_has_to_know_the_partition(client: Client) -> None:
    create(client, "unknown")
    refused = partition(ShareMember(client, "m", topic="unknown").fetch())
    assert refused.error_code == ErrorCode.UNKNOWN_SERVER_ERROR
