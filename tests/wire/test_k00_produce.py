from __future__ import annotations

import threading
from pathlib import Path
from typing import Any

import pytest

from ottla.broker.api.k00_produce import unverified_error
from ottla.broker.core import limits
from ottla.broker.core.rejected import Rejected
from ottla.protocol.client import Client
from ottla.protocol.codec import decode_response, encode_request
from ottla.protocol.error_codes import ErrorCode
from ottla.protocol.messages.k00_produce import (
    PartitionProduceData,
    PartitionProduceResponse,
    ProduceRequest,
    ProduceResponse,
    TopicProduceData,
)
from ottla.protocol.messages.k03_metadata import MetadataRequest
from ottla.protocol.messages.k20_delete_topics import DeleteTopicsRequest
from ottla.protocol.records.batch import pack_header, read_header
from ottla.protocol.records.compression import Codec, compress
from ottla.protocol.records.record import SimpleRecord, build_batch, encode_record
from tests.support.group_calls import find_coordinator, wait_until
from tests.support.running_broker import RunningBroker
from tests.support.topic_calls import create
from tests.support.transactions import Transactional, committed_values, latest, produce_as
from tests.support.turn_clock import TurnClock
from tests.support.txn_calls import init


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
def test_every_version_by_name_appends_and_returns_the_offset(client: Client, version: int) -> None:
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


def test_each_partition_succeeds_or_fails_by_itself(client: Client) -> None:
    create(client, "t", partitions=2)
    data = [PartitionProduceData(index, records) for index, records in [(0, batch()), (1, batch()[:-1] + b"\xff"), (7, batch())]]
    request = ProduceRequest(acks=1, topic_data=[TopicProduceData("t", partition_data=data)])
    answers = client.call(request, version=9).responses[0].partition_responses
    assert [(answer.index, answer.error_code) for answer in answers] == [
        (0, ErrorCode.NONE),
        (1, ErrorCode.CORRUPT_MESSAGE),
        (7, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION),
    ]
    assert [answer.base_offset for answer in answers] == [0, -1, -1]


def test_a_batch_of_impossible_size_or_magic_rejects_the_whole_request(client: Client) -> None:
    create(client, "t", partitions=2)
    cut, magic, size = batch()[:-1], batch()[:16] + b"\x03" + batch()[17:], batch()[:8] + bytes(4) + batch()[12:]
    for records, codes in {
        cut: (ErrorCode.NONE, ErrorCode.INVALID_RECORD),
        magic: (ErrorCode.CORRUPT_MESSAGE, ErrorCode.CORRUPT_MESSAGE),
        size: (ErrorCode.CORRUPT_MESSAGE, ErrorCode.CORRUPT_MESSAGE),
    }.items():
        data = [PartitionProduceData(0, batch()), PartitionProduceData(1, records)]
        request = ProduceRequest(acks=1, topic_data=[TopicProduceData("t", partition_data=data)])
        answers = client.call(request, version=9).responses[0].partition_responses
        assert tuple(answer.error_code for answer in answers) == codes
    assert produce(client, batch()).base_offset == 1


def test_a_producer_epoch_below_minus_one_is_rejected(client: Client) -> None:
    create(client, "t")
    records = batch(producer_id=5, producer_epoch=-2, base_sequence=0)
    assert produce(client, records).error_code == ErrorCode.INVALID_PRODUCER_EPOCH


def test_only_the_last_batch_of_a_partition_named_twice_is_written(client: Client) -> None:
    create(client, "t", partitions=2)
    twice = TopicProduceData("t", partition_data=[PartitionProduceData(0, batch(b"a", b"b")), PartitionProduceData(0, batch(b"c"))])
    again = TopicProduceData("t", partition_data=[PartitionProduceData(1, batch()), PartitionProduceData(0, batch(b"d"))])
    topics = client.call(ProduceRequest(acks=1, topic_data=[twice, again]), version=9).responses
    assert [[(answer.index, answer.base_offset) for answer in topic.partition_responses] for topic in topics] == [[(1, 0), (0, 0)]]
    assert produce(client, batch()).base_offset == 1


@pytest.mark.parametrize(
    ("records", "error"),
    [
        (None, ErrorCode.INVALID_RECORD),
        (b"", ErrorCode.INVALID_RECORD),
        (b"short", ErrorCode.INVALID_RECORD),
        (batch() + batch(), ErrorCode.INVALID_RECORD),
        (batch()[:16] + b"\x01" + batch()[17:], ErrorCode.INVALID_RECORD),
        (batch(transactional=True)[:16] + b"\x01" + batch(transactional=True)[17:], ErrorCode.INVALID_RECORD),
        (batch()[:-1] + b"\xff", ErrorCode.CORRUPT_MESSAGE),
        (batch(control=True, transactional=False), ErrorCode.INVALID_RECORD),
    ],
    ids=["null", "empty", "short", "two batches", "magic 1", "magic 1 with a bit set that means transactional later", "bad crc", "control"],
)
def test_records_other_than_one_valid_batch_are_rejected(client: Client, records: bytes | None, error: ErrorCode) -> None:
    create(client, "t")
    answer = produce(client, records)
    assert (answer.error_code, answer.base_offset) == (error, -1)
    assert answer.error_message
    assert produce(client, batch()).base_offset == 0


def test_a_partial_batch_after_a_whole_one_is_dropped(client: Client) -> None:
    create(client, "t")
    assert produce(client, batch(b"a") + batch(b"b")[:40]).base_offset == 0
    assert produce(client, batch()).base_offset == 1


@pytest.mark.parametrize(("version", "error"), [(6, ErrorCode.UNSUPPORTED_COMPRESSION_TYPE), (7, ErrorCode.NONE)])
def test_zstd_needs_version_7(client: Client, version: int, error: ErrorCode) -> None:
    create(client, "t")
    assert produce(client, batch(codec=Codec.ZSTD), version=version).error_code == error


@pytest.mark.parametrize("acks", [2, -2, 100])
def test_other_acks_values_are_rejected_without_a_write(client: Client, acks: int) -> None:
    create(client, "t")
    assert produce(client, batch(), acks=acks).error_code == ErrorCode.INVALID_REQUIRED_ACKS
    assert produce(client, batch()).base_offset == 0


def test_acks_0_gets_no_response_and_later_requests_do(client: Client) -> None:
    create(client, "t")
    request = ProduceRequest(acks=0, topic_data=[TopicProduceData("t", partition_data=[PartitionProduceData(0, batch())])])
    assert client.call(request, version=9) is None
    assert produce(client, batch()).base_offset == 1


def test_a_failure_with_acks_0_closes_only_its_connection(broker: RunningBroker, client: Client) -> None:
    create(client, "t")
    request = ProduceRequest(acks=0, topic_data=[TopicProduceData("t", partition_data=[PartitionProduceData(5, batch())])])
    with broker.client() as other:
        other.call(request, version=9)
        with pytest.raises(ConnectionError):
            other.read_frame()
    assert produce(client, batch()).error_code == 0


@pytest.mark.parametrize("version", [0, 1, 2])
def test_versions_advertised_only_for_librdkafka_close_the_connection(client: Client, version: int) -> None:
    client.send_raw(b"\x00\x00\x00\x0c\x00\x00" + version.to_bytes(2, "big") + b"\x00\x00\x00\x01\xff\xff\x00\x00")
    with pytest.raises(ConnectionError):
        client.read_frame()


def test_an_exact_retry_gets_its_original_offset_and_is_written_once(client: Client) -> None:
    create(client, "t")
    first, second = (batch(b"x", producer_id=5, producer_epoch=0, base_sequence=sequence) for sequence in (0, 1))
    assert [produce(client, sent).base_offset for sent in (first, second, first, second)] == [0, 1, 0, 1]
    assert produce(client, batch()).base_offset == 2


def test_a_sequence_gap_is_rejected(client: Client) -> None:
    create(client, "t")
    produce(client, batch(producer_id=5, producer_epoch=0, base_sequence=0))
    answer = produce(client, batch(producer_id=5, producer_epoch=0, base_sequence=2))
    assert answer.error_code == ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER


def test_a_rejected_append_has_the_log_start_offset_unless_the_batch_is_too_large(client: Client) -> None:
    create(client, "t", configs={"max.message.bytes": "200"})
    gap = produce(client, batch(producer_id=5, producer_epoch=0, base_sequence=-1))
    assert (gap.error_code != ErrorCode.NONE, gap.log_start_offset) == (True, 0)
    assert produce(client, batch(b"x" * 300)).log_start_offset == -1


def test_records_without_a_key_are_listed_for_a_compacted_topic(client: Client) -> None:
    create(client, "t", configs={"cleanup.policy": "compact"})
    answer = produce(client, batch(b"a", b"b"))
    assert answer.error_code == ErrorCode.INVALID_RECORD
    assert [error.batch_index for error in answer.record_errors] == [0, 1]


def test_log_append_time_is_returned_if_the_topic_uses_it(client: Client) -> None:
    create(client, "t", configs={"message.timestamp.type": "LogAppendTime"})
    assert produce(client, batch()).log_append_time_ms > 1_600_000_000_000


def test_a_batch_above_max_message_bytes_is_rejected(client: Client) -> None:
    create(client, "t", configs={"max.message.bytes": "200"})
    assert produce(client, batch(b"x" * 300)).error_code == ErrorCode.MESSAGE_TOO_LARGE


@pytest.mark.parametrize(("client_id", "error"), [("test", ErrorCode.INVALID_TOPIC_EXCEPTION), ("__admin_client", ErrorCode.NONE)])
def test_only_the_admin_client_writes_to_internal_topics(broker: RunningBroker, client_id: str, error: ErrorCode) -> None:
    with broker.client(client_id) as client:
        find_coordinator(client)
        keyed = build_batch([SimpleRecord(b"key", b"x", 1_000)])
        assert produce(client, keyed, topic="__consumer_offsets").error_code == error


@pytest.mark.parametrize("flush_messages", ["1", "3"])
def test_with_flush_messages_every_append_is_acknowledged_after_a_sync(client: Client, flush_messages: str) -> None:
    create(client, "t", configs={"flush.messages": flush_messages})
    assert [produce(client, batch()).base_offset for _ in range(7)] == list(range(7))


@pytest.mark.parametrize(("version", "error"), [(10, ErrorCode.INVALID_TXN_STATE), (11, ErrorCode.TRANSACTION_ABORTABLE)])
def test_a_transactional_batch_for_a_partition_outside_the_transaction_is_rejected(
    broker: RunningBroker, client: Client, version: int, error: ErrorCode
) -> None:
    create(client, "t", partitions=2)
    producer = Transactional(broker, version=1).init()
    assert producer.add(("t", 1)) is ErrorCode.NONE
    assert producer.produce(client, 0, version=version).error_code == error
    assert producer.produce(client, 0, index=1, version=version).error_code == ErrorCode.NONE
    assert latest(client, committed=False) == 0


def test_version_12_adds_the_partition_to_the_transaction(broker: RunningBroker, client: Client) -> None:
    create(client, "t")
    producer = Transactional(broker).init()
    assert producer.produce(client, 0).error_code == ErrorCode.NONE
    transaction = broker.call(lambda running: running.services.txns.get("tx"))
    assert transaction is not None
    assert transaction.partitions == {("t", 0)}


@pytest.mark.broker_settings({"transaction.partition.verification.enable": "false"})
def test_without_verification_an_old_producers_batch_is_written_anywhere(broker: RunningBroker, client: Client) -> None:
    create(client, "t")
    assert Transactional(broker, version=1).init().produce(client, 0).error_code == ErrorCode.NONE


@pytest.mark.parametrize("version", [3, 11, 12])
def test_a_fenced_producer_gets_invalid_producer_epoch_in_every_version(broker: RunningBroker, client: Client, version: int) -> None:
    create(client, "t")
    zombie, successor = Transactional(broker).init(), Transactional(broker).init()
    assert zombie.producer_id == successor.producer_id
    assert zombie.produce(client, 0, version=version).error_code == ErrorCode.INVALID_PRODUCER_EPOCH
    assert latest(client, committed=False) == 0


def test_a_batch_delayed_past_its_transactions_end_does_not_start_another(broker: RunningBroker, client: Client) -> None:
    create(client, "t")
    producer = Transactional(broker, version=1).init()
    producer.add(("t", 0))
    producer.produce(client, 0)
    assert producer.end(commit=True) is ErrorCode.NONE
    assert producer.produce(client, 1).error_code == ErrorCode.TRANSACTION_ABORTABLE
    assert latest(client, committed=True) == latest(client, committed=False)


def test_a_lost_first_batch_of_a_transaction_is_out_of_order_in_version_12(broker: RunningBroker, client: Client) -> None:
    create(client, "t")
    producer = Transactional(broker).init()
    assert producer.produce(client, 1).error_code == ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER
    assert producer.produce(client, 0).error_code == ErrorCode.NONE


def test_a_transactional_batch_without_a_transactional_id_fails_the_whole_request(broker: RunningBroker, client: Client) -> None:
    create(client, "t", partitions=2)
    producer = Transactional(broker).init()
    data = [PartitionProduceData(0, batch()), PartitionProduceData(1, producer.batch(0))]
    request = ProduceRequest(acks=-1, topic_data=[TopicProduceData("t", partition_data=data)])
    answers = client.call(request, version=12).responses[0].partition_responses
    assert [answer.error_code for answer in answers] == [ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED] * 2
    assert latest(client, committed=False) == 0


def test_two_transactional_producers_in_one_request_fail_the_whole_request(broker: RunningBroker, client: Client) -> None:
    create(client, "t", partitions=2)
    one, other = Transactional(broker, "one").init(), Transactional(broker, "other").init()
    data = [PartitionProduceData(0, one.batch(0)), PartitionProduceData(1, other.batch(0))]
    request = ProduceRequest(transactional_id="one", acks=-1, topic_data=[TopicProduceData("t", partition_data=data)])
    answers = client.call(request, version=12).responses[0].partition_responses
    assert [answer.error_code for answer in answers] == [ErrorCode.INVALID_PRODUCER_ID_MAPPING] * 2


def test_verified_partitions_are_written_and_others_get_the_reason(broker: RunningBroker, client: Client) -> None:
    create(client, "t", partitions=2)
    producer = Transactional(broker, version=1).init()
    producer.add(("t", 0))
    data = [PartitionProduceData(index, producer.batch(0)) for index in (0, 1, 2)]
    request = ProduceRequest(transactional_id="tx", acks=-1, topic_data=[TopicProduceData("t", partition_data=data)])
    answers = client.call(request, version=11).responses[0].partition_responses
    assert [answer.error_code for answer in answers] == [
        ErrorCode.NONE,
        ErrorCode.TRANSACTION_ABORTABLE,
        ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
    ]


def test_a_rejected_internal_topic_is_not_added_to_the_transaction(broker: RunningBroker, client: Client) -> None:
    producer = Transactional(broker).init()
    assert producer.produce(client, 0, topic="__transaction_state").error_code == ErrorCode.INVALID_TOPIC_EXCEPTION
    transaction = broker.call(lambda running: running.services.txns.get("tx"))
    assert transaction is not None
    assert transaction.partitions == frozenset()


def test_invalid_acks_reject_a_transactional_batch_before_verification(broker: RunningBroker, client: Client) -> None:
    create(client, "t")
    producer = Transactional(broker).init()
    data = [TopicProduceData("t", partition_data=[PartitionProduceData(0, producer.batch(0))])]
    request = ProduceRequest(transactional_id="tx", acks=2, topic_data=data)
    (answer,) = client.call(request, version=12).responses[0].partition_responses
    transaction = broker.call(lambda running: running.services.txns.get("tx"))
    assert transaction is not None
    assert (answer.error_code, transaction.partitions) == (ErrorCode.INVALID_REQUIRED_ACKS, frozenset())


def test_another_producers_transactional_id_does_not_verify(broker: RunningBroker, client: Client) -> None:
    create(client, "t")
    owner, stranger = Transactional(broker, "owner").init(), Transactional(broker, "stranger").init()
    records = stranger.batch(0)
    assert produce_as(client, "owner", records).error_code == ErrorCode.INVALID_PRODUCER_ID_MAPPING
    assert produce_as(client, "nobody", records).error_code == ErrorCode.INVALID_PRODUCER_ID_MAPPING
    assert owner.produce(client, 0).error_code == ErrorCode.NONE


@pytest.mark.parametrize(
    ("version", "code", "seen"),
    [
        (11, ErrorCode.CONCURRENT_TRANSACTIONS, ErrorCode.NOT_ENOUGH_REPLICAS),
        (12, ErrorCode.CONCURRENT_TRANSACTIONS, ErrorCode.CONCURRENT_TRANSACTIONS),
        (12, ErrorCode.COORDINATOR_LOAD_IN_PROGRESS, ErrorCode.NOT_ENOUGH_REPLICAS),
        (12, ErrorCode.NOT_COORDINATOR, ErrorCode.NOT_ENOUGH_REPLICAS),
        (10, ErrorCode.INVALID_TXN_STATE, ErrorCode.INVALID_TXN_STATE),
    ],
)
def test_a_retriable_coordinator_error_becomes_one_that_the_producer_retries(version: int, code: ErrorCode, seen: ErrorCode) -> None:
    assert unverified_error(version, Rejected(code)).code is seen


@pytest.mark.broker_settings({"log.flush.interval.messages": "1"})
def test_with_flush_messages_the_added_partition_is_durable_before_the_data(broker: RunningBroker, client: Client) -> None:
    create(client, "t")
    producer = Transactional(broker).init()
    assert producer.produce(client, 0, b"a").error_code == ErrorCode.NONE
    assert producer.produce(client, 1, b"b").error_code == ErrorCode.NONE
    assert producer.end(commit=True) is ErrorCode.NONE
    wait_until(lambda: committed_values(client) == [b"a", b"b"], "the commit is readable")


def many_alike(count: int) -> bytes:
    """Return a small compressed batch with this number of empty records, all with offset delta 0."""
    small = build_batch([SimpleRecord(None, None, 1_000)], codec=Codec.ZSTD)
    section = compress(Codec.ZSTD, encode_record(0, 0, None, None) * count)
    return pack_header(read_header(small)._replace(record_count=count, last_offset_delta=count - 1), section) + section


def send_many_alike(client: Client, acks: int = -1) -> None:
    """Send a batch that the broker checks on a thread; leave the response unread."""
    data = [TopicProduceData("t", partition_data=[PartitionProduceData(0, many_alike(100_000))])]
    client.send(ProduceRequest(acks=acks, timeout_ms=5000, topic_data=data), version=12)


@pytest.mark.parametrize("acks", [1, -1])
def test_other_requests_are_answered_while_a_large_batch_is_checked(broker: RunningBroker, client: Client, acks: int) -> None:
    create(client, "t")
    gate = threading.Event()
    try:
        broker.call(lambda node: node.services.flusher.compute(gate.wait) and None)
        send_many_alike(client, acks)
        with broker.client() as other:
            assert produce(other, batch(b"first")).base_offset == 0
    finally:
        gate.set()
    answer = decode_response(0, 12, client.read_frame())[1]
    assert isinstance(answer, ProduceResponse)
    (stored,) = answer.responses[0].partition_responses
    assert (stored.error_code, stored.base_offset) == (0, 1)
    assert latest(client, committed=False) == 100_001


def test_a_batch_whose_topic_is_deleted_during_its_check_is_rejected(broker: RunningBroker, client: Client) -> None:
    create(client, "t")
    gate = threading.Event()
    try:
        broker.call(lambda node: node.services.flusher.compute(gate.wait) and None)
        send_many_alike(client)
        with broker.client() as other:
            other.call(DeleteTopicsRequest(topic_names=["t"], timeout_ms=5000), version=5)
    finally:
        gate.set()
    answer = decode_response(0, 12, client.read_frame())[1]
    assert isinstance(answer, ProduceResponse)
    assert answer.responses[0].partition_responses[0].error_code == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION


@pytest.mark.parametrize("acks", [0, 1, -1])
def test_other_connections_have_their_turns_while_many_batches_are_checked(tmp_path: Path, acks: int) -> None:
    clock = TurnClock()
    with RunningBroker(tmp_path / "data", clock=clock) as broker, broker.client() as client:
        create(client, "t", partitions=20)
        batches = [batch() if index % 4 else many_alike(20_001) for index in range(20)]
        topics = [TopicProduceData("t", partition_data=[PartitionProduceData(*each) for each in enumerate(batches)])]
        clock.start()
        answer = client.call(ProduceRequest(acks=acks, timeout_ms=5000, topic_data=topics), version=9)
        assert latest(client, committed=False, index=19) == 1
    if acks:
        assert [(each.index, each.error_code) for each in answer.responses[0].partition_responses] == [(n, 0) for n in range(20)]
    assert clock.turns >= 15


def test_requests_that_take_turns_each_append_several_batches_in_a_turn(tmp_path: Path) -> None:
    clock, gate = TurnClock(readings_per_slice=12), threading.Event()
    with RunningBroker(tmp_path / "data", clock=clock) as broker, broker.client() as client, broker.client() as other:
        create(client, "t", partitions=48)
        data = [PartitionProduceData(index, batch()) for index in range(48)]
        clock.start(gate)
        for each in (client, other):
            each.send(ProduceRequest(acks=1, timeout_ms=5000, topic_data=[TopicProduceData("t", partition_data=data)]), version=9)
        gate.set()
        answers = [decode_response(0, 9, each.read_frame())[1].responses[0].partition_responses for each in (client, other)]
    assert [(each.index, each.error_code) for answer in answers for each in answer] == [(n, 0) for n in range(48)] * 2
    assert clock.turns < 48, "each has 48 batches"


def request_without_response(data: list[PartitionProduceData], acks: int = 0) -> bytes:
    request = ProduceRequest(acks=acks, timeout_ms=5000, topic_data=[TopicProduceData("t", partition_data=data)])
    return b"".join(encode_request(0, 9, 1, "test", request))


def test_requests_with_acks_0_behind_a_pending_one_are_handled_although_the_producer_closes(broker: RunningBroker, client: Client) -> None:
    create(client, "t", partitions=3)
    parts = [PartitionProduceData(index, batch()) for index in (1, 2)]
    gate = threading.Event()
    try:
        broker.call(lambda node: node.services.flusher.compute(gate.wait) and None)
        with broker.client() as hasty:
            hasty.send_raw(request_without_response([PartitionProduceData(0, many_alike(100_000))]))
            metadata = b"".join(encode_request(3, 9, 2, "test", MetadataRequest([])))
            hasty.send_raw(metadata + b"".join(request_without_response([part]) * 100 for part in parts))
        for _ in range(3):
            client.call(MetadataRequest([]), version=9)
    finally:
        gate.set()
    for index, count in enumerate((100_000, 100, 100)):
        broker.call_until(lambda node, at=index, end=count: node.services.partitions.get("t", at).log.log_end_offset == end)
    broker.call_until(lambda node: node.connection_count == 1)


@pytest.mark.parametrize("acks", [0, 1, -1])
def test_a_large_request_is_appended_whole_although_the_producer_closes(broker: RunningBroker, client: Client, acks: int) -> None:
    create(client, "t", partitions=200)
    gate = threading.Event()
    try:
        broker.call(lambda node: node.services.flusher.compute(gate.wait) and None)
        with broker.client() as hasty:
            hasty.send_raw(request_without_response([PartitionProduceData(index, batch()) for index in range(200)], acks))
        broker.call_until(lambda node: node.connection_count == 1)
    finally:
        gate.set()
    broker.call_until(lambda node: all(node.services.partitions.get("t", index).log.log_end_offset == 1 for index in range(200)))


def test_a_large_request_with_acks_0_is_appended_whole_although_a_partition_fails(broker: RunningBroker, client: Client) -> None:
    create(client, "t", partitions=200)
    with broker.client() as other:
        other.send_raw(request_without_response([PartitionProduceData(index, batch()) for index in (500, *range(200))]))
        with pytest.raises(ConnectionError):
            other.read_frame()
    assert [latest(client, committed=False, index=index) for index in (0, 199)] == [1, 1]


def test_a_batch_whose_topic_is_deleted_before_its_turn_is_rejected(tmp_path: Path) -> None:
    clock, gate = TurnClock(), threading.Event()
    with RunningBroker(tmp_path / "data", clock=clock) as broker, broker.client() as client, broker.client() as other:
        create(client, "t")
        create(client, "u")
        topics = [TopicProduceData(name, partition_data=[PartitionProduceData(0, many_alike(20_001))]) for name in "tu"]
        clock.start()
        try:
            broker.call(lambda node: node.services.flusher.compute(gate.wait) and None)
            client.send(ProduceRequest(acks=1, timeout_ms=5000, topic_data=topics), version=9)
            other.call(DeleteTopicsRequest(topic_names=["u"], timeout_ms=5000), version=5)
        finally:
            gate.set()
        answer = decode_response(0, 9, client.read_frame())[1]
    assert [each.partition_responses[0].error_code for each in answer.responses] == [0, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION]


def test_records_without_a_key_are_listed_for_a_batch_that_is_checked_on_a_thread(client: Client) -> None:
    create(client, "t", configs={"cleanup.policy": "compact"})
    answer = produce(client, many_alike(100_000))
    assert answer.error_code == ErrorCode.INVALID_RECORD
    assert len(answer.record_errors) == limits.RECORD_ERRORS_MAX


def test_entries_of_a_topic_are_merged_and_topics_without_partitions_are_left_out(client: Client) -> None:
    create(client, "t", partitions=2)
    named = [("none", []), ("t", [PartitionProduceData(1, batch())]), ("t", []), ("t", [PartitionProduceData(0, batch())])]
    request = ProduceRequest(acks=1, topic_data=[TopicProduceData(topic, partition_data=data) for topic, data in named])
    (topic,) = client.call(request, version=9).responses
    assert (topic.name, [(each.index, each.error_code) for each in topic.partition_responses]) == ("t", [(1, 0), (0, 0)])
    assert client.call(ProduceRequest(acks=1, topic_data=[TopicProduceData("t")]), version=9).responses == []


def test_unknown_partitions_and_invalid_batches_keep_their_errors_in_a_request_with_invalid_acks(client: Client) -> None:
    create(client, "t", partitions=2)
    data = [PartitionProduceData(0, batch()), PartitionProduceData(1, b""), PartitionProduceData(9, batch())]
    topics = [TopicProduceData("t", partition_data=data), TopicProduceData("none", partition_data=[PartitionProduceData(0, batch())])]
    known, unknown = client.call(ProduceRequest(acks=5, topic_data=topics), version=9).responses
    assert [each.error_code for each in known.partition_responses] == [
        ErrorCode.INVALID_REQUIRED_ACKS,
        ErrorCode.INVALID_RECORD,
        ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
    ]
    assert unknown.partition_responses[0].error_code == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION


def test_a_producer_of_an_unknown_partition_does_not_count_as_a_second_one(client: Client) -> None:
    create(client, "t")
    init(client)  # creates __transaction_state
    one, other = (batch(producer_id=each, producer_epoch=0, base_sequence=0, transactional=True) for each in (5, 6))
    for index, error in [(0, ErrorCode.INVALID_PRODUCER_ID_MAPPING), (9, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)]:
        named = ("t", index, one), ("unknown", 0, other)
        topics = [TopicProduceData(name, partition_data=[PartitionProduceData(*data)]) for name, *data in named]
        answers = client.call(ProduceRequest("nobody", -1, 1_000, topics), version=9).responses
        assert [topic.partition_responses[0].error_code for topic in answers] == [error, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION]
