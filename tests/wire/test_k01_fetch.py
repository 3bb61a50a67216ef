from __future__ import annotations

import threading
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from ottla.broker.core import limits
from ottla.protocol.api_keys import ApiKey
from ottla.protocol.client import Client
from ottla.protocol.codec import decode_response, encode_request
from ottla.protocol.error_codes import ErrorCode
from ottla.protocol.messages.k00_produce import PartitionProduceData, ProduceRequest, TopicProduceData
from ottla.protocol.messages.k01_fetch import FetchPartition, FetchRequest, FetchResponse, FetchTopic, ForgottenTopic
from ottla.protocol.messages.k02_list_offsets import ListOffsetsPartition, ListOffsetsRequest, ListOffsetsTopic
from ottla.protocol.messages.k21_delete_records import DeleteRecordsPartition, DeleteRecordsRequest, DeleteRecordsTopic
from ottla.protocol.records.batch import read_header, split_batches
from ottla.protocol.records.compression import Codec
from ottla.protocol.records.record import SimpleRecord, build_batch, iter_records
from tests.support.running_broker import RunningBroker
from tests.support.topic_calls import create, delete, produce
from tests.support.txn_calls import init


def request(*partitions: FetchPartition, topic: str = "t", topic_id: bytes = bytes(16), **fields: Any) -> FetchRequest:
    given = {"max_wait_ms": 0, "min_bytes": 1, "session_epoch": -1, **fields}
    return FetchRequest(topics=[FetchTopic(topic, topic_id, list(partitions))] if partitions else [], **given)


def part(index: int = 0, offset: int = 0, max_bytes: int = 1 << 20, **fields: Any) -> FetchPartition:
    return FetchPartition(index, fetch_offset=offset, partition_max_bytes=max_bytes, **fields)


def fetch(client: Client, fetch_request: FetchRequest, version: int = 12) -> FetchResponse:
    response = client.call(fetch_request, version=version)
    assert isinstance(response, FetchResponse)
    return response


def values(response: FetchResponse) -> list[bytes]:
    found = []
    for topic in response.responses:
        for data in topic.partitions:
            records = bytes(data.records or b"")
            for pos, header in split_batches(records):
                found += [bytes(record.value or b"") for record in iter_records(records[pos : pos + header.size_bytes])]
    return found


def partitions_of(response: FetchResponse) -> Sequence[int]:
    return [data.partition_index for topic in response.responses for data in topic.partitions]


MANY = limits.FETCHED_AT_ONCE + 20


def test_very_many_partitions_are_read_in_order_and_the_first_with_records_returns_a_batch(client: Client) -> None:
    create(client, "t", MANY)
    for index in (3, MANY - 1):
        produce(client, "t", b"of %d" % index, partition=index)
    response = fetch(client, request(*[part(index) for index in range(MANY)], session_epoch=0))
    assert partitions_of(response) == list(range(MANY))
    assert values(response) == [b"of 3", b"of %d" % (MANY - 1)]
    assert response.session_id > 0
    small = fetch(client, request(*[part(index) for index in range(MANY)], max_bytes=1))
    assert values(small) == [b"of 3"]


def test_a_fetch_of_very_many_partitions_waits_for_an_append_and_ends_at_its_deadline(client: Client, broker: RunningBroker) -> None:
    create(client, "t", MANY)
    parts = [part(index) for index in range(MANY)]
    assert values(fetch(client, request(*parts, max_wait_ms=20))) == []
    with Client("127.0.0.1", broker.port) as other:
        sent = other.send(request(*parts, max_wait_ms=60_000), 12)
        produce(client, "t", b"late", partition=MANY - 1)
        correlation_id, response = decode_response(ApiKey.FETCH, 12, other.read_frame())
    assert correlation_id == sent
    assert values(response) == [b"late"]


@pytest.mark.parametrize("between", [0, 5_000], ids=["one after the other", "far apart"])
def test_last_occurrence_of_a_duplicate_partition_counts(client: Client, between: int) -> None:
    create(client, "t")
    produce(client, "t", b"a", b"b")
    produce(client, "t", b"c")
    unknown = [part(index) for index in range(1, 1 + between)]
    response = fetch(client, request(part(0, 0), *unknown, part(0, 2)))
    assert (partitions_of(response), values(response)) == ([*range(1 + between)], [b"c"])


@pytest.mark.parametrize(
    "fetch_request",
    [request(part(), isolation_level=2), request(part(), max_bytes=-1), request(part(max_bytes=-1))],
    ids=["level", "all", "one"],
)
def test_invalid_isolation_level_or_size_is_rejected(client: Client, fetch_request: FetchRequest) -> None:
    create(client, "t")
    produce(client, "t", b"a")
    (data,) = fetch(client, fetch_request).responses[0].partitions
    assert (data.error_code, data.records) == (ErrorCode.INVALID_REQUEST, b"")


@pytest.mark.parametrize("epoch", [-1, -2])
def test_a_negative_leader_epoch_is_none(client: Client, epoch: int) -> None:
    create(client, "t")
    produce(client, "t", b"a")
    assert values(fetch(client, request(part(current_leader_epoch=epoch)))) == [b"a"]


@pytest.mark.parametrize("version", range(4, 13))
def test_every_version_by_name_reads_produced_records(client: Client, version: int) -> None:
    create(client, "t")
    produce(client, "t", b"a", b"b")
    response = fetch(client, request(part()), version)
    (data,) = response.responses[0].partitions
    assert values(response) == [b"a", b"b"]
    assert (data.error_code, data.high_watermark, data.last_stable_offset) == (0, 2, 2)
    assert data.log_start_offset == (0 if version >= 5 else -1)
    assert data.aborted_transactions is None


@pytest.mark.parametrize("version", range(13, 19))
def test_every_later_version_reads_by_topic_id(client: Client, version: int) -> None:
    topic_id = create(client, "t").topic_id
    produce(client, "t", b"a")
    assert values(fetch(client, request(part(), topic="", topic_id=topic_id), version)) == [b"a"]
    unknown = fetch(client, request(part(), topic="", topic_id=b"\x09" * 16), version).responses[0].partitions[0]
    assert (unknown.error_code, unknown.records) == (ErrorCode.UNKNOWN_TOPIC_ID, b"")
    assert unknown.aborted_transactions == []


def test_a_session_by_topic_id_knows_a_deleted_topic_by_its_name(client: Client) -> None:
    def errors(**fields: Any) -> list[int]:
        response = fetch(client, request(topic="", session_id=session, **fields), 13)
        return [partition.error_code for topic in response.responses for partition in topic.partitions]

    topic_id = create(client, "t").topic_id
    opened = fetch(client, request(part(), part(5), topic="", topic_id=topic_id, session_epoch=0), 13)
    session = opened.session_id
    delete(client, "t")
    assert errors(session_epoch=1) == [ErrorCode.UNKNOWN_TOPIC_OR_PARTITION] * 2
    create(client, "t")
    assert errors(session_epoch=2) == [ErrorCode.INCONSISTENT_TOPIC_ID, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION]
    (found,) = fetch(client, request(part(), topic="", topic_id=topic_id), 13).responses[0].partitions
    assert found.error_code == ErrorCode.UNKNOWN_TOPIC_ID


@pytest.mark.parametrize(("offset", "error"), [(-1, 1), (0, 0), (1, 0), (2, 0), (3, 1)])
def test_offsets_outside_the_log_are_out_of_range_and_its_end_is_not(client: Client, offset: int, error: int) -> None:
    create(client, "t")
    produce(client, "t", b"a", b"b")
    (data,) = fetch(client, request(part(offset=offset))).responses[0].partitions
    assert data.error_code == error
    assert (data.high_watermark, data.log_start_offset) == ((-1, -1) if error else (2, 0))


def test_an_offset_below_the_log_start_is_out_of_range(client: Client) -> None:
    create(client, "t")
    produce(client, "t", b"a", b"b")
    client.call(DeleteRecordsRequest([DeleteRecordsTopic("t", [DeleteRecordsPartition(0, 1)])], 1000))
    assert fetch(client, request(part(offset=0))).responses[0].partitions[0].error_code == ErrorCode.OFFSET_OUT_OF_RANGE


def test_the_first_batch_comes_whole_however_small_the_limits_and_the_others_wait(client: Client) -> None:
    create(client, "t", partitions=2)
    for partition in (0, 1):
        produce(client, "t", b"x" * 1000, partition=partition)
    response = fetch(client, request(part(0, max_bytes=10), part(1, max_bytes=10), max_bytes=20))
    first, second = response.responses[0].partitions
    assert len(first.records or b"") > 1000
    assert (second.error_code, second.records, second.high_watermark) == (0, b"", 1)


def test_max_bytes_bounds_all_partitions_together(client: Client) -> None:
    create(client, "t", partitions=3)
    for partition in range(3):
        for _ in range(5):
            produce(client, "t", b"x" * 1000, partition=partition)
    response = fetch(client, request(*[part(index) for index in range(3)], max_bytes=6000))
    sizes = [len(data.records or b"") for data in response.responses[0].partitions]
    assert sizes[0] > 5000
    assert sum(sizes) <= 6000


def test_read_committed_names_aborted_transactions_and_read_uncommitted_none(client: Client) -> None:
    create(client, "t")
    produce(client, "t", b"a")
    committed = fetch(client, request(part(), isolation_level=1)).responses[0].partitions[0]
    assert (committed.aborted_transactions, committed.last_stable_offset) == ([], 1)


def test_a_read_with_very_many_aborted_transactions_is_shortened(client: Client, monkeypatch: pytest.MonkeyPatch) -> None:
    create(client, "t")
    holder = init(client)
    for sequence in range(12):
        while holder.add(("t", 0)) != [0]:  # the previous transaction is still being completed
            pass
        batch = build_batch(
            [SimpleRecord(None, b"x")], producer_id=holder.producer_id, producer_epoch=0, base_sequence=sequence, transactional=True
        )
        data = TopicProduceData("t", partition_data=[PartitionProduceData(0, batch)])
        produced = client.call(ProduceRequest("tx", acks=-1, timeout_ms=10_000, topic_data=[data]), version=9)
        assert produced.responses[0].partition_responses[0].error_code == 0
        assert holder.end(commit=False).error_code == 0
    monkeypatch.setattr(limits, "ABORTED_AT_ONCE", 6)
    read = fetch(client, request(part(), isolation_level=1)).responses[0].partitions[0]
    offsets = [header.base_offset for _, header in split_batches(bytes(read.records or b""))]
    assert offsets in (list(range(11)), list(range(12)))  # half of all batches


def test_a_long_poll_ends_by_the_append_that_it_waits_for(broker: RunningBroker, client: Client) -> None:
    create(client, "t")
    with broker.client() as reader:
        reader.send(request(part(), max_wait_ms=60_000), 12)
        broker.call_until(lambda running: running.services.fetch_purgatory.waiting == 1)
        produce(client, "t", b"now")
        assert values(decode_response(1, 12, reader.read_frame())[1]) == [b"now"]


@pytest.mark.parametrize("later", [[0], [1], [0, 1], [1, 0]])
def test_long_poll_of_several_partitions_returns_each_ones_records_when_it_ends(
    broker: RunningBroker, client: Client, later: list[int]
) -> None:
    create(client, "t", partitions=2)
    with broker.client() as reader:
        reader.send(request(part(0), part(1), max_wait_ms=60_000, min_bytes=60 * len(later)), 12)
        broker.call_until(lambda running: running.services.fetch_purgatory.waiting == 1)
        for index in later:
            produce(client, "t", b"%d" % index, partition=index)
        found = decode_response(1, 12, reader.read_frame())[1]
    assert [(data.high_watermark, bool(data.records)) for data in found.responses[0].partitions] == [
        (later.count(index), index in later) for index in (0, 1)
    ]


def test_a_long_poll_waits_for_min_bytes(broker: RunningBroker, client: Client) -> None:
    create(client, "t")
    with broker.client() as reader:
        reader.send(request(part(), max_wait_ms=60_000, min_bytes=200), 12)
        for value in (b"a" * 50, b"b" * 50):
            broker.call_until(lambda running: running.services.fetch_purgatory.waiting == 1)
            produce(client, "t", value)
        broker.call_until(lambda running: running.services.fetch_purgatory.waiting == 0)
        assert values(decode_response(1, 12, reader.read_frame())[1]) == [b"a" * 50, b"b" * 50]


def test_long_poll_waits_for_at_most_fetch_max_bytes(tmp_path: Path) -> None:
    with RunningBroker(tmp_path / "data", {"fetch.max.bytes": "1024"}) as broker, broker.client() as client:
        create(client, "t")
        produce(client, "t", b"x" * 1024)
        assert values(fetch(client, request(part(), max_wait_ms=60_000, min_bytes=1 << 30))) == [b"x" * 1024]


@pytest.mark.parametrize("later", [[], [b"new"]])
def test_read_that_ends_with_an_older_segment_does_not_wait_for_min_bytes(
    broker: RunningBroker, client: Client, later: list[bytes]
) -> None:
    create(client, "t")
    produce(client, "t", b"old")
    broker.call(lambda running: running.services.partitions.get("t", 0).log.roll(running.clock.now_ms()))
    for value in later:
        produce(client, "t", value)
    with broker.client() as reader:
        reader.send(request(part(), max_wait_ms=60_000, min_bytes=1 << 20), 12)
        reader.send(request(part(offset=1 + len(later)), max_wait_ms=60_000), 12)
        broker.call_until(lambda running: running.services.fetch_purgatory.waiting == 1)
        assert values(decode_response(1, 12, reader.read_frame())[1]) == [b"old"]


def test_a_long_poll_ends_empty_when_its_time_is_up(client: Client) -> None:
    create(client, "t")
    began = time.monotonic()
    assert values(fetch(client, request(part(), max_wait_ms=60))) == []
    assert 0.05 < time.monotonic() - began < 30


def test_a_long_poll_over_an_error_is_answered_at_once(client: Client) -> None:
    create(client, "t")
    response = fetch(client, request(part(0), part(9), max_wait_ms=60_000))
    assert [data.error_code for data in response.responses[0].partitions] == [0, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION]


def test_a_long_poll_ends_when_its_topic_is_deleted(broker: RunningBroker, client: Client) -> None:
    create(client, "t")
    with broker.client() as reader:
        reader.send(request(part(), max_wait_ms=60_000), 12)
        broker.call_until(lambda running: running.services.fetch_purgatory.waiting == 1)
        delete(client, "t")
        response = decode_response(1, 12, reader.read_frame())[1]
        assert response.responses[0].partitions[0].error_code == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION


def test_the_long_polls_of_a_connection_wait_one_after_the_other(broker: RunningBroker, client: Client) -> None:
    create(client, "t")
    with broker.client() as reader:
        for _ in range(2):
            reader.send(request(part(), max_wait_ms=60_000), 12)
        reader.send(request(part(offset=1), max_wait_ms=60_000), 12)
        broker.call_until(lambda running: running.services.fetch_purgatory.waiting == 1)
        produce(client, "t", b"now")
        assert [values(decode_response(1, 12, reader.read_frame())[1]) for _ in range(2)] == [[b"now"]] * 2
        broker.call_until(lambda running: running.services.fetch_purgatory.waiting == 1)
        produce(client, "t", b"later")
        assert values(decode_response(1, 12, reader.read_frame())[1]) == [b"later"]


def test_response_is_never_older_than_the_response_before_it_on_the_connection(broker: RunningBroker, client: Client) -> None:
    create(client, "t")
    with broker.client() as reader:
        end = ListOffsetsRequest(topics=[ListOffsetsTopic("t", [ListOffsetsPartition(0, timestamp=-1)])])
        waits = encode_request(1, 12, 1, "test", request(part(), max_wait_ms=60_000))
        reader.send_raw(b"".join(waits + encode_request(2, 5, 2, "test", end)))
        broker.call_until(lambda running: running.services.fetch_purgatory.waiting == 1)
        produce(client, "t", b"now")
        (fetched,) = decode_response(1, 12, reader.read_frame())[1].responses[0].partitions
        (listed,) = decode_response(2, 5, reader.read_frame())[1].topics[0].partitions
        assert (fetched.high_watermark, listed.offset) == (1, 1)


def test_long_poll_of_a_closed_connection_is_cancelled_with_the_requests_behind_it(broker: RunningBroker, client: Client) -> None:
    create(client, "t")
    with broker.client() as reader:
        for _ in range(2):
            reader.send(request(part(), max_wait_ms=60_000), 12)
        broker.call_until(lambda running: running.services.fetch_purgatory.waiting == 1)
    broker.call_until(lambda running: running.services.fetch_purgatory.waiting == 0 and running.connection_count == 1)


def test_long_poll_of_a_closed_connection_is_cancelled(broker: RunningBroker, client: Client) -> None:
    create(client, "t")
    with broker.client() as reader:
        reader.send(request(part(), max_wait_ms=60_000), 12)
        broker.call_until(lambda running: running.services.fetch_purgatory.waiting == 1)
    broker.call_until(lambda running: running.services.fetch_purgatory.waiting == 0)


def test_one_append_completes_the_long_polls_of_many_readers(broker: RunningBroker, client: Client) -> None:
    create(client, "t")
    seen: list[bytes] = []

    def read() -> None:
        with broker.client() as reader:
            seen.extend(values(fetch(reader, request(part(), max_wait_ms=60_000))))

    readers = [threading.Thread(target=read) for _ in range(5)]
    for reader in readers:
        reader.start()
    broker.call_until(lambda running: running.services.fetch_purgatory.waiting == 5)
    produce(client, "t", b"all")
    for reader in readers:
        reader.join(10)
    assert seen == [b"all"] * 5


def test_session_returns_only_changed_partitions(client: Client) -> None:
    create(client, "t", partitions=3)
    opened = fetch(client, request(part(0), part(1), part(2), session_epoch=0))
    assert opened.session_id > 0
    assert partitions_of(opened) == [0, 1, 2]
    produce(client, "t", b"one", partition=1)
    second = fetch(client, request(session_id=opened.session_id, session_epoch=1))
    assert (second.session_id, partitions_of(second), values(second)) == (opened.session_id, [1], [b"one"])
    third = fetch(client, request(part(1, offset=1), session_id=opened.session_id, session_epoch=2))
    assert partitions_of(third) == []
    forgetting = request(session_id=opened.session_id, session_epoch=3)
    forgetting.forgotten_topics_data = [ForgottenTopic("t", partitions=[1])]
    produce(client, "t", b"two", partition=1)
    produce(client, "t", b"three", partition=2)
    assert values(fetch(client, forgetting)) == [b"three"]


@pytest.mark.parametrize(
    ("session_id", "epoch", "error"), [(None, 5, ErrorCode.INVALID_FETCH_SESSION_EPOCH), (12345, 1, ErrorCode.FETCH_SESSION_ID_NOT_FOUND)]
)
def test_a_wrong_session_or_epoch_is_refused_as_a_whole(client: Client, session_id: int | None, epoch: int, error: ErrorCode) -> None:
    create(client, "t")
    opened = fetch(client, request(part(), session_epoch=0)).session_id
    response = fetch(client, request(session_id=opened if session_id is None else session_id, session_epoch=epoch))
    assert (response.error_code, response.responses) == (error, [])


def test_a_session_of_names_is_refused_by_topic_id(client: Client) -> None:
    create(client, "t")
    opened = fetch(client, request(part(), session_epoch=0), 12).session_id
    response = fetch(client, request(session_id=opened, session_epoch=1), 13)
    assert response.error_code == ErrorCode.FETCH_SESSION_TOPIC_ID_ERROR


@pytest.mark.parametrize("version", [12, 16])
def test_old_or_unknown_leader_epoch_is_rejected_with_the_current_leader(broker: RunningBroker, version: int) -> None:
    with broker.client() as client:
        topic_id = create(client, "t").topic_id
    broker.restart(kill=True)
    with broker.client() as client:
        fetch_request = request(part(current_leader_epoch=0), topic="t", topic_id=topic_id)
        response = fetch(client, fetch_request, version)
        (old,) = response.responses[0].partitions
        assert old.error_code == ErrorCode.FENCED_LEADER_EPOCH
        assert (old.current_leader.leader_id, old.current_leader.leader_epoch) == ((1, 1) if version >= 16 else (-1, -1))
        assert [(node.node_id, node.port) for node in response.node_endpoints] == ([(1, broker.port)] if version >= 16 else [])
        (new,) = fetch(client, request(part(current_leader_epoch=5), topic_id=topic_id), version).responses[0].partitions
        assert new.error_code == ErrorCode.UNKNOWN_LEADER_EPOCH


def test_diverging_fetch_gets_the_diverging_epoch_and_its_end_offset(broker: RunningBroker) -> None:
    with broker.client() as client:
        create(client, "t")
        produce(client, "t", b"a")
    broker.restart(kill=True)
    with broker.client() as client:
        produce(client, "t", b"b")
        (data,) = fetch(client, request(part(offset=2, last_fetched_epoch=0), max_wait_ms=60_000)).responses[0].partitions
        assert (data.error_code, data.diverging_epoch.epoch, data.diverging_epoch.end_offset, data.records) == (0, 0, 1, b"")
        (same,) = fetch(client, request(part(offset=1, last_fetched_epoch=0))).responses[0].partitions
        assert (same.diverging_epoch.epoch, bool(same.records)) == (-1, True)


@pytest.mark.parametrize(("epoch", "error"), [(-1, ErrorCode.NOT_LEADER_OR_FOLLOWER), (0, ErrorCode.UNKNOWN_LEADER_EPOCH)])
def test_fetch_of_an_unknown_replica_is_rejected(client: Client, epoch: int, error: ErrorCode) -> None:
    create(client, "t")
    produce(client, "t", b"a")
    (data,) = fetch(client, request(part(current_leader_epoch=epoch), replica_id=7)).responses[0].partitions
    assert (data.error_code, data.records) == (error, b"")


@pytest.mark.parametrize("version", [4, 9, 10])
def test_a_zstd_topic_is_read_at_every_version(client: Client, version: int) -> None:
    """Apache Kafka 4 rejects no version, though clients must know zstd only from version 10 on: rskafka reads such topics with
    version 4."""
    create(client, "t", configs={"compression.type": "zstd"})
    produce(client, "t", b"a")
    (data,) = fetch(client, request(part()), version).responses[0].partitions
    assert (data.error_code, read_header(data.records or b"").codec) == (ErrorCode.NONE, Codec.ZSTD)


def test_an_append_in_the_same_turn_as_the_long_poll_is_not_missed(broker: RunningBroker, client: Client) -> None:
    create(client, "t")
    fetch_request = request(part(), max_wait_ms=60_000)
    for value in range(200):
        fetch_request.topics[0].partitions[0].fetch_offset = value
        with broker.client() as reader:
            reader.send(fetch_request, 12)
            produce(client, "t", b"%d" % value)
            assert values(decode_response(1, 12, reader.read_frame())[1]) == [b"%d" % value]


def test_a_batch_damaged_on_disk_is_an_error_of_its_partition_and_no_bytes(broker: RunningBroker, client: Client) -> None:
    create(client, "t", partitions=2)
    for index in range(2):
        produce(client, "t", b"a", partition=index)
    with (broker.data_dir / "t-0" / f"{0:020d}.log").open("r+b") as log:
        log.write(bytes(12))
    damaged, whole = fetch(client, request(part(0), part(1))).responses[0].partitions
    assert (damaged.error_code, bytes(damaged.records or b"")) == (ErrorCode.CORRUPT_MESSAGE, b"")
    assert (whole.error_code, bool(whole.records)) == (ErrorCode.NONE, True)


def test_unknown_partitions_follow_those_that_were_read(client: Client) -> None:
    topic_id = create(client, "t", 2).topic_id
    topics = [FetchTopic("no", b"\x07" * 16, [part()]), FetchTopic("t", topic_id, [part(9), part(1), part(0, 5)])]
    for version, order in ((12, [1, 0, 0, 9]), (13, [1, 0, 0, 9])):
        response = fetch(client, FetchRequest(max_wait_ms=0, session_epoch=-1, topics=topics), version)
        assert partitions_of(response) == order
        assert [topic.topic or topic.topic_id for topic in response.responses] == (
            ["t", "no", "t"] if version == 12 else [topic_id, b"\x07" * 16, topic_id]
        )
    topics.reverse()
    assert partitions_of(fetch(client, FetchRequest(max_wait_ms=0, session_epoch=-1, topics=topics), 12)) == [1, 0, 9, 0]
    assert partitions_of(fetch(client, FetchRequest(max_wait_ms=0, session_epoch=-1, topics=topics), 13)) == [1, 0, 0, 9]
