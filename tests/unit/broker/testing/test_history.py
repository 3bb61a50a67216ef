"""The recorded history of a real client's requests."""

from __future__ import annotations

from time import time_ns

import pytest

from ottla.broker.testing import InProcessBroker, history
from ottla.protocol.client import Client
from ottla.protocol.error_codes import ErrorCode
from ottla.protocol.messages.k00_produce import PartitionProduceData, ProduceRequest, TopicProduceData
from ottla.protocol.records.compression import Codec
from ottla.protocol.records.record import SimpleRecord, build_batch
from tests.support.topic_calls import create, produce
from tests.support.transactions import fetch


def test_history_has_sends_and_reads_with_their_responses() -> None:
    with InProcessBroker() as broker, Client("127.0.0.1", broker.port, client_id="app") as client:
        produced = create(client, "t")
        produce(client, "t", b"before")
        broker.record()
        assert produce(client, "t", b"a", b"b", producer_id=9, base_sequence=0) == 1
        batch = build_batch([SimpleRecord(b"k", b"c", time_ns() // 1_000_000)])
        by_id = TopicProduceData(
            topic_id=produced.topic_id, partition_data=[PartitionProduceData(0, batch), PartitionProduceData(7, batch)]
        )
        client.call(ProduceRequest(acks=-1, timeout_ms=1_000, topic_data=[by_id]), version=13)
        fetch(client, "t", 1)
    recorded = [(send.topic, send.partition, send.records, send.error, send.offset, send.acked) for send in broker.history.sends]
    assert recorded == [
        ("t", 0, ((None, b"a"), (None, b"b")), ErrorCode.NONE, 1, True),
        ("t", 0, ((b"k", b"c"),), ErrorCode.NONE, 3, True),
        ("t", 7, ((b"k", b"c"),), ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, -1, False),
    ]
    first = broker.history.sends[0]
    assert (first.client_id, first.producer_id, first.producer_epoch, first.base_sequence, first.acks) == ("app", 9, 0, 0, -1)
    (read,) = broker.history.reads
    assert [offset for _, records in read.batches for offset, _ in records] == [1, 2, 3]


def test_full_history_is_marked_incomplete(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(history, "BYTES_MAX", 100)
    with InProcessBroker().record() as broker, Client("127.0.0.1", broker.port) as client:
        create(client, "t")
        produce(client, "t", b"small")
        assert broker.history.complete
        produce(client, "t", b"large" * 20)
        assert not broker.history.complete
        with pytest.raises(RuntimeError, match="limited to 256 MiB"):
            broker.assert_exactly_once()


def test_rewind_frees_the_space_of_what_was_recorded_since_the_mark(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(history, "BYTES_MAX", 1_000)
    with InProcessBroker().record() as broker:
        with Client("127.0.0.1", broker.port) as client:
            create(client, "t")
        mark = broker.mark()
        for value in (b"large" * 200, b"x" * 600, b"y" * 600):
            with Client("127.0.0.1", broker.port) as client:
                produce(client, "t", value)
            broker.rewind(mark)
        with Client("127.0.0.1", broker.port) as client:
            produce(client, "t", b"last")
        broker.assert_exactly_once(expected=[b"last"])


def test_compressed_batch_counts_with_its_decompressed_size(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(history, "BYTES_MAX", 10_000)
    with InProcessBroker().record() as broker, Client("127.0.0.1", broker.port) as client:
        create(client, "t")
        batch = build_batch([SimpleRecord(None, bytes(10_001), 1)], codec=Codec.GZIP)
        data = TopicProduceData("t", partition_data=[PartitionProduceData(0, batch)])
        client.call(ProduceRequest(acks=-1, timeout_ms=1_000, topic_data=[data]), version=9)
        assert not broker.history.complete
        assert broker.history.sends == []


def test_unreadable_batch_is_not_recorded_as_a_send() -> None:
    with InProcessBroker().record() as broker, Client("127.0.0.1", broker.port) as client:
        create(client, "t")
        batch = bytearray(build_batch([SimpleRecord(None, b"x", time_ns() // 1_000_000)]))
        batch[-1] ^= 1
        data = TopicProduceData("t", partition_data=[PartitionProduceData(0, bytes(batch))])
        client.call(ProduceRequest(acks=-1, timeout_ms=1_000, topic_data=[data]), version=9)
        assert broker.history.sends == []
