"""Simulated producers. They send as Kafka's producers do: up to five batches of a partition are in flight, and they are retried in order
until they are acknowledged.

Sources: KAFKA Sender, TransactionManager.
"""

from __future__ import annotations

import asyncio
from dataclasses import dataclass
from itertools import dropwhile
from random import Random
from typing import Any, Final

from ottla.broker.runtime.nodes.link import LinkBroken, UnsupportedByPeer
from ottla.broker.sim.sim_client import SimClient
from ottla.broker.sim.sim_cluster import SimCluster
from ottla.broker.testing.history import KeyValue, Send
from ottla.broker.txns.transaction import TopicPartition
from ottla.protocol.error_codes import ErrorCode
from ottla.protocol.messages.k00_produce import PartitionProduceData, PartitionProduceResponse, ProduceRequest, TopicProduceData
from ottla.protocol.messages.k22_init_producer_id import InitProducerIdRequest
from ottla.protocol.records.record import SimpleRecord, build_batch

WINDOW: Final = 5
_PRODUCE_VERSION: Final = 12
FIRST_LOST: Final = 0.1
"""The probability (0 to 1) that the first of several batches is lost while the others arrive. The broker must then reject the others as out
of order."""
UNKNOWN: Final = ErrorCode.NETWORK_EXCEPTION
"""The error that stands for a missing response: the client does not know whether the batch was appended."""


@dataclass
class SimBatch:
    """A batch that a simulated producer sends, with one base sequence. `offset` is the base offset in the acknowledgement. `sent_number`
    numbers batches in the order in which they were first sent."""

    tp: TopicPartition
    sequence: int
    records: tuple[KeyValue, ...]
    sent_number: int = 0
    done: bool = False
    offset: int = -1


class ClientHistory:
    """All batches that the clients of a simulation have sent, with their results. `wrong` has a text for each response that no client may
    ever get."""

    def __init__(self) -> None:
        self.sends: list[Send] = []
        self.wrong: list[str] = []
        self.numbers = 0

    def next_number(self) -> int:
        self.numbers += 1
        return self.numbers


class SimProducer(SimClient):
    """A simulated producer without transactions. It is idempotent if it has a producer id."""

    def __init__(
        self, name: str, cluster: SimCluster, random: Random, history: ClientHistory, *, acks: int = -1, idempotent: bool = True
    ) -> None:
        super().__init__(name, cluster, random)
        self.history, self.acks, self.idempotent = history, acks, idempotent
        self.producer_id = self.epoch = -1
        self.transactional_id: str | None = None
        self.values = 0
        self.finished = False

    async def produce(self, tps: list[TopicPartition], until_ms: int, pause_ms: int) -> None:
        """About every `pause_ms` milliseconds, send about two batches to each of the partitions `tps`. At the virtual time `until_ms`,
        finish the batches in flight and return."""
        if self.idempotent:
            await self.init()
        await asyncio.gather(*(self._produce_to(tp, until_ms, pause_ms) for tp in tps))
        self.finished = True

    async def init(self) -> None:
        """Get a producer id by InitProducerId, so that the producer is idempotent."""
        while True:
            answer = await self.call_any(InitProducerIdRequest(None, 60_000), 5)
            if answer.error_code == ErrorCode.NONE:
                self.producer_id, self.epoch = answer.producer_id, answer.producer_epoch
                return
            await self.pause()

    async def _produce_to(self, tp: TopicPartition, until_ms: int, pause_ms: int) -> None:
        window: list[SimBatch] = []
        sequence = 0
        while window or self.loop.now_us < until_ms * 1000:
            while len(window) < WINDOW and self.loop.now_us < until_ms * 1000:
                window.append(self.batch(tp, sequence))
                sequence += len(window[-1].records)
                if self.random.random() < 0.5:
                    break
            may_lose = self.idempotent and len(window) > 1 and window[0].sequence > 0
            await self.send_all([each for each in window if not each.done], first_lost=may_lose and self.random.random() < FIRST_LOST)
            # Acknowledged batches stay in the window while an earlier one is not acknowledged: a broker remembers only a producer's last
            # five, and must recognise the earlier one when it is sent again.
            window = list(dropwhile(lambda batch: batch.done, window))
            if self.acks == 1:
                # Refresh metadata, as after metadata.max.age.ms: with acks=1 no timeout reveals an isolated leader. So both sides of a
                # network partition get records.
                self.forget_leader(tp)
            await self.pause(self.random.randint(1, pause_ms if window else 2 * pause_ms))

    def batch(self, tp: TopicPartition, sequence: int) -> SimBatch:
        """Make a batch of one to three new records for the partition, with this base sequence."""
        records = []
        for _ in range(self.random.randint(1, 3)):
            self.values += 1
            records.append((None, b"%s/%d" % (self.name.encode(), self.values)))
        return SimBatch(tp, sequence, tuple(records))

    async def send_all(self, batches: list[SimBatch], *, first_lost: bool = False) -> list[ErrorCode]:
        """Send batches of one partition to its leader, without waiting for a response between them. Return one error code per batch (NONE:
        acknowledged). With `first_lost`, the first batch does not arrive."""
        tp = batches[0].tp
        leader = await self.leader_of(tp)
        errors = await asyncio.gather(*(self._send(leader, batch, lost=first_lost and batch is batches[0]) for batch in batches))
        first_open = next((n for n, batch in enumerate(batches) if not batch.done), len(batches))
        for number, error in enumerate(errors):
            if error is not ErrorCode.NONE:
                self.check_error(batches[number], error, is_first=number == first_open)
        if any(errors):
            self.forget_leader(tp)
            await self.pause()
        return errors

    def check_error(self, batch: SimBatch, error: ErrorCode, *, is_first: bool) -> None:
        """Check an error that a broker returned for the batch. If no broker may return it, add a text to the history's `wrong`. `is_first`
        is true if all earlier batches are acknowledged; then the batch cannot be out of order."""
        out_of_order = error is ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER and not is_first
        if not (error.retriable or out_of_order or error is UNKNOWN):
            self.history.wrong.append(
                f"{self.name}: {error.name} for sequence {batch.sequence} of {batch.tp}, although all before it are acknowledged"
            )

    async def _send(self, leader: int, batch: SimBatch, *, lost: bool) -> ErrorCode:
        number = self.history.next_number()
        batch.sent_number = batch.sent_number or number
        answer: PartitionProduceResponse | None = None
        try:
            data = TopicProduceData(batch.tp[0], partition_data=[PartitionProduceData(batch.tp[1], self._bytes_of(batch))])
            request = ProduceRequest(self.transactional_id, self.acks, 5_000, [data])
            if not lost:
                answer = (await self.call(leader, request, _PRODUCE_VERSION)).responses[0].partition_responses[0]
        except (LinkBroken, UnsupportedByPeer):
            pass
        error = UNKNOWN if answer is None else ErrorCode(answer.error_code)
        if error in {ErrorCode.NONE, ErrorCode.DUPLICATE_SEQUENCE_NUMBER}:
            batch.done, error = True, ErrorCode.NONE
            batch.offset = -1 if answer is None else answer.base_offset
        self._record_send(batch, error, number)
        return error

    def _record_send(self, batch: SimBatch, error: ErrorCode, number: int) -> None:
        (topic, partition), ids = batch.tp, (self.producer_id, self.epoch, batch.sequence)
        seen = error is not UNKNOWN
        sent = (self.clock.now_ms(), 0, self.name, self.transactional_id, topic, partition, *ids, self.acks, batch.records)
        self.history.sends.append(Send(*sent, error, batch.offset, seen, (), number=number))

    def _bytes_of(self, batch: SimBatch) -> bytes:
        records = [SimpleRecord(key, value, self.clock.now_ms()) for key, value in batch.records]
        ids: dict[str, Any] = {"producer_id": self.producer_id, "producer_epoch": self.epoch, "base_sequence": batch.sequence}
        return build_batch(records, **(ids if self.producer_id >= 0 else {}), transactional=self.transactional_id is not None)
