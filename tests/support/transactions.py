"""A transactional producer made of single steps, each in a version that the test chooses, against a running broker."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine
from dataclasses import dataclass
from typing import Any, TypeVar

from ottla.broker.app import Broker
from ottla.broker.core.clock import Clock
from ottla.broker.runtime.coordination.txn_service import TxnResult
from ottla.protocol.client import Client
from ottla.protocol.error_codes import ErrorCode
from ottla.protocol.messages.k00_produce import PartitionProduceData, PartitionProduceResponse, ProduceRequest, TopicProduceData
from ottla.protocol.messages.k01_fetch import FetchPartition, FetchRequest, FetchTopic, PartitionData
from ottla.protocol.messages.k02_list_offsets import ListOffsetsPartition, ListOffsetsRequest, ListOffsetsTopic
from ottla.protocol.messages.k28_txn_offset_commit import (
    TxnOffsetCommitRequest,
    TxnOffsetCommitRequestPartition,
    TxnOffsetCommitRequestTopic,
)
from ottla.protocol.records.batch import split_batches
from ottla.protocol.records.record import SimpleRecord, build_batch, iter_records
from tests.support.running_broker import RunningBroker

T = TypeVar("T")
TIMEOUT_MS = 60_000
LAST_BY_NAME = 12
"""The last versions of Produce and Fetch that name topics. In this module, both requests use this version."""


async def _done(answer: T | asyncio.Future[T]) -> T:
    return await answer if isinstance(answer, asyncio.Future) else answer


def on_service(broker: RunningBroker, work: Callable[[Broker], T | asyncio.Future[T]]) -> T:
    """Call `work` with the broker's services on its event loop, and return the result."""

    async def run() -> T:
        return await _done(work(broker.broker))

    task: Coroutine[Any, Any, T] = run()
    return broker.call_async(task)


@dataclass
class Transactional:
    """The producer of one transactional id, connected to the coordinator. `version` is its transaction version."""

    broker: RunningBroker
    transactional_id: str = "tx"
    version: int = 2
    producer_id: int = -1
    epoch: int = -1

    def init(self) -> Transactional:
        """Send InitProducerId to get the next producer epoch; wait until the previous transaction has ended. Return this producer."""
        if not self.broker.call(lambda broker: broker.services.txns.shards.exist):

            async def create() -> None:
                await self.broker.broker.services.txns.shards.create_topic()

            self.broker.call_async(create())
        while True:
            answer = on_service(self.broker, lambda broker: broker.services.txns.init_producer_id(self.transactional_id, TIMEOUT_MS, None))
            if answer.error is not ErrorCode.CONCURRENT_TRANSACTIONS:
                break
        assert answer.error is ErrorCode.NONE
        self.producer_id, self.epoch = answer.producer_id, answer.producer_epoch
        return self

    def add(self, *partitions: tuple[str, int]) -> ErrorCode:
        """Send AddPartitionsToTxn for the partitions; return the error code."""
        return on_service(
            self.broker,
            lambda broker: broker.services.txns.add_partitions(
                self.transactional_id, self.producer_id, self.epoch, frozenset(partitions), self.version
            ),
        )

    def end(self, *, commit: bool) -> ErrorCode:
        """Send EndTxn, adopt the producer epoch of its response, and return the error code."""
        answer: TxnResult = on_service(
            self.broker,
            lambda broker: broker.services.txns.end_txn(
                self.transactional_id, self.producer_id, self.epoch, commit=commit, client_version=self.version
            ),
        )
        if answer.error is ErrorCode.NONE and self.version >= 2:
            self.producer_id, self.epoch = answer.producer_id, answer.producer_epoch
        return answer.error

    def batch(self, sequence: int, *values: bytes, epoch: int | None = None) -> bytes:
        """Return a transactional batch of the producer with these values."""
        return build_batch(
            [SimpleRecord(None, value, Clock().now_ms()) for value in values or (b"x",)],
            producer_id=self.producer_id,
            producer_epoch=self.epoch if epoch is None else epoch,
            base_sequence=sequence,
            transactional=True,
        )

    def produce(
        self, client: Client, sequence: int, *values: bytes, topic: str = "t", index: int = 0, version: int | None = None
    ) -> PartitionProduceResponse:
        """Produce a batch, and return the partition's response. The default version is the Produce version that belongs to the producer's
        transaction version."""
        used_version = version or (LAST_BY_NAME if self.version >= 2 else LAST_BY_NAME - 1)
        return produce_as(client, self.transactional_id, self.batch(sequence, *values), topic=topic, index=index, version=used_version)

    def commit_offset(self, client: Client, offset: int, *, version: int | None = None, **changes: Any) -> int:
        """Send TxnOffsetCommit for partition 0 of "t" in group "g"; return the error code."""
        fields: dict[str, Any] = {
            "transactional_id": self.transactional_id,
            "group_id": "g",
            "producer_id": self.producer_id,
            "producer_epoch": self.epoch,
            "topics": [TxnOffsetCommitRequestTopic("t", partitions=[TxnOffsetCommitRequestPartition(0, offset, 2, "note")])],
        }
        used_version = version if version is not None else 5 if self.version >= 2 else 4
        response = client.call(TxnOffsetCommitRequest(**(fields | changes)), version=used_version)
        error: int = response.topics[0].partitions[0].error_code
        return error


def produce_as(
    client: Client, transactional_id: str | None, records: bytes, *, topic: str = "t", index: int = 0, version: int = LAST_BY_NAME
) -> PartitionProduceResponse:
    """Produce a batch; return the partition's response."""
    data = [TopicProduceData(topic, partition_data=[PartitionProduceData(index, records)])]
    request = ProduceRequest(transactional_id=transactional_id, acks=-1, timeout_ms=5_000, topic_data=data)
    answer: PartitionProduceResponse = client.call(request, version=version).responses[0].partition_responses[0]
    return answer


def fetch_request(topic: str, offset: int, *, index: int = 0, committed: bool = True, **changes: Any) -> FetchRequest:
    """Make a Fetch of one partition, by name."""
    topics = [FetchTopic(topic, partitions=[FetchPartition(index, fetch_offset=offset, partition_max_bytes=1 << 20)])]
    fields: dict[str, Any] = {"max_wait_ms": 0, "min_bytes": 1, "max_bytes": 1 << 20, "isolation_level": int(committed), "topics": topics}
    return FetchRequest(**(fields | changes))


def fetch(client: Client, topic: str = "t", offset: int = 0, *, index: int = 0, committed: bool = True) -> PartitionData:
    """Fetch one partition; return its response."""
    answer: PartitionData = (
        client.call(fetch_request(topic, offset, index=index, committed=committed), version=LAST_BY_NAME).responses[0].partitions[0]
    )
    return answer


def committed_values(client: Client, topic: str = "t", *, index: int = 0, start: int = 0) -> list[bytes | None]:
    """Read to the end as a read_committed consumer does, which uses the list of aborted transactions and the markers; return the values."""
    values: list[bytes | None] = []
    offset = start
    while True:
        data = fetch(client, topic, offset, index=index)
        assert data.error_code == 0
        pending = sorted((a.first_offset, a.producer_id) for a in data.aborted_transactions or ())
        aborting: set[int] = set()
        records = bytes(data.records or b"")
        before = offset
        for position, header in split_batches(records):
            while pending and pending[0][0] <= header.last_offset:
                aborting.add(pending.pop(0)[1])
            if header.is_control:
                aborting.discard(header.producer_id)
            elif not (header.is_transactional and header.producer_id in aborting):
                found = iter_records(records[position : position + header.size_bytes])
                values += [bytes(r.value or b"") for r in found if r.offset >= offset]
            offset = max(offset, header.next_offset)
        if offset == before:
            return values


def latest(client: Client, *, committed: bool, topic: str = "t", index: int = 0) -> int:
    """Return the partition's end offset from ListOffsets: with `committed`, the last stable offset, else the high watermark."""
    topics = [ListOffsetsTopic(topic, [ListOffsetsPartition(index, -1, -1)])]
    response = client.call(ListOffsetsRequest(-1, int(committed), topics))
    offset: int = response.topics[0].partitions[0].offset
    return offset
