"""Simulated read-process-write clients, called copiers: each copies the records of a partition to another topic, in transactions that
include the consumed offset. Some transactions are aborted on purpose.

Source: KAFKA TransactionManager, with transaction.version 2 (KIP-890).
"""

from __future__ import annotations

from random import Random
from typing import Any, Final

from ottla.broker.runtime.nodes.link import LinkBroken
from ottla.broker.sim.sim_cluster import SimCluster
from ottla.broker.sim.sim_producer import UNKNOWN, ClientHistory, SimBatch, SimProducer
from ottla.broker.sim.sim_reader import Delivered, fetched
from ottla.broker.txns.transaction import TopicPartition
from ottla.protocol.error_codes import ErrorCode
from ottla.protocol.messages import k09_offset_fetch as k09
from ottla.protocol.messages import k28_txn_offset_commit as k28
from ottla.protocol.messages.k22_init_producer_id import InitProducerIdRequest
from ottla.protocol.messages.k26_end_txn import EndTxnRequest
from ottla.protocol.schema import Message

GROUP: Final = "copiers"
TIMEOUT_MS: Final = 10_000
_ABORTS: Final = 0.15
_GROUP_KIND, _TXN_KIND = 0, 1
_ABORTABLE: Final = frozenset({ErrorCode.TRANSACTION_ABORTABLE})


class Fenced(Exception):
    """Raised if the copier's producer epoch is fenced, by another instance with the same transactional id or by the coordinator."""


class AbortNeeded(Exception):
    """Raised if the coordinator or a broker has answered that the present transaction can only be aborted."""


class SimCopier(SimProducer):
    """A simulated client that copies the partition `source` to the partitions `targets` in transactions. When its producer epoch is fenced,
    it gets a new one and continues; but if `superseded` is set, because another instance has started, it stops."""

    def __init__(
        self,
        name: str,
        cluster: SimCluster,
        random: Random,
        history: ClientHistory,
        *,
        source: TopicPartition,
        targets: list[TopicPartition],
    ) -> None:
        super().__init__(name, cluster, random, history)
        self.source, self.targets = source, targets
        self.transactional_id = f"copies-{source[0]}-{source[1]}"
        self.position = -1
        self.superseded = False
        self._sequences: dict[TopicPartition, int] = {}

    async def copy(self) -> None:
        """Copy records in transactions until another instance has taken over the transactional id (`superseded`)."""
        while not self.superseded:
            try:
                await self._session()
            except Fenced:
                self.position = -1
                await self.pause()

    async def _session(self) -> None:
        await self._init_transactions()
        self.position = await self._committed_offset()
        while True:
            records, following = await fetched(self, self.history, self.source, self.position, committed=True)
            if following == self.position:
                continue
            try:
                await self._transaction(records, following)
            except AbortNeeded:
                await self._end(commit=False)
            self.position = await self._committed_offset()

    async def _transaction(self, records: list[Delivered], following: int) -> None:
        for target in self.targets:
            values = tuple(record for offset, record in records if self.targets[offset % len(self.targets)] == target)
            if values:
                await self._write(target, values)
        commits = self.random.random() >= _ABORTS
        await self._commit_offset(following)
        await self._end(commit=commits)

    async def _write(self, target: TopicPartition, values: tuple[tuple[bytes | None, bytes | None], ...]) -> None:
        batches = []
        for value in values:
            sequence = self._sequences.get(target, 0)
            batches.append(SimBatch(target, sequence, (value,)))
            self._sequences[target] = sequence + 1
        while batches:
            await self.send_all(batches[:5])
            batches = [batch for batch in batches if not batch.done]

    def check_error(self, batch: SimBatch, error: ErrorCode, *, is_first: bool) -> None:
        if error in _ABORTABLE:
            raise AbortNeeded
        if not (error.retriable or error in {UNKNOWN, ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER}):
            raise Fenced(error.name)
        super().check_error(batch, error, is_first=is_first)

    # --- the coordinators ------------------------------------------------------------------------------------------------------------

    async def _init_transactions(self) -> None:
        request = InitProducerIdRequest(self.transactional_id, TIMEOUT_MS)
        answer = await self._call(self.transactional_id or "", _TXN_KIND, request, 5)
        self._set_producer_id(answer.producer_id, answer.producer_epoch)

    async def _end(self, *, commit: bool) -> None:
        request = EndTxnRequest(self.transactional_id or "", self.producer_id, self.epoch, commit)
        answer = await self._call(self.transactional_id or "", _TXN_KIND, request, 5)
        self._set_producer_id(answer.producer_id, answer.producer_epoch)

    def _set_producer_id(self, producer_id: int, epoch: int) -> None:
        self.producer_id, self.epoch = producer_id, epoch
        self._sequences.clear()

    async def _commit_offset(self, offset: int) -> None:
        topic = k28.TxnOffsetCommitRequestTopic(self.source[0], partitions=[k28.TxnOffsetCommitRequestPartition(self.source[1], offset)])
        request = k28.TxnOffsetCommitRequest(self.transactional_id or "", GROUP, self.producer_id, self.epoch, topics=[topic])
        await self._call(GROUP, _GROUP_KIND, request, 5)

    async def _committed_offset(self) -> int:
        topics = [k09.OffsetFetchRequestTopics(self.source[0], partition_indexes=[self.source[1]])]
        request = k09.OffsetFetchRequest(groups=[k09.OffsetFetchRequestGroup(GROUP, topics=topics)], require_stable=True)
        answer = await self._call(GROUP, _GROUP_KIND, request, 8)
        offset: int = answer.groups[0].topics[0].partitions[0].committed_offset
        return max(0, offset)

    async def _call(self, key: str, kind: int, request: Message, version: int) -> Any:
        """Send a request to the coordinator of `key` until it succeeds: repeat it after retriable errors. Raises AbortNeeded if the
        transaction can only be aborted, Fenced for every other error."""
        while True:
            error = UNKNOWN
            try:
                answer = await self.ask_coordinator(key, kind, request, version)
                error = error_of(answer)
            except LinkBroken:
                pass
            if error is ErrorCode.NONE:
                return answer
            if error in _ABORTABLE:
                raise AbortNeeded
            if not (error.retriable or error is UNKNOWN):
                raise Fenced(error.name)
            if error is not ErrorCode.UNSTABLE_OFFSET_COMMIT and error is not ErrorCode.CONCURRENT_TRANSACTIONS:
                self.forget_coordinator(key, kind)
            await self.pause()


def error_of(answer: Any) -> ErrorCode:
    """Return the first error code that a coordinator's response contains; ErrorCode.NONE if it reports no error."""
    if isinstance(answer, k28.TxnOffsetCommitResponse):
        return ErrorCode(answer.topics[0].partitions[0].error_code)
    if isinstance(answer, k09.OffsetFetchResponse):
        (group,) = answer.groups
        return ErrorCode(group.error_code or group.topics[0].partitions[0].error_code)
    return ErrorCode(answer.error_code)
