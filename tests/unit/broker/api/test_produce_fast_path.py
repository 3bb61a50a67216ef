"""Tests of the requests that the Produce fast path handles. tests/property/test_produce_fast_path.py compares it with the normal path."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from ottla.broker.api.authorizer import Authorizer
from ottla.broker.api.context import Listener, Peer
from ottla.broker.api.produce_fast_path import ProduceFastPath
from ottla.broker.api.throttling import Throttling
from ottla.broker.cluster.metadata_records import AccessControlEntryRecord
from ottla.broker.core.acl import Operation, Pattern, Permission, Resource
from ottla.broker.core.clock import VirtualClock
from ottla.broker.core.log_config import LogConfig
from ottla.broker.core.principal import Principal
from ottla.broker.quotas.quotas import Quotas
from ottla.broker.quotas.rates import Windows
from ottla.broker.replication.leadership import Registration
from ottla.broker.runtime.coordination.txn_verification import TxnVerification
from ottla.protocol.codec import decode_response, encode_request
from ottla.protocol.error_codes import ErrorCode
from ottla.protocol.messages.k00_produce import PartitionProduceData, ProduceRequest, TopicProduceData
from ottla.protocol.messages.k12_heartbeat import HeartbeatRequest
from ottla.protocol.records.compression import Codec
from ottla.protocol.records.record import SimpleRecord, build_batch
from ottla.protocol.schema import Message
from tests.support.partition_logs import TOPIC_ID, PartitionHarness

BATCH = build_batch([SimpleRecord(None, b"v" * 300, 0)])
IN_A_TRANSACTION = build_batch([SimpleRecord(None, b"v", 0)], producer_id=1, producer_epoch=0, base_sequence=0, transactional=True)


def frame(request: Message, version: int) -> bytes:
    return b"".join(map(bytes, encode_request(request.API_KEY, version, 7, "me", request)))


def produce(records: bytes | None = BATCH, *, acks: int = -1, index: int = 0, name: str = "t", txn: str | None = None) -> ProduceRequest:
    return ProduceRequest(txn, acks, 100, [TopicProduceData(name, TOPIC_ID, [PartitionProduceData(index, records)])])


@pytest.fixture
def harness(tmp_path: Path) -> Iterator[PartitionHarness]:
    made = PartitionHarness(tmp_path / "data", VirtualClock(), LogConfig(), partitions=2)
    yield made
    made.close()


PEER = Peer("127.0.0.1", "127.0.0.1", 9092, Listener("PLAINTEXT", "127.0.0.1", 9092), principal=Principal("User", "ann"))


def may_write(resource: Resource, name: str) -> AccessControlEntryRecord:
    return AccessControlEntryRecord(bytes(16), resource, name, Pattern.LITERAL, "User:ann", "*", Operation.WRITE, Permission.ALLOW)


class Coordinator:
    """A transaction coordinator with the same answer for all partitions."""

    def __init__(self, answer: ErrorCode | asyncio.Future[ErrorCode] = ErrorCode.NONE) -> None:
        self.answer = answer
        self.added: list[tuple[str, int, int, frozenset[tuple[str, int]], int]] = []
        self.verifications = 0

    def add_partitions(
        self, transactional_id: str, producer_id: int, epoch: int, partitions: frozenset[tuple[str, int]], client_version: int
    ) -> ErrorCode | asyncio.Future[ErrorCode]:
        self.added.append((transactional_id, producer_id, epoch, partitions, client_version))
        return self.answer

    def verify_partitions(
        self, transactional_id: str, producer_id: int, epoch: int, partitions: frozenset[tuple[str, int]]
    ) -> ErrorCode | asyncio.Future[ErrorCode]:
        assert (transactional_id, producer_id, epoch, partitions) == ("x", 1, 0, {("t", 0)})
        self.verifications += 1
        return self.answer


async def no_pause(ms: int) -> None:
    raise AssertionError("the fast path does not wait")


def fast_path(
    harness: PartitionHarness,
    max_bytes: int = 1 << 20,
    *,
    coordinator: Coordinator | None = None,
    coordinator_is_local: bool = True,
    authorizer: Authorizer | None = None,
) -> ProduceFastPath:
    verification = TxnVerification(coordinator or Coordinator(), pause=no_pause, coordinator_is_local=coordinator_is_local)
    return ProduceFastPath(harness.partitions, verification, authorizer, max_bytes)


def ends(harness: PartitionHarness) -> list[int]:
    return [partition.log.log_end_offset for partition in harness.partitions]


@pytest.mark.parametrize("version", [9, 10, 11, 12, 13])
@pytest.mark.parametrize("acks", [1, -1])
def test_an_ordinary_produce_is_appended_and_answered_by_the_fast_path(harness: PartitionHarness, version: int, acks: int) -> None:
    data = frame(produce(acks=acks, index=1), version)
    found = fast_path(harness).answer(PEER, b"before" + data + b"after", 6)
    assert found is not None
    reply, at = found
    assert at == 6 + len(data)
    assert isinstance(reply, list)
    correlation_id, answer = decode_response(0, version, b"".join(reply)[4:])
    (topic,) = answer.responses
    (partition,) = topic.partition_responses
    assert (correlation_id, topic.name or topic.topic_id) == (7, TOPIC_ID if version == 13 else "t")
    assert (partition.index, partition.error_code, partition.base_offset, partition.log_append_time_ms) == (1, 0, 0, -1)
    assert ends(harness) == [0, 1]


@pytest.mark.parametrize("size", [10, 130, 20_000])
@pytest.mark.parametrize("codec", [Codec.NONE, Codec.GZIP])
def test_batches_of_any_size_and_codec_use_the_fast_path(harness: PartitionHarness, size: int, codec: Codec) -> None:
    batch = build_batch([SimpleRecord(None, bytes(range(256)) * (size // 256) + bytes(size % 256), 0)], codec=codec)
    assert fast_path(harness).answer(PEER, frame(produce(batch), 9), 0) is not None
    assert ends(harness) == [1, 0]


UNUSUAL: dict[str, Any] = {
    "a version without compact fields": (produce(), 8),
    "acks=0": (produce(acks=0), 9),
    "acks that do not exist": (produce(acks=2), 9),
    "a transactional id": (produce(txn="x"), 9),
    "a transactional batch": (produce(IN_A_TRANSACTION), 9),
    "no records": (produce(None), 9),
    "two batches": (produce(BATCH + BATCH), 9),
    "half a batch": (produce(BATCH[:-1]), 9),
    "a damaged batch": (produce(BATCH[:-1] + b"!"), 9),
    "a partition that is not here": (produce(index=5), 9),
    "a topic that is not here": (produce(name="u"), 9),
    "two partitions": (ProduceRequest(None, -1, 9, [TopicProduceData("t", TOPIC_ID, [PartitionProduceData(i, BATCH) for i in (0, 1)])]), 9),
    "two topics": (ProduceRequest(None, -1, 9, [*produce().topic_data, *produce(index=1).topic_data]), 9),
    "no topic": (ProduceRequest(None, -1, 9, []), 9),
    "another request": (HeartbeatRequest("g"), 4),
}


@pytest.mark.parametrize("unusual", UNUSUAL)
def test_an_unusual_request_is_left_to_the_normal_path_without_a_write(harness: PartitionHarness, unusual: str) -> None:
    assert fast_path(harness).answer(PEER, frame(*UNUSUAL[unusual]), 0) is None
    assert ends(harness) == [0, 0]


def test_an_incomplete_frame_is_left_to_the_normal_path(harness: PartitionHarness) -> None:
    data = frame(produce(), 9)
    for end in range(len(data)):
        assert fast_path(harness).answer(PEER, data[:end], 0) is None
    assert fast_path(harness, max_bytes=len(data) - 5).answer(PEER, data, 0) is None
    assert ends(harness) == [0, 0]


def test_tags_and_trailing_bytes_are_left_to_the_normal_path(harness: PartitionHarness) -> None:
    data = frame(produce(), 9)
    longer = (len(data) - 3).to_bytes(4, "big") + data[4:] + b"\0"
    tagged = longer[:-2] + b"\1\0"
    assert fast_path(harness).answer(PEER, longer, 0) is None
    assert fast_path(harness).answer(PEER, tagged, 0) is None


def test_a_replicated_partition_uses_the_fast_path_with_acks_1(harness: PartitionHarness) -> None:
    first = next(iter(harness.partitions))
    first.lead(Registration(leader=0, replicas=(0, 1), isr=(0, 1), leader_epoch=1, partition_epoch=1))
    notified: list[int] = []
    first.log_end_watchers["a follower"] = notified.append
    assert fast_path(harness).answer(PEER, frame(produce(acks=1), 9), 0) is not None
    assert (ends(harness), first.log.high_watermark, notified) == ([1, 0], 0, [len(BATCH)])


def test_throttled_produce_gets_its_throttle_time_on_the_fast_path(harness: PartitionHarness) -> None:
    quotas = Quotas(Windows(), Windows())
    quotas.change({frozenset({("client-id", "me")}): {"producer_byte_rate": 10.0}})
    throttling, paused_ms = Throttling(quotas, VirtualClock(), None), []
    peer = replace(PEER, throttle=paused_ms.append)
    data = frame(produce(), 9)
    found = fast_path(harness).answer_with_quotas(peer, b"before" + data, 6, throttling)
    assert found is not None
    reply, at = found
    _, answer = decode_response(0, 9, b"".join(reply)[4:])
    assert (at, answer.throttle_time_ms) == (6 + len(data), paused_ms[0])
    # Ten windows of a second each cover the first request (KAFKA Rate).
    assert paused_ms == [round(((len(data) - 4) / 10 - 10) / 10 * 10_000)]


def test_a_request_within_its_quota_or_not_ordinary_is_not_throttled(harness: PartitionHarness) -> None:
    quotas = Quotas(Windows(), Windows())
    quotas.change({frozenset({("client-id", None)}): {"producer_byte_rate": 1e9}})
    throttling = Throttling(quotas, VirtualClock(), None)
    found = fast_path(harness).answer_with_quotas(PEER, frame(produce(), 9), 0, throttling)
    assert found is not None
    assert decode_response(0, 9, b"".join(found[0])[4:])[1].throttle_time_ms == 0
    assert quotas.produce.measured == 1
    for unusual in UNUSUAL.values():
        assert fast_path(harness).answer_with_quotas(PEER, frame(*unusual), 0, throttling) is None
    assert fast_path(harness).answer_with_quotas(PEER, frame(produce(), 9).replace(b"me", b"\xff\xff", 1), 0, throttling) is None
    assert (ends(harness), quotas.produce.measured) == ([1, 0], 1)


def test_a_partition_that_waits_for_syncs_or_replicas_is_left_to_the_normal_path(harness: PartitionHarness) -> None:
    synced, shared = harness.partitions
    synced.reconfigure(replace(synced.log.config, flush_messages=1))
    shared.lead(Registration(leader=0, replicas=(0, 1), isr=(0, 1), leader_epoch=1, partition_epoch=1))
    for index in (0, 1):
        assert fast_path(harness).answer(PEER, frame(produce(index=index), 9), 0) is None
    assert ends(harness) == [0, 0]


@pytest.mark.parametrize("version", [9, 11, 12, 13])
def test_a_transactional_batch_uses_the_fast_path_if_it_is_verified_at_once(harness: PartitionHarness, version: int) -> None:
    coordinator = Coordinator()
    assert fast_path(harness, coordinator=coordinator).answer(PEER, frame(produce(IN_A_TRANSACTION, txn="x"), version), 0) is not None
    assert ends(harness) == [1, 0]
    assert next(iter(harness.partitions)).has_open_transaction(1, 0)
    adds = version >= 12
    assert (coordinator.added, coordinator.verifications) == ([("x", 1, 0, {("t", 0)}, 2)] if adds else [], 0 if adds else 1)


def test_a_partition_with_the_open_transaction_needs_no_verification(harness: PartitionHarness) -> None:
    coordinator = Coordinator()
    assert fast_path(harness, coordinator=coordinator).answer(PEER, frame(produce(IN_A_TRANSACTION, txn="x"), 10), 0) is not None
    second = build_batch([SimpleRecord(None, b"v", 0)], producer_id=1, producer_epoch=0, base_sequence=1, transactional=True)
    assert fast_path(harness, coordinator=coordinator).answer(PEER, frame(produce(second, txn="x"), 10), 0) is not None
    assert (ends(harness), coordinator.verifications) == ([2, 0], 1)


@pytest.mark.parametrize("version", [10, 12])
async def test_an_unverified_batch_is_left_to_the_normal_path(harness: PartitionHarness, version: int) -> None:
    unknown: asyncio.Future[ErrorCode] = asyncio.get_running_loop().create_future()
    request = frame(produce(IN_A_TRANSACTION, txn="x"), version)
    for answer in (unknown, ErrorCode.TRANSACTION_ABORTABLE, ErrorCode.CONCURRENT_TRANSACTIONS):
        assert fast_path(harness, coordinator=Coordinator(answer)).answer(PEER, request, 0) is None
    assert ends(harness) == [0, 0]


def test_the_fast_path_does_not_contact_another_coordinator(harness: PartitionHarness) -> None:
    coordinator = Coordinator()
    assert (
        fast_path(harness, coordinator=coordinator, coordinator_is_local=False).answer(
            PEER, frame(produce(IN_A_TRANSACTION, txn="x"), 10), 0
        )
        is None
    )
    assert (ends(harness), coordinator.verifications) == ([0, 0], 0)


def test_a_transactional_id_that_is_not_utf8_is_left_to_the_normal_path(harness: PartitionHarness) -> None:
    data = frame(produce(IN_A_TRANSACTION, txn="x"), 10)
    assert fast_path(harness).answer(PEER, data.replace(b"\x02x", b"\x02\xff", 1), 0) is None
    assert ends(harness) == [0, 0]


def test_a_produce_that_the_authorizer_denies_is_not_handled_by_the_fast_path(
    harness: PartitionHarness, caplog: pytest.LogCaptureFixture
) -> None:
    topic, transactional_id = b"a" * 16, b"b" * 16
    acls = {topic: may_write(Resource.TOPIC, "t"), transactional_id: may_write(Resource.TRANSACTIONAL_ID, "x")}
    now: dict[bytes, AccessControlEntryRecord] = {}
    judged = fast_path(harness, coordinator=Coordinator(), authorizer=Authorizer((), False, lambda: now, VirtualClock()))
    plain, transactional = frame(produce(), 10), frame(produce(IN_A_TRANSACTION, txn="x"), 10)
    assert judged.answer(PEER, plain, 0) is None
    now = {topic: acls[topic]}
    assert judged.answer(PEER, plain, 0) is not None
    assert judged.answer(replace(PEER, principal=Principal("User", "bob")), plain, 0) is None
    assert judged.answer(PEER, transactional, 0) is None
    assert ends(harness) == [1, 0]
    now = acls
    assert judged.answer(PEER, transactional, 0) is not None
    assert not caplog.records, "the general path logs each denial, once"
