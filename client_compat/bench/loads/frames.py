"""Produce requests that are encoded before the measurement, and a plain socket that exchanges them, so that the client itself takes little
of the measured time.

Rule: only the last response is decoded. The broker checks sequence numbers, so if it had rejected one batch, it would reject all later
ones.
"""

from __future__ import annotations

import socket
import time
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from client_compat.bench.loads.topics import connect
from client_compat.bench.model import LoadFailed
from ottla.protocol.codec import decode_response, encode_request
from ottla.protocol.error_codes import ErrorCode
from ottla.protocol.frame import FrameReader
from ottla.protocol.messages.k00_produce import PartitionProduceData, ProduceRequest, TopicProduceData
from ottla.protocol.messages.k22_init_producer_id import InitProducerIdRequest
from ottla.protocol.records.record import SimpleRecord, build_batch

TIMEOUT_MS = 30_000
NOT_READY_S = 30.0
POLL_S = 0.002
PRODUCE_VERSION = 9
INIT_VERSION = 4
READ_BYTES = 65_536
FRAME_BYTES_MAX = 1 << 24
ACKS_ALL = -1


@dataclass(frozen=True, slots=True)
class RawProducer:
    producer_id: int
    epoch: int

    def frame(self, topic: str, value: bytes, *, partition: int, sequence: int, correlation_id: int, timestamp_ms: int) -> bytes:
        """Return a Produce request with one record, encoded for the socket."""
        record = SimpleRecord(None, value, timestamp_ms)
        batch = build_batch([record], producer_id=self.producer_id, producer_epoch=self.epoch, base_sequence=sequence)
        data = [TopicProduceData(topic, partition_data=[PartitionProduceData(index=partition, records=batch)])]
        request = ProduceRequest(acks=ACKS_ALL, timeout_ms=TIMEOUT_MS, topic_data=data)
        return b"".join(encode_request(0, PRODUCE_VERSION, correlation_id, "bench", request))


def producers(bootstrap: str, count: int) -> list[RawProducer]:
    """Return `count` producers with new producer ids, which InitProducerId requests have allocated. Raises `LoadFailed` if the broker
    rejects one of them."""
    found: list[RawProducer] = []
    deadline = time.perf_counter() + NOT_READY_S
    with connect(bootstrap) as client:
        while len(found) < count:
            request = InitProducerIdRequest(transactional_id=None, transaction_timeout_ms=TIMEOUT_MS)
            given: Any = client.call(request, INIT_VERSION)
            if given.error_code == ErrorCode.NONE:
                found.append(RawProducer(given.producer_id, given.producer_epoch))
            elif not ErrorCode(given.error_code).retriable or time.perf_counter() > deadline:
                raise LoadFailed(f"InitProducerId answers {ErrorCode(given.error_code).name}")
            else:
                time.sleep(POLL_S)
    return found


def frames(topic: str, record_bytes: int, count: int, producer: RawProducer, *, partition: int = 0, timestamp_ms: int = 0) -> list[bytes]:
    """Return `count` Produce requests with one record each, with consecutive sequences and correlation ids from 0."""
    value = b"v" * record_bytes
    return [
        producer.frame(topic, value, partition=partition, sequence=number, correlation_id=number, timestamp_ms=timestamp_ms)
        for number in range(count)
    ]


def dial(bootstrap: str) -> socket.socket:
    host, _, port = bootstrap.partition(":")
    peer = socket.create_connection((host, int(port)), TIMEOUT_MS / 1_000)
    peer.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    return peer


def receive(peer: socket.socket, reader: FrameReader) -> Sequence[Any]:
    """Receive once, and return the response frames that are complete now, possibly none. Raises `LoadFailed` if the broker closes the
    connection."""
    chunk = peer.recv(READ_BYTES)
    if not chunk:
        raise LoadFailed("the broker closed the connection")
    return reader.feed(chunk)


def check(answer: Any, correlation_id: int) -> None:
    """Raise `LoadFailed` unless `answer` is a successful Produce response with this correlation id."""
    answered, response = decode_response(0, PRODUCE_VERSION, answer)
    error = response.responses[0].partition_responses[0].error_code
    if answered != correlation_id or error != ErrorCode.NONE:
        raise LoadFailed(f"answer {answered} where {correlation_id} was asked: {ErrorCode(error).name}")
