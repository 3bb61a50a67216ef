"""The fast path behaves like the normal path: two brokers get the same bytes, and one has its fast path disabled by an observer.

For any bytes in any pieces, the responses, the end of the connection, all files and the producer state are equal. With an authorizer, a
topic and a transactional id are denied; with a quota, clients are throttled.
"""

from __future__ import annotations

import asyncio
import struct
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from random import Random
from typing import Any

import pytest

from ottla.broker.api.authorizer import Authorizer
from ottla.broker.api.context import Peer
from ottla.broker.api.produce_fast_path import ProduceFastPath
from ottla.broker.api.throttling import Throttling
from ottla.broker.app import Broker
from ottla.broker.core.acl import STANDARD_AUTHORIZER, Operation, Pattern, Permission, Resource
from ottla.broker.core.clock import VirtualClock
from ottla.broker.core.settings_load import load
from ottla.broker.environment import Environment
from ottla.broker.faults.engine import Faults
from ottla.broker.runtime.coordination.txn_verification import TransactionalProducer, TxnVerification
from ottla.broker.runtime.replicas.partition import Partition
from ottla.broker.sim.memory_files import MemoryFiles
from ottla.broker.sim.memory_network import MemoryNetwork
from ottla.broker.sim.sim_threads import InlineThreads
from ottla.protocol.codec import encode_request
from ottla.protocol.messages.k00_produce import PartitionProduceData, ProduceRequest, TopicProduceData
from ottla.protocol.messages.k12_heartbeat import HeartbeatRequest
from ottla.protocol.messages.k19_create_topics import CreatableTopic, CreatableTopicConfig, CreateTopicsRequest
from ottla.protocol.messages.k22_init_producer_id import InitProducerIdRequest
from ottla.protocol.messages.k24_add_partitions_to_txn import AddPartitionsToTxnRequest, AddPartitionsToTxnTopic
from ottla.protocol.messages.k26_end_txn import EndTxnRequest
from ottla.protocol.messages.k30_create_acls import AclCreation, CreateAclsRequest
from ottla.protocol.messages.k49_alter_client_quotas import AlterClientQuotasRequest, EntityData, EntryData, OpData
from ottla.protocol.records.compression import Codec
from ottla.protocol.records.record import SimpleRecord, build_batch
from tests.support.memory_clients import MemoryClient
from tests.support.simulation import TimelessLoop, settle

SMALL = {"offsets.topic.num.partitions": "1", "transaction.state.log.num.partitions": "1", "internal.segment.bytes": "6000"}
TOPICS = {
    "t": {},
    "by-append-time": {"message.timestamp.type": "LogAppendTime"},
    "compacted": {"cleanup.policy": "compact"},
    "gzipped": {"compression.type": "gzip"},
    "short": {"max.message.bytes": "250"},
    "synced": {"flush.messages": "2"},
}
NAMES = ["t"] * 20 + [*TOPICS, "nowhere", "__consumer_offsets", "\u00e9"]
TRANSACTIONAL_IDS = ["tx", "other"]
AUTHORIZER = {"authorizer.class.name": STANDARD_AUTHORIZER, "allow.everyone.if.no.acl.found": "true"}
DENIED = [
    AclCreation(kind, name, Pattern.LITERAL, "User:ANONYMOUS", "*", Operation.WRITE, Permission.DENY)
    for kind, name in ((Resource.TOPIC, "compacted"), (Resource.TRANSACTIONAL_ID, "other"))
]
QUOTA = [EntryData([EntityData("client-id", None)], [OpData("producer_byte_rate", 150)])]
STEPS = 300


class Side:
    """One broker with its own disk, and one client connection, which is opened again after the broker closes it."""

    def __init__(self, seed: int, *, closed: bool, secured: bool, throttled: bool) -> None:
        self.files = MemoryFiles()
        self.clock = VirtualClock()
        self.network = MemoryNetwork()
        faults = Faults()
        if closed:
            faults.observe(lambda exchange: None)
        wanted = {"log.dir": "/data", "listeners": "PLAINTEXT://node:9092", **SMALL, **(AUTHORIZER if secured else {})}
        environment = Environment(self.clock, self.files, self.network, Random(seed), InlineThreads)
        self.broker = Broker(load(wanted, {}, None).settings, faults, environment, exit_now=lambda code: None)
        self.client = MemoryClient()
        self.secured, self.throttled = secured, throttled

    async def start(self) -> None:
        await self.broker.start()
        await self.connect()
        configs = {name: [CreatableTopicConfig(*pair) for pair in config.items()] for name, config in TOPICS.items()}
        made = [CreatableTopic(name, 2, 1, configs=config) for name, config in configs.items()]
        self.client.send(CreateTopicsRequest([*made, CreatableTopic("__consumer_offsets", 1, 1)]), 7)
        await settle(400)
        self.client.send(CreateTopicsRequest([CreatableTopic("__transaction_state", 1, 1)]), 7)
        await settle(400)
        for name in TRANSACTIONAL_IDS:
            self.client.send(InitProducerIdRequest(name, 60_000), 4)
            await settle(400)
        if self.secured:
            self.client.send(CreateAclsRequest(DENIED), 3)
            await settle(400)
        if self.throttled:
            self.client.send(AlterClientQuotasRequest(QUOTA), 1)
            await settle(400)

    async def connect(self) -> None:
        self.client = MemoryClient()
        await self.network.connect("node", 9092, lambda: self.client)

    async def take(self, pieces: list[bytes]) -> tuple[list[bytes], bool]:
        """Send the pieces; return the responses, and whether the broker closed the connection."""
        for piece in pieces:
            self.client.write(piece)
            await settle(8)
        await settle()
        self.clock.advance(1_000)
        await settle()
        answered, lost = list(self.client.frames), self.client.lost
        self.client.frames.clear()
        if lost:
            await self.connect()
        return answered, lost

    def topic_id(self, name: str) -> bytes:
        found = self.broker.services.partitions.by_name(name)
        return bytes(16) if found is None else found.topic_id

    def last_sequence(self, topic: str, index: int, producer_id: int) -> tuple[int, int]:
        """Return a producer's epoch and last sequence in the partition."""
        found = self.broker.services.partitions.by_name(topic)
        partition = None if found is None else found.partitions.get(index)
        entry = None if partition is None else partition.log.producer_state.get(producer_id)
        return (0, -1) if entry is None else (entry.producer_epoch, entry.last_sequence)

    def holder(self, transactional_id: str) -> tuple[int, int]:
        """Return the current producer id and epoch of a transactional id."""
        txns = self.broker.services.txns.shards.of(transactional_id).machine.transactions
        return txns[transactional_id].holder if transactional_id in txns else (77, 0)

    def throttles(self) -> tuple[int, int]:
        """Return the number of throttled requests, and the sum of their throttle times in ms."""
        quotas = self.broker.services.quotas
        return (0, 0) if quotas is None else (quotas.produce.throttled, quotas.produce.waited_ms)

    def state(self) -> list[object]:
        """Return the offsets and producers of each partition, and the throttle counts."""
        logs = [partition.log for partition in self.broker.services.partitions]
        ends = [(log.log_start_offset, log.last_stable_offset, log.high_watermark, log.log_end_offset) for log in logs]
        return [*ends, str([list(log.producers()) for log in logs]), self.throttles()]

    def disk(self) -> dict[Path, bytes]:
        return {path: bytes(node.data) for path, node in sorted(self.files.nodes.items())}


class Producers:
    """Draws random requests: mostly a producer's next batch, sometimes requests with the errors of producers, networks or programmers."""

    def __init__(self, draw: Random, side: Side) -> None:
        self.draw = draw
        self.side = side
        self.sent: list[bytes] = []
        self.correlation_id = 0

    def batch(self, topic: str, index: int, transactional_id: str | None) -> bytes:
        draw, now = self.draw, self.side.clock.now_ms()
        producer_id = draw.choice([-1, 1, 2, 3])
        if transactional_id is not None:
            producer_id, holds = self.side.holder(transactional_id)
        epoch, last = self.side.last_sequence(topic, index, producer_id)
        sequence = last + 1
        if transactional_id is not None and holds != epoch:
            epoch, sequence = holds, 0
        match draw.randrange(30):
            case 0:
                sequence += draw.choice([-3, -1, 1, 5])
            case 1:
                epoch, sequence = epoch + 1, draw.choice([0, 0, 7])
            case 2:
                epoch -= 1
        key = None if draw.random() < 0.8 else b"k"
        when = now if draw.random() < 0.9 else draw.choice([-1, 0, now + 10**9])
        records = [SimpleRecord(key, draw.randbytes(draw.randrange(90)), when) for _ in range(draw.choice([1, 1, 2, 9]))]
        return build_batch(
            records,
            producer_id=producer_id,
            producer_epoch=-1 if producer_id < 0 else max(epoch, 0),
            base_sequence=-1 if producer_id < 0 else max(sequence, 0),
            codec=draw.choice([Codec.NONE] * 5 + [Codec.GZIP, Codec.ZSTD]),
            transactional=(draw.random() < 0.03) == (transactional_id is None),
            control=draw.random() < 0.01,
        )

    def partition(self, topic: str, transactional_id: str | None) -> PartitionProduceData:
        draw, index = self.draw, self.draw.choice([0] * 8 + [1] * 6 + [2])
        records: bytes | None = self.batch(topic, index, transactional_id)
        if draw.random() < 0.04:
            records = draw.choice([None, b"", records[:-1], records + records, records + b"\0"]) if records else None
        return PartitionProduceData(index, records)

    def request(self) -> bytes:
        draw = self.draw
        if self.sent and draw.random() < 0.12:
            return draw.choice(self.sent[-6:])  # a retry
        name, version = draw.choice(NAMES), draw.choice([9, 9, 10, 11, 12, 13, 13, draw.randrange(3, 9)])
        transactional_id = None if draw.random() < 0.65 else draw.choice([*TRANSACTIONAL_IDS * 8, "nobody", "", "\u00e9"])
        partitions = [self.partition(name, transactional_id) for _ in range(1 if draw.random() < 0.95 else draw.randrange(3))]
        topics = [TopicProduceData(name, self.side.topic_id(name), partitions)] * (1 if draw.random() < 0.97 else draw.randrange(3))
        acks = draw.choice([-1] * 8 + [1] * 8 + [0, 2])
        self.correlation_id += 1
        used_id = transactional_id if draw.random() < 0.95 else draw.choice([None, "x"])
        body: Any = ProduceRequest(used_id, acks, draw.choice([0, 500]), topics)
        if transactional_id is not None and draw.random() < 0.4:
            body, version = self.of_a_transaction(transactional_id)
        elif draw.random() < 0.04:
            body, version = HeartbeatRequest("g", 1, "m"), 4
        client_id = draw.choice([None, "", "client", "cl\u00efent"])
        made = b"".join(map(bytes, encode_request(body.API_KEY, version, self.correlation_id, client_id, body)))
        self.sent.append(made)
        return made

    def of_a_transaction(self, transactional_id: str) -> tuple[Any, int]:
        """Draw a request to the transaction coordinator, with its version."""
        draw = self.draw
        producer = self.side.holder(transactional_id)
        places = [AddPartitionsToTxnTopic("t", draw.choice([[0, 1], [0], [1]]))]
        match draw.randrange(9):
            case 0:
                return InitProducerIdRequest(transactional_id, 60_000, *draw.choice([(-1, -1), producer])), 4
            case 1 | 2 | 3:
                return EndTxnRequest(transactional_id, *producer, committed=draw.random() < 0.7), draw.choice([3, 3, 5])
        return AddPartitionsToTxnRequest([], transactional_id, *producer, places), 3

    def mutated(self, frame: bytes) -> bytes:
        """Return a frame with some bytes changed, removed or added; its size prefix is mostly right."""
        draw, body = self.draw, bytearray(frame[4:])
        for _ in range(draw.choice([1, 1, 2, 5])):
            at = draw.randrange(len(body)) if draw.random() < 0.5 else draw.randrange(min(len(body), 60))
            match draw.randrange(4):
                case 0 | 1:
                    body[at] = draw.choice([0, 1, 2, 0x7F, 0x80, 0xFF, body[at] ^ 1 << draw.randrange(8)])
                case 2:
                    del body[at : at + draw.choice([1, 4])]
                case 3:
                    body[at:at] = draw.randbytes(draw.choice([1, 2]))
        size = len(body) if draw.random() < 0.95 else draw.choice([0, len(body) - 1, len(body) + 1, -1, 1 << 30])
        return struct.pack(">i", size) + bytes(body)

    def pieces(self) -> list[bytes]:
        """Draw the bytes of one step, split into the pieces in which they arrive."""
        draw = self.draw
        stream = b""
        for _ in range(draw.choice([1, 1, 1, 2, 5])):
            frame = self.request()
            stream += self.mutated(frame) if draw.random() < 0.12 and len(frame) > 4 else frame
        if draw.random() < 0.85:
            return [stream]
        cuts = sorted(draw.randrange(len(stream) + 1) for _ in range(draw.choice([1, 3])))
        return [stream[start:stop] for start, stop in zip([0, *cuts], [*cuts, len(stream)], strict=True) if start < stop]


@contextmanager
def counted(taken: Counter[str], monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Count the requests that the fast path answers or passes on, those that begin a transaction in their partition, and throttled ones."""
    answer, at_once, allows, produced = (
        ProduceFastPath.answer,
        TxnVerification.verify_without_waiting,
        Authorizer.allows,
        Throttling.produced,
    )

    def counted_answer(self: ProduceFastPath, *given: Any) -> Any:
        found = answer(self, *given)
        taken["passed on" if found is None else "answered"] += 1
        return found

    def verified(self: TxnVerification, writer: TransactionalProducer, partition: Partition, sequence: int) -> Any:
        guard = at_once(self, writer, partition, sequence)
        taken["added" if writer.adds else "verified"] += guard is not None
        return guard

    def judged(self: Authorizer, peer: Peer, operation: Operation, resource: Resource, name: str) -> bool:
        found = allows(self, peer, operation, resource, name)
        taken["allowed" if found else f"denied {resource.name}"] += 1
        return found

    def charged(self: Throttling, *given: Any) -> int:
        wait_ms = produced(self, *given)
        taken["throttled"] += wait_ms > 0
        return wait_ms

    with monkeypatch.context() as patch:
        patch.setattr(Throttling, "produced", charged)
        patch.setattr(Authorizer, "allows", judged)
        patch.setattr(ProduceFastPath, "answer", counted_answer)
        patch.setattr(TxnVerification, "verify_without_waiting", verified)
        yield


async def compare(seed: int, *, secured: bool, throttled: bool) -> None:
    draw = Random(seed)
    fast, ordinary = (Side(seed, closed=closed, secured=secured, throttled=throttled) for closed in (False, True))
    for side in (fast, ordinary):
        await side.start()
    assert fast.topic_id("t") == ordinary.topic_id("t") != bytes(16)
    producers = Producers(draw, ordinary)
    for step in range(STEPS):
        room = draw.choice([0, draw.randrange(400)]) if draw.random() < 0.08 else None
        for side in (fast, ordinary):
            side.files.room = room
        pieces = producers.pieces()
        first, second = await fast.take(pieces), await ordinary.take(pieces)
        assert first == second, f"seed {seed}, step {step}: {pieces}"
        assert fast.state() == ordinary.state(), f"seed {seed}, step {step}: {pieces}"
    assert fast.disk() == ordinary.disk()
    for side in (fast, ordinary):
        side.files.room = None
        await side.broker.stop()
    assert fast.disk() == ordinary.disk()


@pytest.mark.parametrize("rules", ["", "authorizer", "quota"])
@pytest.mark.parametrize("seed", range(6))
def test_fast_path_answers_and_stores_like_the_ordinary_path(seed: int, rules: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """With `pytest -s`, the counts of compared requests are printed."""
    taken: Counter[str] = Counter()
    secured, throttled = rules == "authorizer", rules == "quota"
    with counted(taken, monkeypatch), asyncio.Runner(loop_factory=TimelessLoop) as runner:
        runner.run(compare(seed, secured=secured, throttled=throttled))
    print(f"seed {seed}: {dict(taken)}")
    assert taken["answered"] > STEPS / (10 if throttled else 5), taken  # a throttled client is answered less often
    assert taken["passed on"] > STEPS / 10, taken
    assert taken["verified"] + taken["added"] > STEPS / (150 if rules else 50), taken  # the authorizer denies one of two ids
    assert throttled == (taken["throttled"] > 0), taken
    assert secured == (taken["denied TOPIC"] > 0) == (taken["denied TRANSACTIONAL_ID"] > 0), taken
