"""`assert_exactly_once` of a gateway: the history of its clients against logs that are read over the wire."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from ottla.broker.testing import InProcessBroker
from ottla.broker.testing.in_process_gateway import InProcessGateway
from ottla.broker.testing.verdict import NotExactlyOnce
from ottla.broker.testing.wire_verdict import WireSource, examine
from ottla.protocol.client import Client
from ottla.protocol.error_codes import ErrorCode
from ottla.protocol.messages.k20_delete_topics import DeleteTopicsRequest, DeleteTopicState
from ottla.protocol.messages.k26_end_txn import EndTxnRequest
from ottla.protocol.records.record import SimpleRecord, build_batch
from tests.support.topic_calls import produce
from tests.support.transactions import fetch, produce_as
from tests.support.txn_calls import init

HOST = "127.0.0.1"


@pytest.fixture
def broker() -> Iterator[InProcessBroker]:
    with InProcessBroker() as running:
        running.topics.create("t")
        yield running


@pytest.fixture
def gateway(broker: InProcessBroker) -> Iterator[InProcessGateway]:
    with InProcessGateway(broker.bootstrap).record() as running:
        yield running


def client_of(gateway: InProcessGateway) -> Client:
    return Client(HOST, gateway.node.ports[0])


def lose_the_ack(gateway: InProcessGateway, value: bytes, producer_id: int) -> None:
    """Produce the value twice, as a producer does whose first acknowledgement was lost."""
    gateway.faults.add("drop-ack:api=Produce,times=1")
    sequence = 0 if producer_id >= 0 else -1
    with client_of(gateway) as first, pytest.raises(ConnectionError):
        produce(first, "t", value, producer_id=producer_id, base_sequence=sequence)
    with client_of(gateway) as second:
        produce(second, "t", value, producer_id=producer_id, base_sequence=sequence)


def test_retry_is_a_duplicate_only_without_a_producer_id(gateway: InProcessGateway) -> None:
    lose_the_ack(gateway, b"once", 7)
    gateway.assert_exactly_once(expected=[b"once"])
    lose_the_ack(gateway, b"twice", -1)
    with pytest.raises(NotExactlyOnce, match="twice is readable 2 times: t-0@1, t-0@2") as failure:
        gateway.assert_exactly_once("t")
    assert "the acknowledgement was lost" in str(failure.value)


def test_record_missing_at_its_acknowledged_offset_is_lost(broker: InProcessBroker, gateway: InProcessGateway) -> None:
    with client_of(gateway) as client:
        produce(client, "t", b"a")
        client.call(DeleteTopicsRequest([DeleteTopicState("t")], timeout_ms=5_000), 6)
    broker.call_until(lambda node: "t" not in node.services.partitions.topic_names())
    with pytest.raises(NotExactlyOnce, match="a was acknowledged at t-0@0, where there is nothing"):
        gateway.assert_exactly_once("t")


def test_transaction_outcomes_and_a_misplaced_read_are_known(broker: InProcessBroker, gateway: InProcessGateway) -> None:
    with client_of(gateway) as client:
        holder = init(client, "tx")
        assert holder.add(("t", 0)) == [ErrorCode.NONE]
        records = [SimpleRecord(None, b"aborted", 1)]
        ids = {"producer_id": holder.producer_id, "producer_epoch": holder.epoch, "base_sequence": 0}
        assert produce_as(client, "tx", build_batch(records, transactional=True, **ids), version=9).error_code == ErrorCode.NONE
        assert client.call(EndTxnRequest("tx", holder.producer_id, holder.epoch, False), 4).error_code == ErrorCode.NONE
        broker.call_until(lambda node: node.services.partitions.get("t", 0).log.last_stable_offset == 2)
        produce(client, "t", b"plain")
        fetch(client, "t", 0)
    found = examine(WireSource(broker.bootstrap), gateway.history)
    assert [(each.where, each.value, each.outcome.value) for each in found.stored] == [
        ("t-0@0", b"aborted", "aborted"),
        ("t-0@2", b"plain", "not in a transaction"),
    ]
    assert (found.anomalies, found.findings) == ([], [])
    with pytest.raises(NotExactlyOnce, match="aborted was expected and cannot be read"):
        gateway.assert_exactly_once(expected=[b"plain", b"aborted"])


def test_records_written_past_the_gateway_are_judged_only_if_the_topic_is_named(broker: InProcessBroker, gateway: InProcessGateway) -> None:
    broker.topics.create("theirs")
    with Client(HOST, broker.port) as beside:
        produce(beside, "theirs", b"same")
        produce(beside, "theirs", b"same")
    with client_of(gateway) as client:
        produce(client, "t", b"ours")
    gateway.assert_exactly_once()
    with pytest.raises(NotExactlyOnce, match="same is readable 2 times"):
        gateway.assert_exactly_once("theirs")


def test_unknown_topic_raises_instead_of_being_judged_clean(gateway: InProcessGateway) -> None:
    with pytest.raises(KeyError, match="'order' cannot be read: UNKNOWN_TOPIC_OR_PARTITION"):
        gateway.assert_exactly_once("order")


def test_missing_recording_or_unreachable_cluster_raises(broker: InProcessBroker) -> None:
    with InProcessGateway(broker.bootstrap) as gateway, pytest.raises(RuntimeError, match=r"call record\(\)"):
        gateway.assert_exactly_once()
    gateway = InProcessGateway(f"{HOST}:1").record()
    with pytest.raises(OSError, match=f"kafka://{HOST}:1: no broker answers"):
        gateway.assert_exactly_once("t")
