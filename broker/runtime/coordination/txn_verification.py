"""Ensures that a transactional batch is written only to partitions that belong to its transaction (KIP-890).

Before the leader appends a transaction's first batch, it sends a request to the transaction coordinator. From transaction version 2 on, the
request adds the partition to the transaction; before, it asks whether the producer has added the partition. Without this, a batch that
arrives after the end of its transaction would open a transaction that is never ended.

Invariants:

* The coordinator may be another broker, and the transaction may end before its response arrives. Therefore the partition issues a guard
  before the request, and the append requires it. The end of a transaction invalidates the guard (`ProducerState.start_verification`).
* An addition rejected with CONCURRENT_TRANSACTIONS is retried a few times, because the previous transaction's markers are on their way.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Protocol

from ottla.broker.core import limits
from ottla.broker.core.rejected import Rejected
from ottla.broker.runtime.replicas.partition import Partition
from ottla.broker.storage.txn_guard import VerificationGuard
from ottla.broker.txns.transaction import TopicPartition
from ottla.protocol.error_codes import ErrorCode

Batches = Sequence[tuple["Partition", int]]
"""The partitions to which one transaction's batches are written, each with the base sequence of its batch."""

Verdicts = dict[TopicPartition, VerificationGuard | Rejected]
"""The result of a verification by partition: the guard with which the partition's batch must be appended, or the error that rejects the
batch. A partition without an entry needs no guard."""

Errors = ErrorCode | Mapping[TopicPartition, ErrorCode]
"""Error codes of the transaction coordinator: one for all partitions, or one for each partition."""

VerificationResult = Errors | asyncio.Future[ErrorCode] | asyncio.Future[dict[TopicPartition, ErrorCode]]

ADDING_VERSION = 2
"""The first transaction version in which a partition's leader adds the partition to the transaction at the first write; before, the
producer did."""


class TxnPartitions(Protocol):
    """Adds partitions to transactions, and verifies that partitions belong to transactions (KIP-890). This broker's transaction coordinator
    implements the interface, and so does a client of the coordinators on other brokers (`remote_txns`)."""

    def add_partitions(
        self, transactional_id: str, producer_id: int, epoch: int, partitions: frozenset[TopicPartition], client_version: int
    ) -> VerificationResult:
        """Open the transaction or add partitions to it. Return one error code for all partitions or one for each; or a future of the error
        codes, which fails with Rejected if the coordinator cannot be reached. `client_version` is the client's transaction version.
        """
        ...

    def verify_partitions(
        self, transactional_id: str, producer_id: int, epoch: int, partitions: frozenset[TopicPartition]
    ) -> VerificationResult:
        """Return the error codes, one for all partitions or one for each: NONE if the partition belongs to the open transaction. Nothing is
        changed. A returned future fails with Rejected if the coordinator cannot be reached.
        """
        ...


@dataclass(frozen=True, slots=True)
class TransactionalProducer:
    """The producer of a transactional batch.

    `adds` is true for a producer of transaction version 2: the partition's leader adds the partition to the transaction, not the producer.
    """

    transactional_id: str
    producer_id: int
    epoch: int
    adds: bool


class TxnVerification:
    """Verifies with the transaction coordinator, before a transactional batch is appended, that the partition belongs to the batch's
    transaction.

    `pause` waits for a number of milliseconds on the broker's clock. `coordinator_is_local` is true on a standalone node.
    """

    def __init__(self, coordinator: TxnPartitions, *, pause: Callable[[int], Awaitable[None]], coordinator_is_local: bool = False) -> None:
        self._coordinator = coordinator
        self._pause = pause
        self._coordinator_is_local = coordinator_is_local

    def verify(self, producer: TransactionalProducer, batches: Batches) -> Verdicts | Awaitable[Verdicts]:
        """Return for each partition the guard with which its batch must be appended (the proof of this verification), or the error that
        rejects the batch. A partition in which the transaction is already open needs no guard and has no entry.

        An awaitable is returned if a remote coordinator must answer, or the request must be retried. The errors are the coordinator's, but
        PRODUCER_FENCED becomes INVALID_PRODUCER_EPOCH, its equivalent for Produce.
        """
        verdicts = _start(producer, batches)
        guarded = _guarded(verdicts)
        if not guarded:
            return verdicts
        answer = self._ask(producer, guarded)
        if isinstance(answer, asyncio.Future) or _is_early(producer, answer):
            return self._settle(producer, batches, verdicts, answer)
        return _judged(verdicts, answer)

    def verify_without_waiting(self, producer: TransactionalProducer, partition: Partition, sequence: int) -> VerificationGuard | None:
        """Verify one batch without waiting. Return the guard (proof of the verification) with which the batch must be appended, or None if
        the batch needs no guard.

        Raises Rejected if the verification needs a wait or fails; the caller then uses `verify`. That second call is harmless: it returns
        the same guard, and the partition is added only once.
        """
        guard = partition.start_verification(producer.producer_id, producer.epoch, sequence, supports_epoch_bump=producer.adds)
        if guard is not None and not (self._coordinator_is_local and self._holds(producer, (partition.topic, partition.index))):
            raise Rejected(ErrorCode.CONCURRENT_TRANSACTIONS, "the transaction's coordinator has not verified the partition yet")
        return guard

    def _holds(self, producer: TransactionalProducer, tp: TopicPartition) -> bool:
        """Ask the coordinator on this broker to verify or add the partition. Return whether the coordinator has accepted the partition
        without a wait."""
        answer = self._ask(producer, frozenset((tp,)))
        if isinstance(answer, asyncio.Future):
            return False
        return (answer if isinstance(answer, ErrorCode) else answer[tp]) is ErrorCode.NONE

    def _ask(self, producer: TransactionalProducer, partitions: frozenset[TopicPartition]) -> VerificationResult:
        identity = (producer.transactional_id, producer.producer_id, producer.epoch)
        if producer.adds:
            return self._coordinator.add_partitions(*identity, partitions, ADDING_VERSION)
        return self._coordinator.verify_partitions(*identity, partitions)

    async def _settle(self, producer: TransactionalProducer, batches: Batches, verdicts: Verdicts, answer: VerificationResult) -> Verdicts:
        for _ in range(limits.ADD_PARTITIONS_TRIES - 1):
            errors = await _outcome(answer)
            if not _is_early(producer, errors):
                return _judged(verdicts, errors)
            await self._pause(limits.ADD_PARTITIONS_RETRY_MS)
            verdicts = _start(producer, batches)
            guarded = _guarded(verdicts)
            if not guarded:
                return verdicts
            answer = self._ask(producer, guarded)
        return _judged(verdicts, await _outcome(answer))


def _start(producer: TransactionalProducer, batches: Batches) -> Verdicts:
    verdicts: Verdicts = {}
    for partition, sequence in batches:
        try:
            guard = partition.start_verification(producer.producer_id, producer.epoch, sequence, supports_epoch_bump=producer.adds)
        except Rejected as rejected:
            verdicts[partition.topic, partition.index] = rejected.without_traceback()
        else:
            if guard is not None:
                verdicts[partition.topic, partition.index] = guard
    return verdicts


def _guarded(verdicts: Verdicts) -> frozenset[TopicPartition]:
    return frozenset(tp for tp, verdict in verdicts.items() if isinstance(verdict, VerificationGuard))


def _is_early(producer: TransactionalProducer, errors: Errors) -> bool:
    return producer.adds and ErrorCode.CONCURRENT_TRANSACTIONS in ([errors] if isinstance(errors, ErrorCode) else errors.values())


def _judged(verdicts: Verdicts, errors: Errors) -> Verdicts:
    """Return `verdicts` (a guard or an error by partition) with the guard replaced by the coordinator's error, from `errors`, for each
    partition that the coordinator has not accepted.
    """

    def judged(tp: TopicPartition, verdict: VerificationGuard | Rejected) -> VerificationGuard | Rejected:
        if isinstance(verdict, Rejected):
            return verdict
        error = errors if isinstance(errors, ErrorCode) else errors[tp]
        if error is ErrorCode.NONE:
            return verdict
        return Rejected(_as_produce_error(error), "the partition is not in the producer's open transaction")

    return {tp: judged(tp, verdict) for tp, verdict in verdicts.items()}


def _as_produce_error(error: ErrorCode) -> ErrorCode:
    return ErrorCode.INVALID_PRODUCER_EPOCH if error is ErrorCode.PRODUCER_FENCED else error


async def _outcome(answer: VerificationResult) -> Errors:
    if not isinstance(answer, asyncio.Future):
        return answer
    try:
        return await answer
    except Rejected as rejected:  # the coordinator was not reached, so the batch must not be written
        return rejected.code
