"""Clients of a cluster in memory: a transactional producer made of single steps, a group's offsets, and the contents of partitions."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from ottla.broker.storage.log_values import Isolation
from ottla.protocol.error_codes import ErrorCode
from ottla.protocol.messages import k08_offset_commit as k08
from ottla.protocol.messages import k09_offset_fetch as k09
from ottla.protocol.messages import k28_txn_offset_commit as k28
from ottla.protocol.messages.k00_produce import PartitionProduceData, ProduceRequest, TopicProduceData
from ottla.protocol.messages.k22_init_producer_id import InitProducerIdRequest
from ottla.protocol.messages.k24_add_partitions_to_txn import AddPartitionsToTxnRequest, AddPartitionsToTxnTopic
from ottla.protocol.messages.k26_end_txn import EndTxnRequest
from ottla.protocol.records.batch import split_batches
from ottla.protocol.records.control import ControlType, Marker, parse_marker
from ottla.protocol.records.record import SimpleRecord, build_batch
from ottla.protocol.schema import Message
from tests.support.broker_cluster import BrokerCluster, Member
from tests.support.simulation import settle

TopicPartition = tuple[str, int]

ID, GROUP = "tx", "g"


@dataclass
class Producer:
    """A transactional producer (transaction version 2 unless a step says otherwise) whose requests a test sends one by one. Every step
    names the broker to send to."""

    cluster: BrokerCluster
    producer_id: int = -1
    epoch: int = -1

    async def init(self, at: int) -> Producer:
        """Send InitProducerId to get the next producer epoch, and return this producer; retry while the coordinator is not ready."""
        while True:
            answer = await self.cluster.ask(at, InitProducerIdRequest(ID, 60_000), 5)
            if answer.error_code == ErrorCode.NONE:
                self.producer_id, self.epoch = answer.producer_id, answer.producer_epoch
                return self
            assert answer.error_code in {ErrorCode.COORDINATOR_LOAD_IN_PROGRESS, ErrorCode.CONCURRENT_TRANSACTIONS}, answer
            await self.cluster.pass_ms(100)

    async def write(self, at: int, place: TopicPartition, sequence: int = 0, version: int = 12) -> int:
        """Write a record to the partition's leader; return the error code."""
        batch = build_batch(
            [SimpleRecord(None, b"x", self.cluster.clock.now_ms())],
            producer_id=self.producer_id,
            producer_epoch=self.epoch,
            base_sequence=sequence,
            transactional=True,
        )
        topic = TopicProduceData(place[0], partition_data=[PartitionProduceData(place[1], batch)])
        answer = await self.cluster.ask(at, ProduceRequest(ID, -1, 10_000, [topic]), version)
        error: int = answer.responses[0].partition_responses[0].error_code
        return error

    async def add(self, at: int, *places: TopicPartition) -> list[int]:
        """Add partitions with the request of transaction version 0; return the error codes, in the order of the partitions."""
        topics = [AddPartitionsToTxnTopic(topic, [index]) for topic, index in places]
        request = AddPartitionsToTxnRequest([], ID, self.producer_id, self.epoch, topics)
        answer = await self.cluster.ask(at, request, 3)
        return [result.results_by_partition[0].partition_error_code for result in answer.results_by_topic_v3_and_below]

    async def sends_end(self, at: int, *, commit: bool = True) -> Callable[[], Any]:
        return await sent(self.cluster, at, EndTxnRequest(ID, self.producer_id, self.epoch, commit), 5)

    async def end(self, at: int, *, commit: bool = True) -> int:
        """End the transaction; return the error code. If there is no error, continue in the next producer epoch."""
        answer = await self.cluster.ask(at, EndTxnRequest(ID, self.producer_id, self.epoch, commit), 5)
        if answer.error_code == ErrorCode.NONE:
            self.producer_id, self.epoch = answer.producer_id, answer.producer_epoch
        error: int = answer.error_code
        return error

    async def commit_offset(self, at: int, offset: int) -> int:
        """Commit an offset of `t-0` in the transaction; return the error code."""
        topic = k28.TxnOffsetCommitRequestTopic("t", partitions=[k28.TxnOffsetCommitRequestPartition(0, offset)])
        request = k28.TxnOffsetCommitRequest(ID, GROUP, self.producer_id, self.epoch, topics=[topic])
        answer = await self.cluster.ask(at, request, 5)
        error: int = answer.topics[0].partitions[0].error_code
        return error


async def sent(cluster: BrokerCluster, at: int, request: Message, version: int) -> Callable[[], Any]:
    """Send a request to the broker `at` without waiting. Return a function that returns the response, or None as long as there is none."""
    asking = asyncio.ensure_future(cluster.asking(at, request, version))
    await settle()
    return lambda: asking.result() if asking.done() else None


def offset_commit(offset: int) -> k08.OffsetCommitRequest:
    """Make an OffsetCommit request for partition `t-0`, without a member id."""
    topic = k08.OffsetCommitRequestTopic("t", partitions=[k08.OffsetCommitRequestPartition(0, offset)])
    return k08.OffsetCommitRequest(GROUP, topics=[topic])


async def committed_offset(cluster: BrokerCluster, at: int) -> tuple[int, int]:
    """Return the error code and the committed offset of `t-0` by OffsetFetch for the group."""
    topics = [k09.OffsetFetchRequestTopics("t", partition_indexes=[0])]
    request = k09.OffsetFetchRequest(groups=[k09.OffsetFetchRequestGroup(GROUP, topics=topics)])
    (group,) = (await cluster.ask(at, request, 8)).groups
    return group.error_code, group.topics[0].partitions[0].committed_offset if group.topics else -1


def markers(broker: Member, place: TopicPartition) -> list[Marker]:
    """Return all transaction markers in the broker's replica of a partition, in offset order."""
    log = broker.partition(*place).log
    records = bytes(log.read(0, 1 << 20, isolation=Isolation.LOG_END, min_one_batch=True).records) if log.log_end_offset else b""
    found = [records[position : position + header.size_bytes] for position, header in split_batches(records) if header.is_control]
    return [parse_marker(batch) for batch in found]


def outcomes(broker: Member, place: TopicPartition) -> list[tuple[ControlType | None, int]]:
    """Return the kind (commit or abort) and coordinator epoch of each marker in the broker's replica, in offset order."""
    return [(marker.type, marker.coordinator_epoch) for marker in markers(broker, place)]


def is_stable(broker: Member, place: TopicPartition) -> bool:
    """Return whether the partition has no open transaction that holds its last stable offset back."""
    log = broker.partition(*place).log
    return log.last_stable_offset == log.log_end_offset
