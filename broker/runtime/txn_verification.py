"""Nothing of a transaction is written to a partition that its transaction does not have (KIP-890).

Before the first batch of a transaction goes to a partition, the transaction's coordinator is asked: to add the partition (producers of
transaction version 2 add them so) or to say that it was added. Without this a batch that was delayed past its transaction's end would open
another one there that nobody ever closes.

Rules that hold here:

* Kafka's verification guard is the turn of the loop: what `verify` allows is appended before anything else can happen. Whoever had to wait
  (the addition must be durable before the data, or a crash would leave data without a transaction) asks again in the turn of its append.
* An addition that meets the end of the transaction before (CONCURRENT_TRANSACTIONS) is tried again a few times: markers are on their way.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Collection
from dataclasses import dataclass
from typing import TYPE_CHECKING, Protocol

from broker.core import limits
from broker.core.rejected import Rejected
from protocol.error_codes import ErrorCode

if TYPE_CHECKING:
    from broker.runtime.partition import Partition

TopicPartition = tuple[str, int]
Refused = dict[TopicPartition, ErrorCode]
"""What may not be written, and why; all else may."""

ADDING_VERSION = 2
"""From this transaction version on, writing to a partition adds it to the transaction."""


class TxnPartitions(Protocol):
    """What adds partitions to transactions, and says which are in them: the part of the transaction service that is asked here."""

    def add_partitions(
        self, transactional_id: str, producer_id: int, epoch: int, partitions: frozenset[TopicPartition], client_version: int
    ) -> ErrorCode | asyncio.Future[ErrorCode]:
        """Open the transaction or widen it."""
        ...

    def verify_partitions(
        self, transactional_id: str, producer_id: int, epoch: int, partitions: frozenset[TopicPartition]
    ) -> dict[TopicPartition, ErrorCode]:
        """Whether each partition belongs to the open transaction; changes nothing."""
        ...


@dataclass(frozen=True, slots=True)
class Writer:
    """Who writes. `adds` is true for requests of transaction version 2, which need not have added the partition before."""

    transactional_id: str
    producer_id: int
    epoch: int
    adds: bool


class TxnVerification:
    """`enabled` gives transaction.partition.verification.enable, which leaves out the question of version 0 and 1, never the addition of 2.

    `pause` waits so many milliseconds of the broker's time.
    """

    def __init__(self, coordinator: TxnPartitions, *, enabled: Callable[[], bool], pause: Callable[[int], Awaitable[None]]) -> None:
        self._coordinator = coordinator
        self._pause = pause
        self._enabled = enabled

    def verify(self, writer: Writer, partitions: Collection[Partition]) -> Refused | Awaitable[Refused]:
        """Append in the turn that this returns in, or that its awaitable ends in; another turn has to ask again.

        Errors are the coordinator's, but for INVALID_PRODUCER_EPOCH, which is what the word PRODUCER_FENCED is where data is written.
        """
        if not (writer.adds or self._enabled()):
            return {}
        new = _without_transaction(writer, partitions)
        if not new:
            return {}
        answer = self._add(writer, new) if writer.adds else self._ask(writer, new)
        return answer if isinstance(answer, dict) else self._retry(writer, partitions, answer)

    def _ask(self, writer: Writer, partitions: frozenset[TopicPartition]) -> Refused:
        found = self._coordinator.verify_partitions(writer.transactional_id, writer.producer_id, writer.epoch, partitions)
        return {place: _as_writer_sees(error) for place, error in found.items() if error is not ErrorCode.NONE}

    def _add(self, writer: Writer, partitions: frozenset[TopicPartition]) -> Refused | asyncio.Future[ErrorCode]:
        """Raises no error but those it returns; a future where the addition, or the end of the transaction before, is not done yet."""
        added = self._coordinator.add_partitions(writer.transactional_id, writer.producer_id, writer.epoch, partitions, ADDING_VERSION)
        if isinstance(added, asyncio.Future):
            return added
        if added is ErrorCode.CONCURRENT_TRANSACTIONS:
            return _result(added)
        return {} if added is ErrorCode.NONE else dict.fromkeys(partitions, _as_writer_sees(added))

    async def _retry(self, writer: Writer, partitions: Collection[Partition], added: asyncio.Future[ErrorCode]) -> Refused:
        error = ErrorCode.CONCURRENT_TRANSACTIONS
        for tries in range(1, limits.ADD_PARTITIONS_TRIES + 1):
            error = await _outcome(added)
            if error is ErrorCode.NONE:
                return self._ask(writer, _without_transaction(writer, partitions))
            if error is not ErrorCode.CONCURRENT_TRANSACTIONS or tries == limits.ADD_PARTITIONS_TRIES:
                break
            await self._pause(limits.ADD_PARTITIONS_RETRY_MS)
            new = _without_transaction(writer, partitions)
            answer = self._add(writer, new) if new else {}
            if isinstance(answer, dict):
                return answer
            added = answer
        return dict.fromkeys(_without_transaction(writer, partitions), _as_writer_sees(error))


def _without_transaction(writer: Writer, partitions: Collection[Partition]) -> frozenset[TopicPartition]:
    return frozenset((each.topic, each.index) for each in partitions if not each.has_open_transaction(writer.producer_id, writer.epoch))


def _as_writer_sees(error: ErrorCode) -> ErrorCode:
    return ErrorCode.INVALID_PRODUCER_EPOCH if error is ErrorCode.PRODUCER_FENCED else error


def _result(error: ErrorCode) -> asyncio.Future[ErrorCode]:
    future: asyncio.Future[ErrorCode] = asyncio.get_running_loop().create_future()
    future.set_result(error)
    return future


async def _outcome(added: asyncio.Future[ErrorCode]) -> ErrorCode:
    try:
        return await added
    except Rejected as rejected:  # what was to be written is lost with its partition
        return rejected.code
