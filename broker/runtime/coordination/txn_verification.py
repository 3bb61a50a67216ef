"""Ensures that a transactional batch is written only to partitions that belong to its transaction (KIP-890).

Before a transaction's first batch to a partition, the coordinator is asked to add the partition (transaction version 2), or whether it was
added. Otherwise a batch delayed past the end of its transaction would open another transaction that nothing ever ends.

Invariants:

* The coordinator may be another broker, so its response may come late. The partition's guard covers that time: it is taken before the
  question, presented with the append, and invalid once a transaction ended in between (`ProducerState.start_verification`).
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
from ottla.protocol.error_codes import ErrorCode

TopicPartition = tuple[str, int]
Batches = Sequence[tuple["Partition", int]]
"""The partitions of one transaction's batches, each with the batch's base sequence."""

Verdicts = dict[TopicPartition, VerificationGuard | Rejected]
"""Per partition the guard to append with, or the rejection. A partition that is not listed needs no guard."""

Errors = ErrorCode | Mapping[TopicPartition, ErrorCode]
"""One error for all partitions, or one per partition."""

Answer = Errors | asyncio.Future[ErrorCode] | asyncio.Future[dict[TopicPartition, ErrorCode]]

ADDING_VERSION = 2
"""From this transaction version on, a write adds its partition to the transaction."""


class TxnPartitions(Protocol):
    """The part of a transaction coordinator that adds and verifies partitions, on this broker or another (`remote_txns`)."""

    def add_partitions(
        self, transactional_id: str, producer_id: int, epoch: int, partitions: frozenset[TopicPartition], client_version: int
    ) -> Answer:
        """Open the transaction or add partitions to it. A future fails with Rejected."""
        ...

    def verify_partitions(self, transactional_id: str, producer_id: int, epoch: int, partitions: frozenset[TopicPartition]) -> Answer:
        """Return for each partition whether it belongs to the open transaction; changes nothing. A future fails with Rejected."""
        ...


@dataclass(frozen=True, slots=True)
class Writer:
    """The producer of a batch.

    `adds` is true if its request has transaction version 2, so that the partition need not have been added before.
    """

    transactional_id: str
    producer_id: int
    epoch: int
    adds: bool


class TxnVerification:
    """Verifies batches with the coordinator.

    `pause` waits the given milliseconds of the broker's time. `alone` is true if `coordinator` never asks another broker.
    """

    def __init__(self, coordinator: TxnPartitions, *, pause: Callable[[int], Awaitable[None]], alone: bool = False) -> None:
        self._coordinator = coordinator
        self._pause = pause
        self._alone = alone

    def verify(self, writer: Writer, batches: Batches) -> Verdicts | Awaitable[Verdicts]:
        """Return for each batch whether it may be appended, at once if the transaction is open there or the coordinator need not wait.

        The errors are the coordinator's, except that PRODUCER_FENCED becomes INVALID_PRODUCER_EPOCH, its equivalent for Produce.
        """
        verdicts = _start(writer, batches)
        asked = _guarded(verdicts)
        if not asked:
            return verdicts
        answer = self._ask(writer, asked)
        if isinstance(answer, asyncio.Future) or _is_early(writer, answer):
            return self._settle(writer, batches, verdicts, answer)
        return _judged(verdicts, answer)

    def at_once(self, writer: Writer, partition: Partition, sequence: int) -> VerificationGuard | None:
        """Return the guard for one batch if it is known now; otherwise raise Rejected, and the caller must use `verify`.

        Asking twice changes nothing: the guard is the same, and a partition is added once.
        """
        guard = partition.start_verification(writer.producer_id, writer.epoch, sequence, adds=writer.adds)
        if guard is not None and not (self._alone and self._holds(writer, (partition.topic, partition.index))):
            raise Rejected(ErrorCode.CONCURRENT_TRANSACTIONS, "the transaction's coordinator has not verified the partition yet")
        return guard

    def _holds(self, writer: Writer, place: TopicPartition) -> bool:
        """Return whether the partition is known now to belong to the transaction."""
        answer = self._ask(writer, frozenset((place,)))
        if isinstance(answer, asyncio.Future):
            return False
        return (answer if isinstance(answer, ErrorCode) else answer[place]) is ErrorCode.NONE

    def _ask(self, writer: Writer, partitions: frozenset[TopicPartition]) -> Answer:
        producer = (writer.transactional_id, writer.producer_id, writer.epoch)
        if writer.adds:
            return self._coordinator.add_partitions(*producer, partitions, ADDING_VERSION)
        return self._coordinator.verify_partitions(*producer, partitions)

    async def _settle(self, writer: Writer, batches: Batches, verdicts: Verdicts, answer: Answer) -> Verdicts:
        for _ in range(limits.ADD_PARTITIONS_TRIES - 1):
            errors = await _outcome(answer)
            if not _is_early(writer, errors):
                return _judged(verdicts, errors)
            await self._pause(limits.ADD_PARTITIONS_RETRY_MS)
            verdicts = _start(writer, batches)
            asked = _guarded(verdicts)
            if not asked:
                return verdicts
            answer = self._ask(writer, asked)
        return _judged(verdicts, await _outcome(answer))


def _start(writer: Writer, batches: Batches) -> Verdicts:
    verdicts: Verdicts = {}
    for partition, sequence in batches:
        try:
            guard = partition.start_verification(writer.producer_id, writer.epoch, sequence, adds=writer.adds)
        except Rejected as rejected:
            verdicts[partition.topic, partition.index] = rejected.kept()
        else:
            if guard is not None:
                verdicts[partition.topic, partition.index] = guard
    return verdicts


def _guarded(verdicts: Verdicts) -> frozenset[TopicPartition]:
    return frozenset(place for place, verdict in verdicts.items() if isinstance(verdict, VerificationGuard))


def _is_early(writer: Writer, errors: Errors) -> bool:
    return writer.adds and ErrorCode.CONCURRENT_TRANSACTIONS in ([errors] if isinstance(errors, ErrorCode) else errors.values())


def _judged(verdicts: Verdicts, errors: Errors) -> Verdicts:
    """Return the guards of the partitions that the coordinator accepts, and its errors for the others."""

    def judged(place: TopicPartition, verdict: VerificationGuard | Rejected) -> VerificationGuard | Rejected:
        if isinstance(verdict, Rejected):
            return verdict
        error = errors if isinstance(errors, ErrorCode) else errors[place]
        if error is ErrorCode.NONE:
            return verdict
        return Rejected(_as_writer_sees(error), "the partition is not in the producer's open transaction")

    return {place: judged(place, verdict) for place, verdict in verdicts.items()}


def _as_writer_sees(error: ErrorCode) -> ErrorCode:
    return ErrorCode.INVALID_PRODUCER_EPOCH if error is ErrorCode.PRODUCER_FENCED else error


async def _outcome(answer: Answer) -> Errors:
    if not isinstance(answer, asyncio.Future):
        return answer
    try:
        return await answer
    except Rejected as rejected:  # the batch is not written
        return rejected.code
