"""One-record batches of one idempotent producer over a bare socket, five in flight: as little client as there can be."""

from __future__ import annotations

import socket
import time
from itertools import islice
from typing import Any

from protocol.client import Client
from protocol.codec import decode_response, encode_request
from protocol.error_codes import ErrorCode
from protocol.frame import FrameReader
from protocol.messages.k00_produce import PartitionProduceData, ProduceRequest, TopicProduceData
from protocol.messages.k22_init_producer_id import InitProducerIdRequest
from protocol.records.record import SimpleRecord, build_batch

IN_FLIGHT = 5
TIMEOUT_MS = 30_000
READ_BYTES = 65_536
FRAME_BYTES_MAX = 1 << 20
# The last version that names topics instead of giving their ids, which is one request less to make before.
VERSION_MAX = 11


class Refused(RuntimeError):
    """The broker did not take a record."""


def pipeline(bootstrap: str, topic: str, record_bytes: int, records: int) -> float:
    """Send `records` batches of one record to partition 0; returns the seconds from the first to the last acknowledgement."""
    host, _, port = bootstrap.partition(":")
    with Client(host, int(port)) as client:
        version = min(VERSION_MAX, client.highest_version(ProduceRequest))
        given: Any = client.call(InitProducerIdRequest(transactional_id=None, transaction_timeout_ms=TIMEOUT_MS))
        if given.error_code != ErrorCode.NONE:
            raise Refused(f"InitProducerId answers {given.error_code}")
    value = b"v" * record_bytes
    producer = (given.producer_id, given.producer_epoch)
    frames = [_frame(topic, value, producer, number, version) for number in range(records)]
    with socket.create_connection((host, int(port)), TIMEOUT_MS / 1_000) as peer:
        peer.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        return _exchange(peer, frames, version)


def _frame(topic: str, value: bytes, producer: tuple[int, int], number: int, version: int) -> bytes:
    record = SimpleRecord(None, value, int(time.time() * 1_000))
    batch = build_batch([record], producer_id=producer[0], producer_epoch=producer[1], base_sequence=number)
    data = [TopicProduceData(topic, partition_data=[PartitionProduceData(index=0, records=batch)])]
    return b"".join(encode_request(0, version, number, "bench", ProduceRequest(acks=-1, timeout_ms=TIMEOUT_MS, topic_data=data)))


def _exchange(peer: socket.socket, frames: list[bytes], version: int) -> float:
    reader, waiting, answered = FrameReader(FRAME_BYTES_MAX), iter(frames), 0
    last: Any = None
    began = time.perf_counter()
    peer.sendall(b"".join(islice(waiting, IN_FLIGHT)))
    while answered < len(frames):
        chunk = peer.recv(READ_BYTES)
        if not chunk:
            raise Refused(f"the broker closed the connection after {answered} of {len(frames)} records")
        answers = reader.feed(chunk)
        answered += len(answers)
        peer.sendall(b"".join(islice(waiting, len(answers))))
        last = answers[-1] if answers else last
    seconds = time.perf_counter() - began
    # Sequences are checked by the broker: had one batch been refused, so had all after it.
    correlation_id, response = decode_response(0, version, last)
    error = response.responses[0].partition_responses[0].error_code
    if correlation_id != len(frames) - 1 or error != ErrorCode.NONE:
        raise Refused(f"answer {correlation_id}: error code {error}")
    return seconds
