from __future__ import annotations

from typing import Any

import pytest

from protocol.client import Client
from protocol.error_codes import ErrorCode
from protocol.messages.k00_produce import PartitionProduceData, PartitionProduceResponse, ProduceRequest, TopicProduceData
from protocol.messages.k03_metadata import MetadataRequest, MetadataRequestTopic
from protocol.records.compression import Codec
from protocol.records.record import SimpleRecord, build_batch
from tests.support.running_broker import RunningBroker
from tests.support.topic_calls import create


def batch(*values: bytes, **fields: Any) -> bytes:
    return build_batch([SimpleRecord(None, value, 1_000) for value in values or (b"x",)], **fields)


def produce(
    client: Client, records: bytes | None, *, version: int = 12, topic: str = "t", index: int = 0, acks: int = -1
) -> PartitionProduceResponse:
    request = ProduceRequest(
        acks=acks, timeout_ms=5000, topic_data=[TopicProduceData(topic, partition_data=[PartitionProduceData(index, records)])]
    )
    return client.call(request, version=version).responses[0].partition_responses[0]


@pytest.mark.parametrize("version", range(3, 13))
def test_every_version_by_name_appends_and_answers_the_offset(client: Client, version: int) -> None:
    create(client, "t")
    assert produce(client, batch(b"a", b"b"), version=version).base_offset == 0
    answer = produce(client, batch(b"c"), version=version)
    assert (answer.error_code, answer.base_offset, answer.log_append_time_ms) == (0, 2, -1)
    assert answer.log_start_offset == (0 if version >= 5 else -1)


def test_version_13_names_the_topic_by_its_id(client: Client) -> None:
    topic_id = create(client, "t").topic_id
    for given, error in [(topic_id, ErrorCode.NONE), (b"\x07" * 16, ErrorCode.UNKNOWN_TOPIC_ID)]:
        request = ProduceRequest(acks=1, topic_data=[TopicProduceData(topic_id=given, partition_data=[PartitionProduceData(0, batch())])])
        (topic,) = client.call(request, version=13).responses
        assert (topic.topic_id, topic.partition_responses[0].error_code) == (given, error)


def test_each_partition_fails_or_succeeds_for_itself(client: Client) -> None:
    create(client, "t", partitions=2)
    data = [PartitionProduceData(index, records) for index, records in [(0, batch()), (1, b"garbage" * 20), (7, batch()), (1, batch())]]
    request = ProduceRequest(acks=1, topic_data=[TopicProduceData("t", partition_data=data)])
    answers = client.call(request, version=9).responses[0].partition_responses
    assert [(answer.index, answer.error_code) for answer in answers] == [
        (0, ErrorCode.NONE),
        (1, ErrorCode.CORRUPT_MESSAGE),
        (7, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION),
        (1, ErrorCode.NONE),
    ]
    assert [answer.base_offset for answer in answers] == [0, -1, -1, 0]


@pytest.mark.parametrize(
    ("records", "error"),
    [
        (None, ErrorCode.INVALID_RECORD),
        (b"", ErrorCode.INVALID_RECORD),
        (b"short", ErrorCode.INVALID_RECORD),
        (batch() + batch(), ErrorCode.INVALID_RECORD),
        (batch()[:16] + b"\x01" + batch()[17:], ErrorCode.INVALID_RECORD),
        (batch()[:-1] + b"\xff", ErrorCode.CORRUPT_MESSAGE),
        (batch(control=True, transactional=False), ErrorCode.INVALID_RECORD),
    ],
    ids=["null", "empty", "short", "two batches", "magic 1", "bad crc", "control"],
)
def test_records_that_are_not_one_good_batch_are_refused(client: Client, records: bytes | None, error: ErrorCode) -> None:
    create(client, "t")
    answer = produce(client, records)
    assert (answer.error_code, answer.base_offset) == (error, -1)
    assert answer.error_message
    assert produce(client, batch()).base_offset == 0


def test_a_partial_batch_behind_a_whole_one_is_cut_off(client: Client) -> None:
    create(client, "t")
    assert produce(client, batch(b"a") + batch(b"b")[:40]).base_offset == 0
    assert produce(client, batch()).base_offset == 1


@pytest.mark.parametrize(("version", "error"), [(6, ErrorCode.UNSUPPORTED_COMPRESSION_TYPE), (7, ErrorCode.NONE)])
def test_zstd_needs_version_7(client: Client, version: int, error: ErrorCode) -> None:
    create(client, "t")
    assert produce(client, batch(codec=Codec.ZSTD), version=version).error_code == error


@pytest.mark.parametrize("acks", [2, -2, 100])
def test_other_acks_than_0_1_and_all_are_refused_and_nothing_is_written(client: Client, acks: int) -> None:
    create(client, "t")
    assert produce(client, batch(), acks=acks).error_code == ErrorCode.INVALID_REQUIRED_ACKS
    assert produce(client, batch()).base_offset == 0


def test_acks_0_is_not_answered_and_later_requests_are(client: Client) -> None:
    create(client, "t")
    request = ProduceRequest(acks=0, topic_data=[TopicProduceData("t", partition_data=[PartitionProduceData(0, batch())])])
    assert client.call(request, version=9) is None
    assert produce(client, batch()).base_offset == 1


def test_acks_0_closes_the_connection_when_it_fails_and_no_other(broker: RunningBroker, client: Client) -> None:
    create(client, "t")
    request = ProduceRequest(acks=0, topic_data=[TopicProduceData("t", partition_data=[PartitionProduceData(5, batch())])])
    with broker.client() as other:
        other.call(request, version=9)
        with pytest.raises(ConnectionError):
            other.read_frame()
    assert produce(client, batch()).error_code == 0


@pytest.mark.parametrize("version", [0, 1, 2])
def test_versions_that_are_advertised_for_librdkafka_alone_close_the_connection(client: Client, version: int) -> None:
    client.send_raw(b"\x00\x00\x00\x0c\x00\x00" + version.to_bytes(2, "big") + b"\x00\x00\x00\x01\xff\xff\x00\x00")
    with pytest.raises(ConnectionError):
        client.read_frame()


def test_an_exact_retry_is_answered_with_its_original_offset_and_written_once(client: Client) -> None:
    create(client, "t")
    first, second = (batch(b"x", producer_id=5, producer_epoch=0, base_sequence=sequence) for sequence in (0, 1))
    assert [produce(client, sent).base_offset for sent in (first, second, first, second)] == [0, 1, 0, 1]
    assert produce(client, batch()).base_offset == 2


def test_a_gap_in_the_sequence_is_refused(client: Client) -> None:
    create(client, "t")
    produce(client, batch(producer_id=5, producer_epoch=0, base_sequence=0))
    answer = produce(client, batch(producer_id=5, producer_epoch=0, base_sequence=2))
    assert answer.error_code == ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER


@pytest.mark.parametrize(("version", "error"), [(10, ErrorCode.INVALID_TXN_STATE), (11, ErrorCode.TRANSACTION_ABORTABLE)])
def test_transactional_batches_are_refused(client: Client, version: int, error: ErrorCode) -> None:
    create(client, "t")
    records = batch(producer_id=5, producer_epoch=0, base_sequence=0, transactional=True)
    assert produce(client, records, version=version).error_code == error


def test_records_without_a_key_are_named_when_the_topic_is_compacted(client: Client) -> None:
    create(client, "t", configs={"cleanup.policy": "compact"})
    answer = produce(client, batch(b"a", b"b"))
    assert answer.error_code == ErrorCode.INVALID_RECORD
    assert [error.batch_index for error in answer.record_errors] == [0, 1]


def test_log_append_time_is_answered_where_the_topic_has_it(client: Client) -> None:
    create(client, "t", configs={"message.timestamp.type": "LogAppendTime"})
    assert produce(client, batch()).log_append_time_ms > 1_600_000_000_000


def test_a_batch_above_max_message_bytes_is_refused(client: Client) -> None:
    create(client, "t", configs={"max.message.bytes": "200"})
    assert produce(client, batch(b"x" * 300)).error_code == ErrorCode.MESSAGE_TOO_LARGE


@pytest.mark.parametrize(("client_id", "error"), [("test", ErrorCode.INVALID_TOPIC_EXCEPTION), ("__admin_client", ErrorCode.NONE)])
def test_only_the_admin_client_writes_to_internal_topics(broker: RunningBroker, client_id: str, error: ErrorCode) -> None:
    with broker.client(client_id) as client:
        client.call(MetadataRequest([MetadataRequestTopic(name="__consumer_offsets")], allow_auto_topic_creation=True))
        keyed = build_batch([SimpleRecord(b"key", b"x", 1_000)])
        assert produce(client, keyed, topic="__consumer_offsets").error_code == error


@pytest.mark.parametrize("flush_messages", ["1", "3"])
def test_with_flush_messages_every_append_is_acknowledged_in_the_end(client: Client, flush_messages: str) -> None:
    create(client, "t", configs={"flush.messages": flush_messages})
    assert [produce(client, batch()).base_offset for _ in range(7)] == list(range(7))
