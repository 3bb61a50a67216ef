"""Five batches are in flight when the broker stops or is killed: a retry gets their original offsets."""

from __future__ import annotations

import signal
from pathlib import Path

import pytest

from ottla.broker.core.clock import Clock
from ottla.protocol.client import Client
from ottla.protocol.codec import encode_request
from ottla.protocol.messages.k00_produce import PartitionProduceData, PartitionProduceResponse, ProduceRequest, TopicProduceData
from ottla.protocol.records.record import SimpleRecord, build_batch
from tests.support.group_calls import wait_until
from tests.support.running_broker import ServeProcess
from tests.support.topic_calls import create
from tests.support.transactions import latest

PRODUCER = 4711
WINDOW = 5
NOW_MS = Clock().now_ms()
"""The current time, because producer state expires after a day."""


def in_flight(number: int) -> ProduceRequest:
    records = [SimpleRecord(None, b"%d-%d" % (number, i), NOW_MS) for i in range(2)]
    batch = build_batch(records, producer_id=PRODUCER, producer_epoch=0, base_sequence=2 * number)
    return ProduceRequest(acks=-1, timeout_ms=30_000, topic_data=[TopicProduceData("t", partition_data=[PartitionProduceData(0, batch)])])


def send(client: Client, number: int) -> PartitionProduceResponse:
    return client.call(in_flight(number), version=9).responses[0].partition_responses[0]


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGKILL])
def test_five_batches_with_unread_responses_are_deduplicated_after_a_restart(tmp_path: Path, number: signal.Signals) -> None:
    with ServeProcess(tmp_path / "data") as running:
        with running.client() as watcher, running.client() as producer:
            create(watcher, "t")
            for i in range(WINDOW):
                producer.send_raw(b"".join(encode_request(0, 9, i, "p", in_flight(i))))
            wait_until(lambda: latest(watcher, committed=False) == 2 * WINDOW, "the five to be appended")
            running.signal(number)
            running.wait()
        running.start()
        with running.client() as client:
            answers = [send(client, i) for i in range(WINDOW)]
            assert [(a.error_code, a.base_offset) for a in answers] == [(0, 2 * i) for i in range(WINDOW)]
            assert send(client, WINDOW).base_offset == 2 * WINDOW
