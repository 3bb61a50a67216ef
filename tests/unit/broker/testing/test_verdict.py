"""`assert_exactly_once` with a real broker: the history, the verdict and its explanation."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from time import time_ns
from typing import Any

import pytest

from ottla.broker.testing import InProcessBroker
from ottla.broker.testing.verdict import NotExactlyOnce
from ottla.protocol.client import Client
from ottla.protocol.error_codes import ErrorCode
from ottla.protocol.messages.k00_produce import PartitionProduceData, ProduceRequest, TopicProduceData
from ottla.protocol.messages.k20_delete_topics import DeleteTopicsRequest, DeleteTopicState
from ottla.protocol.messages.k26_end_txn import EndTxnRequest
from ottla.protocol.records.record import SimpleRecord, build_batch
from tests.support.topic_calls import produce
from tests.support.transactions import fetch, produce_as
from tests.support.txn_calls import Holder, init


@pytest.fixture
def broker() -> Iterator[InProcessBroker]:
    with InProcessBroker().record() as running:
        running.topics.create("t")
        yield running


@pytest.fixture
def client(broker: InProcessBroker) -> Iterator[Client]:
    with Client("127.0.0.1", broker.port) as connected:
        yield connected


def lose_the_ack(broker: InProcessBroker, value: bytes, producer_id: int) -> None:
    """Produce the value twice, as a producer does whose first acknowledgement was lost."""
    broker.faults.add("drop-ack:api=Produce,times=1")
    sequence = 0 if producer_id >= 0 else -1
    with Client("127.0.0.1", broker.port) as first, pytest.raises(ConnectionError):
        produce(first, "t", value, producer_id=producer_id, base_sequence=sequence)
    with Client("127.0.0.1", broker.port) as second:
        produce(second, "t", value, producer_id=producer_id, base_sequence=sequence)


def transaction(client: Client, holder: Holder, value: bytes, sequence: int, *, commit: bool) -> None:
    assert holder.add(("t", 0)) == [ErrorCode.NONE]
    batch = build_batch(
        [SimpleRecord(None, value, time_ns() // 1_000_000)],
        producer_id=holder.producer_id,
        producer_epoch=holder.epoch,
        base_sequence=sequence,
        transactional=True,
    )
    assert produce_as(client, "tx", batch, version=9).error_code == ErrorCode.NONE
    assert client.call(EndTxnRequest("tx", holder.producer_id, holder.epoch, commit), version=4).error_code == ErrorCode.NONE


def test_a_retry_with_a_producer_id_is_exactly_once(broker: InProcessBroker) -> None:
    lose_the_ack(broker, b"order-1", producer_id=1000)
    broker.assert_exactly_once(expected=[b"order-1"])


def test_retry_without_a_producer_id_is_reported_and_explained(broker: InProcessBroker) -> None:
    lose_the_ack(broker, b"order-1", producer_id=-1)
    with pytest.raises(NotExactlyOnce) as wrong:
        broker.assert_exactly_once()
    assert [anomaly.kind for anomaly in wrong.value.anomalies] == ["duplicate"]
    assert "order-1 is readable 2 times: t-0@0, t-0@1" in str(wrong.value)
    assert "the acknowledgement was lost (fault drop-ack-1)" in str(wrong.value)


def test_a_missing_expected_record_is_reported(broker: InProcessBroker, client: Client) -> None:
    produce(client, "t", b"order-1")
    with pytest.raises(NotExactlyOnce, match="order-2 was expected and cannot be read"):
        broker.assert_exactly_once(expected=[b"order-1", b"order-2"])


def test_aborted_records_do_not_count(broker: InProcessBroker, client: Client) -> None:
    holder = init(client)
    transaction(client, holder, b"order-1", 0, commit=False)
    broker.call_until(lambda running: running.services.txns.get("tx").state.name == "COMPLETE_ABORT")
    transaction(client, holder, b"order-1", 1, commit=True)
    broker.call_until(lambda running: running.services.txns.get("tx").state.name == "COMPLETE_COMMIT")
    fetch(client)
    assert [end.commit for end in broker.history.ends] == [False, True]
    assert [len(each.batches) for each in broker.history.reads] == [4]
    broker.assert_exactly_once(expected=[b"order-1"])


def test_only_requested_topics_are_judged(broker: InProcessBroker, client: Client) -> None:
    broker.topics.create("other")
    for _ in range(2):
        produce(client, "other", b"same")
    broker.assert_exactly_once(["t"])
    with pytest.raises(NotExactlyOnce):
        broker.assert_exactly_once(["other"])


def test_topic_can_be_a_string_and_an_unknown_one_raises(broker: InProcessBroker, client: Client) -> None:
    for _ in range(2):
        produce(client, "t", b"same")
    with pytest.raises(NotExactlyOnce):
        broker.assert_exactly_once("t")
    with pytest.raises(KeyError, match="there is no topic 'orderz'; existing topics: t"):
        broker.assert_exactly_once(["orderz"])


@pytest.mark.parametrize(
    ("arguments", "error", "says"),
    [
        ({"expected": ["order-1"]}, TypeError, "a value is bytes, so no record can be equal to the expected str 'order-1'"),
        ({"expected": b"order-1"}, TypeError, r"expected must be a list, even of one item: expected=\[b'order-1'\]"),
        ({"expected": [b"a", b"a"]}, ValueError, "b'a' is expected 2 times, but can be there only once"),
        ({"by": "vale"}, ValueError, "by='vale' is neither one of 'value', 'key' nor a function of key and value"),
    ],
)
def test_invalid_arguments_of_a_verdict_raise(
    broker: InProcessBroker, arguments: dict[str, Any], error: type[Exception], says: str
) -> None:
    with pytest.raises(error, match=says):
        broker.assert_exactly_once(**arguments)


def test_deleted_topic_is_still_judged(broker: InProcessBroker, client: Client) -> None:
    produce(client, "t", b"order-1")
    client.call(DeleteTopicsRequest(topics=[DeleteTopicState("t")], timeout_ms=10_000))
    with pytest.raises(NotExactlyOnce, match="order-1 was acknowledged at t-0@0, where there is nothing"):
        broker.assert_exactly_once(["t"])


def test_custom_identity_can_exclude_records(broker: InProcessBroker, client: Client) -> None:
    for _ in range(2):
        produce(client, "t", b"heartbeat")
    broker.assert_exactly_once(by=lambda _key, value: None if value == b"heartbeat" else value)


def test_verdict_without_recording_raises() -> None:
    with InProcessBroker() as broker, pytest.raises(RuntimeError, match="call record"):
        broker.assert_exactly_once()


def test_verdict_includes_findings_of_the_audit(broker: InProcessBroker, client: Client) -> None:
    produce(client, "t", b"x", b"y")
    log = broker.data_dir / "t-0" / "00000000000000000000.log"
    with log.open("r+b") as file:
        file.seek(-1, 2)
        file.write(b"\xff")
    with pytest.raises(NotExactlyOnce) as wrong:
        broker.assert_exactly_once(expected=[b"x", b"y"])
    assert any(finding.startswith("crc: t-0@0") for finding in wrong.value.findings), str(wrong.value)


def test_rejected_request_answered_before_an_earlier_writes_sync_is_no_reordering() -> None:
    with InProcessBroker(settings={"log.flush.interval.messages": 1}).record() as broker:
        broker.topics.create("t")
        broker.faults.add("error:api=Produce,code=NOT_LEADER_OR_FOLLOWER,times=1,after=1")
        with Client("127.0.0.1", broker.port, client_id="app") as client, Client("127.0.0.1", broker.port, client_id="app") as other:
            data = [[PartitionProduceData(0, build_batch([SimpleRecord(None, value, 1)]))] for value in (b"a", b"b")]
            requests = [
                ProduceRequest(acks=-1, timeout_ms=10_000, topic_data=[TopicProduceData("t", partition_data=each)]) for each in data
            ]
            client.send(requests[0], 9)
            broker.call_until(lambda running: running.services.partitions.get("t", 0).log.log_end_offset == 1)
            other.send(requests[1], 9)
            for each in (other, client):
                each.read_frame()
            produce(other, "t", b"b")
        refused = ErrorCode.NOT_LEADER_OR_FOLLOWER
        assert sorted(send.error for send in broker.history.sends) == [ErrorCode.NONE, ErrorCode.NONE, refused]
        broker.assert_exactly_once(expected=[b"a", b"b"])


def test_verdict_during_writes_is_of_a_single_moment(broker: InProcessBroker, client: Client) -> None:
    stop = threading.Event()

    def send_on() -> None:
        number = 0
        with Client("127.0.0.1", broker.port) as other:
            while not stop.is_set():
                number += 1
                produce(other, "t", b"%d" % number)

    sending = threading.Thread(target=send_on)
    sending.start()
    try:
        broker.call_until(lambda running: running.services.partitions.get("t", 0).log.log_end_offset > 0)
        for _ in range(200):
            broker.assert_exactly_once(audit=False)
    finally:
        stop.set()
        sending.join()
