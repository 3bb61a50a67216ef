from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from client_compat.matrix.proxy import Losses, Proxy
from client_compat.matrix.truth import Truth, TruthFailed
from client_compat.support.ports import free_port
from ottla.protocol.api_keys import ApiKey
from ottla.protocol.client import Client
from ottla.protocol.messages.k00_produce import PartitionProduceData, ProduceRequest, TopicProduceData
from ottla.protocol.records.compression import Codec
from ottla.protocol.records.record import SimpleRecord, build_batch
from tests.support.running_broker import HOST, RunningBroker


@pytest.fixture
def running(tmp_path: Path) -> Iterator[RunningBroker]:
    with RunningBroker(tmp_path / "data") as broker:
        yield broker


def produce(client: Client, acks: int, version: int, transactional_id: str | None = None) -> object:
    batch = build_batch([SimpleRecord(None, b"v", 1_000)])
    data = [TopicProduceData("t", partition_data=[PartitionProduceData(0, batch)])]
    return client.call(ProduceRequest(transactional_id, acks, 1_000, data), version)


def test_truth_returns_the_written_records_by_batch(running: RunningBroker) -> None:
    truth = Truth(running.port)
    truth.create_topic("t", 2, {"retention.ms": "-1"})
    assert truth.write("t", [SimpleRecord(b"k", b"0", 5), SimpleRecord(None, b"1", 6)], partition=1, codec=Codec.ZSTD) == 0
    assert truth.write_values("t", [b"2"], partition=1) == 2
    batches = truth.batches("t", 1)
    assert [(one.header.codec, len(one.records)) for one in batches] == [(Codec.ZSTD, 2), (Codec.NONE, 1)]
    assert truth.values("t", 1) == [b"0", b"1", b"2"]
    assert (truth.start_offset("t", 1), truth.end_offset("t", 1), truth.end_offset("t", 0)) == (0, 3, 0)


def test_brokers_error_is_raised_by_name(running: RunningBroker) -> None:
    truth = Truth(running.port)
    truth.create_topic("t")
    with pytest.raises(TruthFailed, match="TOPIC_ALREADY_EXISTS"):
        truth.create_topic("t")
    truth.delete_topic("t")
    with pytest.raises(TruthFailed, match="UNKNOWN_TOPIC_OR_PARTITION"):
        truth.end_offset("t")


def test_lost_response_closes_the_connection_after_the_request_was_handled(running: RunningBroker) -> None:
    truth = Truth(running.port)
    truth.create_topic("t")
    with Proxy(free_port(), running.port, Losses(ApiKey.PRODUCE, share=1.0, count_max=1)) as proxy:
        with Client(HOST, proxy.port) as client, pytest.raises(ConnectionError):
            produce(client, -1, 9)
        with Client(HOST, proxy.port) as client:
            produce(client, -1, 9)
    assert (proxy.losses.seen, proxy.losses.lost) == (2, 1)
    assert truth.end_offset("t") == 2


@pytest.mark.parametrize(("version", "transactional_id"), [(9, None), (8, None), (9, "some id"), (8, "some id")])
def test_produce_without_a_response_does_not_shift_later_responses(
    running: RunningBroker, version: int, transactional_id: str | None
) -> None:
    Truth(running.port).create_topic("t")
    with Proxy(free_port(), running.port, Losses(ApiKey.HEARTBEAT, share=1.0)) as proxy, Client(HOST, proxy.port) as client:
        assert produce(client, 0, version, transactional_id) is None
        assert produce(client, -1, version) is not None
    assert proxy.losses.seen == 0


def test_same_seed_loses_the_same_responses() -> None:
    first, second = (Losses(0, share=0.5, seed=3) for _ in range(2))
    hits = [first.hits(0) for _ in range(50)]
    assert hits == [second.hits(0) for _ in range(50)]
    assert 0 < first.lost < 50
    assert not first.hits(1)
