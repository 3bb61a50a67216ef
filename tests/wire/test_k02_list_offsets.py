from __future__ import annotations

import threading
from pathlib import Path

import pytest

from ottla.protocol.client import Client
from ottla.protocol.codec import decode_response
from ottla.protocol.error_codes import ErrorCode
from ottla.protocol.messages.k00_produce import PartitionProduceData, ProduceRequest, TopicProduceData
from ottla.protocol.messages.k02_list_offsets import (
    ListOffsetsPartition,
    ListOffsetsPartitionResponse,
    ListOffsetsRequest,
    ListOffsetsTopic,
)
from ottla.protocol.messages.k21_delete_records import DeleteRecordsPartition, DeleteRecordsRequest, DeleteRecordsTopic
from ottla.protocol.records.record import SimpleRecord, build_batch
from tests.support.running_broker import RunningBroker
from tests.support.topic_calls import create
from tests.support.turn_clock import TurnClock

LATEST, EARLIEST, MAX_TIMESTAMP, EARLIEST_LOCAL, LATEST_TIERED, EARLIEST_PENDING_UPLOAD = range(-1, -7, -1)


def ask(
    client: Client, timestamp: int, *, version: int = 11, topic: str = "t", current: int = -1, isolation: int = 0
) -> ListOffsetsPartitionResponse:
    requested = ListOffsetsTopic(topic, [ListOffsetsPartition(0, current, timestamp)])
    answer = client.call(ListOffsetsRequest(-1, isolation, [requested]), version=version).topics[0].partitions[0]
    assert isinstance(answer, ListOffsetsPartitionResponse)
    return answer


def append(client: Client, *timestamps: int) -> None:
    batch = build_batch([SimpleRecord(None, b"x", timestamp) for timestamp in timestamps])
    data = TopicProduceData("t", partition_data=[PartitionProduceData(0, batch)])
    client.call(ProduceRequest(acks=-1, topic_data=[data]), version=9)


@pytest.fixture
def filled(client: Client) -> Client:
    create(client, "t")
    append(client, 1000, 1010)
    append(client, 1050, 1030)
    append(client, 1040)
    return client


@pytest.mark.parametrize("version", range(1, 12))
def test_every_version_returns_latest_and_earliest(filled: Client, version: int) -> None:
    latest, earliest = ask(filled, LATEST, version=version), ask(filled, EARLIEST, version=version)
    assert (latest.error_code, latest.offset, latest.timestamp) == (0, 5, -1)
    assert (earliest.error_code, earliest.offset, earliest.timestamp) == (0, 0, -1)
    assert latest.leader_epoch == (0 if version >= 4 else -1)


@pytest.mark.parametrize(
    ("timestamp", "offset", "found"), [(0, 0, 1000), (1000, 0, 1000), (1001, 1, 1010), (1011, 2, 1050), (1050, 2, 1050), (1051, -1, -1)]
)
def test_a_timestamp_finds_the_first_record_that_is_not_older(filled: Client, timestamp: int, offset: int, found: int) -> None:
    answer = ask(filled, timestamp)
    assert (answer.error_code, answer.offset, answer.timestamp) == (0, offset, found)


@pytest.mark.parametrize("timestamp", [2000, MAX_TIMESTAMP])
def test_a_batch_with_many_records_is_searched_on_a_thread(filled: Client, timestamp: int) -> None:
    append(filled, *[1050] * 20_000, 2000)
    requested = [ListOffsetsTopic("t", [ListOffsetsPartition(0, -1, timestamp)]), ListOffsetsTopic("none", [ListOffsetsPartition(0)])]
    found, unknown = filled.call(ListOffsetsRequest(-1, 0, requested)).topics
    assert found.partitions == [ListOffsetsPartitionResponse(0, 0, 2000, 20_005, 0)]
    assert unknown.partitions[0].error_code == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION


def test_a_search_over_many_batches_lets_other_requests_run(filled: Client, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("ottla.broker.core.limits.SEARCHED_AT_ONCE_BATCHES", 1)
    append(filled, 5000)
    for _ in range(3):
        append(filled, 1000)
    filled.call(DeleteRecordsRequest([DeleteRecordsTopic("t", [DeleteRecordsPartition(0, 6)])], 1000))
    assert ask(filled, 3000).offset == -1
    append(filled, 4000)
    assert (ask(filled, 3000).offset, ask(filled, 3000).timestamp) == (9, 4000)


def test_other_connections_have_their_turns_while_many_partitions_are_searched(tmp_path: Path) -> None:
    clock, data = TurnClock(), build_batch([SimpleRecord(None, b"x", 1_000)])
    with RunningBroker(tmp_path / "data", clock=clock) as broker, broker.client() as client:
        create(client, "t", partitions=20)
        written = [TopicProduceData("t", partition_data=[PartitionProduceData(index, data) for index in range(20)])]
        client.call(ProduceRequest(acks=1, topic_data=written), version=9)
        clock.start()
        asked = [ListOffsetsTopic("t", [ListOffsetsPartition(index, -1, 1_000) for index in range(20)])]
        (found,) = client.call(ListOffsetsRequest(-1, 0, asked)).topics
    assert found.partitions == [ListOffsetsPartitionResponse(index, 0, 1_000, 0, 0) for index in range(20)]
    assert clock.turns >= 20


def test_requests_that_take_turns_each_search_several_partitions_in_a_turn(tmp_path: Path) -> None:
    clock, gate = TurnClock(readings_per_slice=10), threading.Event()
    with RunningBroker(tmp_path / "data", clock=clock) as broker, broker.client() as client, broker.client() as other:
        create(client, "t", partitions=48)
        asked = [ListOffsetsTopic("t", [ListOffsetsPartition(index, -1, 1_000) for index in range(48)])]
        clock.start(gate)
        for each in (client, other):
            each.send(ListOffsetsRequest(-1, 0, asked), version=5)
        gate.set()
        found = [decode_response(2, 5, each.read_frame())[1].topics[0].partitions for each in (client, other)]
    assert [(each.partition_index, each.error_code) for answer in found for each in answer] == [(n, 0) for n in range(48)] * 2
    assert clock.turns < 48, "each has 48 partitions"


def test_max_timestamp_returns_the_record_with_it_instead_of_the_last_one(filled: Client) -> None:
    answer = ask(filled, MAX_TIMESTAMP)
    assert (answer.offset, answer.timestamp) == (2, 1050)


def test_an_empty_partition_has_no_max_timestamp(client: Client) -> None:
    create(client, "t")
    assert (ask(client, MAX_TIMESTAMP).error_code, ask(client, MAX_TIMESTAMP).offset) == (0, -1)


def test_tiered_offsets_do_not_exist(filled: Client) -> None:
    assert ask(filled, EARLIEST_LOCAL).offset == 0
    for timestamp in (LATEST_TIERED, EARLIEST_PENDING_UPLOAD):
        answer = ask(filled, timestamp)
        assert (answer.error_code, answer.offset, answer.timestamp, answer.leader_epoch) == (0, -1, -1, -1)


@pytest.mark.parametrize(
    ("timestamp", "version"),
    [(MAX_TIMESTAMP, 6), (EARLIEST_LOCAL, 7), (LATEST_TIERED, 8), (EARLIEST_PENDING_UPLOAD, 10), (-7, 11), (-100, 11)],
)
def test_a_special_timestamp_before_its_version_is_rejected(filled: Client, timestamp: int, version: int) -> None:
    assert ask(filled, timestamp, version=version).error_code == ErrorCode.UNSUPPORTED_VERSION


def test_earliest_follows_deleted_records(filled: Client) -> None:
    filled.call(DeleteRecordsRequest([DeleteRecordsTopic("t", [DeleteRecordsPartition(0, 3)])], 1000))
    assert (ask(filled, EARLIEST).offset, ask(filled, 0).offset) == (3, 3)


def test_read_committed_returns_the_same_offset_without_transactions(filled: Client) -> None:
    assert ask(filled, LATEST, isolation=1).offset == 5


def test_a_partition_named_twice_gets_one_error(filled: Client) -> None:
    requested = ListOffsetsTopic("t", [ListOffsetsPartition(0, -1, LATEST), ListOffsetsPartition(0, -1, EARLIEST)])
    answers = filled.call(ListOffsetsRequest(-1, 0, [requested])).topics[0].partitions
    assert [answer.error_code for answer in answers] == [ErrorCode.INVALID_REQUEST]


def test_a_wrong_leader_epoch_and_an_unknown_topic_are_partition_errors(filled: Client) -> None:
    assert ask(filled, LATEST, current=9).error_code == ErrorCode.UNKNOWN_LEADER_EPOCH
    assert ask(filled, LATEST, topic="absent").error_code == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION


def test_entries_of_a_topic_are_merged_and_topics_without_partitions_are_left_out(filled: Client) -> None:
    def named(*indexes: int) -> list[ListOffsetsPartition]:
        return [ListOffsetsPartition(index, -1, LATEST) for index in indexes]

    topics = [ListOffsetsTopic("t", named(0, 1)), ListOffsetsTopic("no", []), ListOffsetsTopic("t", named(2, 1))]
    (topic,) = filled.call(ListOffsetsRequest(-1, 0, topics)).topics
    assert (topic.name, [(each.partition_index, each.error_code) for each in topic.partitions]) == (
        "t",
        [(0, ErrorCode.NONE), (1, ErrorCode.INVALID_REQUEST), (2, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)],
    )


@pytest.mark.parametrize("isolation", [-1, 2])
def test_an_unknown_isolation_level_is_rejected(filled: Client, isolation: int) -> None:
    for version in (2, 11):
        assert ask(filled, LATEST, version=version, isolation=isolation).error_code == ErrorCode.INVALID_REQUEST
    assert ask(filled, LATEST, version=11, topic="no", isolation=isolation).error_code == ErrorCode.INVALID_REQUEST
