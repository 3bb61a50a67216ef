"""The directory of a combined broker and controller, used by Apache Kafka, then by Ottla with the same configuration, then by Kafka
again."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from client_compat.kafka.reference import ReferenceBroker
from ottla.protocol.client import Client
from ottla.protocol.error_codes import ErrorCode
from ottla.protocol.messages.k00_produce import PartitionProduceData, ProduceRequest, TopicProduceData
from ottla.protocol.messages.k03_metadata import MetadataRequest
from ottla.protocol.messages.k19_create_topics import CreatableTopic, CreateTopicsRequest
from ottla.protocol.records.record import SimpleRecord, build_batch
from tests.support.apache_kafka import jars_or_skip
from tests.support.running_broker import HOST


@pytest.fixture(autouse=True)
def _kafka() -> None:
    jars_or_skip()


def produce(client: Client, topic: str) -> int:
    """Produce a record as soon as the topic is served; return its offset."""
    batch = build_batch([SimpleRecord(None, b"x", 1_000)])
    while True:
        request = ProduceRequest(None, -1, 30_000, [TopicProduceData(topic, partition_data=[PartitionProduceData(0, batch)])])
        (answer,) = client.call(request, 12).responses[0].partition_responses
        if answer.error_code == ErrorCode.NONE:
            return int(answer.base_offset)
        assert ErrorCode(answer.error_code).retriable, answer


@pytest.mark.parametrize("static", [False, True])
def test_kafka_and_ottla_combined_nodes_serve_each_others_topics_and_records(
    tmp_path: Path, static: bool
) -> None:  # pytest gives it by name
    node = ReferenceBroker(tmp_path / "data", static_voters=static)
    kafka = node.broker.argv
    ottla = [sys.executable, "-m", "ottla", "serve", "--config", kafka[-1]]
    for turn, argv in enumerate((kafka, ottla, kafka)):
        node.broker.argv = argv
        node.start()
        with Client(HOST, node.port) as client:
            made = client.call(CreateTopicsRequest([CreatableTopic(f"made-{turn}", 1, 1)]))
            assert [topic.error_code for topic in made.topics] == [0]
            assert [produce(client, f"made-{topic}") for topic in range(turn + 1)] == list(range(turn, -1, -1))
            known = client.call(MetadataRequest(topics=None)).topics
            assert sorted(topic.name for topic in known) == [f"made-{topic}" for topic in range(turn + 1)]
        node.stop()
