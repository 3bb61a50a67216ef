"""Nothing of a transaction is written to a partition that its transaction does not have (KIP-890).

Before the first batch of a transaction goes to a partition, the transaction's coordinator is asked: to add the partition (producers of
transaction version 2 add them so) or to say that it was added. Without this a batch that was delayed past its transaction's end would open
another one there that nobody ever closes.

Rules that hold here:

* The coordinator may be another broker, so its answer may come late. What holds meanwhile is the partition's guard: taken before the
  question, shown with the append, gone when the transaction ends in between (`ProducerState.start_verification`).
* An addition that meets the end of the transaction before (CONCURRENT_TRANSACTIONS) is tried again a few times: markers are on their way.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Protocol

from ottla.broker.core import limits
from ottla.broker.core.rejected import Rejected
from ottla.broker.storage.txn_guard import VerificationGuard
from ottla.protocol.error_codes import ErrorCode

if TYPE_CHECKING:
    from ottla.broker.runtime.replicas.partition import Partition

TopicPartition = tuple[str, int]
Batches = Sequence[tuple["Partition", int]]
"""Where batches of one transaction go, each with its base sequence."""

Verdicts = dict[TopicPartition, VerificationGuard | Rejected]
"""What the batch of a partition is appended with, or why it is not. One that is not named needs no guard."""

Errors = ErrorCode | Mapping[TopicPartition, ErrorCode]
"""One for all partitions, or one for each."""

Answer = Errors | asyncio.Future[ErrorCode] | asyncio.Future[dict[TopicPartition, ErrorCode]]

ADDING_VERSION = 2
"""From this transaction version on, writing to a partition adds it to the transaction."""


class TxnPartitions(Protocol):
    """What adds partitions to transactions, and says which are in them: the part of the transaction service that is asked here, on this
    broker or on another (`remote_txns`)."""

    def add_partitions(
        self, transactional_id: str, producer_id: int, epoch: int, partitions: frozenset[TopicPartition], client_version: int
    ) -> Answer:
        """Open the transaction or widen it. A future fails with Rejected."""
        ...

    def verify_partitions(self, transactional_id: str, producer_id: int, epoch: int, partitions: frozenset[TopicPartition]) -> Answer:
        """Whether each partition belongs to the open transaction; changes nothing. A future fails with Rejected."""
        ...


@dataclass(frozen=True, slots=True)
class Writer:
    """Who writes. `adds` is true for requests of transaction version 2, which need not have added the partition before."""

    transactional_id: str
    producer_id: int
    epoch: int
    adds: bool


class TxnVerification:
    """`pause` waits so many milliseconds of the broker's time; `alone` says that `coordinator` asks no other broker."""

    def __init__(self, coordinator: TxnPartitions, *, pause: Callable[[int], Awaitable[None]], alone: bool = False) -> None:
        self._coordinator = coordinator
        self._pause = pause
        self._alone = alone

    def verify(self, writer: Writer, batches: Batches) -> Verdicts | Awaitable[Verdicts]:
        """Whether the batches may be appended: known at once where the transaction is open, or its coordinator need not wait.

        Errors are the coordinator's, but for INVALID_PRODUCER_EPOCH, which is what the word PRODUCER_FENCED is where data is written.
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
        """What one batch may be appended with, if that is known now: else raises Rejected, and `verify` is to be asked.

        To be asked twice changes nothing: the guard is the same one, and a partition that was added is not added again.
        """
        guard = partition.start_verification(writer.producer_id, writer.epoch, sequence, adds=writer.adds)
        if guard is not None and not (self._alone and self._holds(writer, (partition.topic, partition.index))):
            raise Rejected(ErrorCode.CONCURRENT_TRANSACTIONS, "the transaction's coordinator has not said yes")
        return guard

    def _holds(self, writer: Writer, place: TopicPartition) -> bool:
        """Whether the partition is known to belong to the transaction, now."""
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
            verdicts[partition.topic, partition.index] = rejected
        else:
            if guard is not None:
                verdicts[partition.topic, partition.index] = guard
    return verdicts


def _guarded(verdicts: Verdicts) -> frozenset[TopicPartition]:
    return frozenset(place for place, verdict in verdicts.items() if isinstance(verdict, VerificationGuard))


def _is_early(writer: Writer, errors: Errors) -> bool:
    return writer.adds and ErrorCode.CONCURRENT_TRANSACTIONS in ([errors] if isinstance(errors, ErrorCode) else errors.values())


def _judged(verdicts: Verdicts, errors: Errors) -> Verdicts:
    """The guards that the coordinator has nothing against, and its errors for the others."""

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
    except Rejected as rejected:  # what was to be written is lost with its partition
        return rejected.code
