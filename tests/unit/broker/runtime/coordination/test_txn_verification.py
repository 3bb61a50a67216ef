from __future__ import annotations

import asyncio
import inspect
from collections.abc import Iterator
from pathlib import Path

import pytest

from ottla.broker.core import limits
from ottla.broker.core.clock import VirtualClock
from ottla.broker.core.rejected import Rejected
from ottla.broker.runtime.coordination.txn_verification import TransactionalProducer, TxnVerification, Verdicts
from ottla.broker.runtime.replicas.partition import Partition
from ottla.broker.storage.txn_guard import VerificationGuard
from ottla.broker.txns.txn_marker import TxnMarker
from ottla.protocol.error_codes import ErrorCode
from ottla.protocol.records.record import SimpleRecord, build_batch
from tests.support.partition_logs import PartitionHarness, append_verified

PID = 7
ADDING = TransactionalProducer("tx", PID, 0, adds=True)
ASKING = TransactionalProducer("tx", PID, 0, adds=False)
T0 = ("t", 0)
T1 = ("t", 1)

Answer = ErrorCode | asyncio.Future[ErrorCode]
Places = frozenset[tuple[str, int]]
Verified = dict[tuple[str, int], ErrorCode]


async def a_turn(ms: int) -> None:
    """Stand in for the wait before a retry: check its length, and let other tasks run once."""
    assert ms == limits.ADD_PARTITIONS_RETRY_MS
    await asyncio.sleep(0)


class Coordinator:
    """The coordinator of one transaction. `answers` are the results of the next requests to add partitions, afterwards NONE."""

    def __init__(self) -> None:
        self.added: set[tuple[str, int]] = set()
        self.answers: list[Answer] = []
        self.requests: list[frozenset[tuple[str, int]]] = []
        self.verdict: ErrorCode | None = None
        self.slow: asyncio.Future[Verified] | None = None
        self.epoch = 0

    def add_partitions(self, transactional_id: str, producer_id: int, epoch: int, partitions: Places, client_version: int) -> Answer:
        assert (transactional_id, producer_id, epoch, client_version) == ("tx", PID, 0, 2)
        self.requests.append(partitions)
        answer = self.answers.pop(0) if self.answers else ErrorCode.NONE
        if answer is ErrorCode.NONE or isinstance(answer, asyncio.Future):
            self.added |= partitions
        return answer

    def verify_partitions(
        self, transactional_id: str, producer_id: int, epoch: int, partitions: frozenset[tuple[str, int]]
    ) -> dict[tuple[str, int], ErrorCode] | asyncio.Future[dict[tuple[str, int], ErrorCode]]:
        assert (transactional_id, producer_id, epoch) == ("tx", PID, self.epoch)
        if self.slow is not None:
            return self.slow
        if self.verdict is not None:
            return dict.fromkeys(partitions, self.verdict)
        return {p: ErrorCode.NONE if p in self.added else ErrorCode.TRANSACTION_ABORTABLE for p in partitions}


@pytest.fixture
def harness(tmp_path: Path) -> Iterator[PartitionHarness]:
    harness = PartitionHarness(tmp_path / "data", VirtualClock(), partitions=2)
    yield harness
    harness.close()


@pytest.fixture
def coordinator() -> Coordinator:
    return Coordinator()


@pytest.fixture
def verification(coordinator: Coordinator) -> TxnVerification:
    return TxnVerification(coordinator, pause=a_turn)


def a_batch(sequence: int = 0) -> bytes:
    records = [SimpleRecord(None, b"x", 1)]
    return build_batch(records, producer_id=PID, producer_epoch=0, base_sequence=sequence, transactional=True)


def write(harness: PartitionHarness, index: int, sequence: int = 0) -> None:
    """Append a batch of the transaction to the partition, which opens the transaction there."""
    append_verified(harness.partitions.get("t", index), a_batch(sequence))


def batches(harness: PartitionHarness, *indexes: int) -> list[tuple[Partition, int]]:
    return [(harness.partitions.get("t", index), 0) for index in indexes]


def refused(verdicts: Verdicts) -> Verified:
    return {place: verdict.code for place, verdict in verdicts.items() if isinstance(verdict, Rejected)}


def verify(verification: TxnVerification, writer: TransactionalProducer, harness: PartitionHarness, *indexes: int) -> Verified:
    """Verify a batch for each partition, which must finish at once; return the error of each refused one."""
    answer = verification.verify(writer, batches(harness, *indexes))
    assert isinstance(answer, dict)
    return refused(answer)


async def verify_later(verification: TxnVerification, harness: PartitionHarness, *indexes: int) -> Verified:
    return refused(await verdicts_later(verification, ADDING, harness, *indexes))


async def verdicts_later(
    verification: TxnVerification, writer: TransactionalProducer, harness: PartitionHarness, *indexes: int
) -> Verdicts:
    answer = verification.verify(writer, batches(harness, *indexes or (0,)))
    assert inspect.isawaitable(answer)
    return await answer


def test_a_partition_that_was_not_added_is_refused_and_another_is_not(
    verification: TxnVerification, coordinator: Coordinator, harness: PartitionHarness
) -> None:
    coordinator.added = {T1}
    assert verify(verification, ASKING, harness, 0, 1) == {T0: ErrorCode.TRANSACTION_ABORTABLE}


def test_an_open_transaction_is_not_verified_again(
    verification: TxnVerification, coordinator: Coordinator, harness: PartitionHarness
) -> None:
    write(harness, 0)
    assert verify(verification, ASKING, harness, 0) == {}
    assert verify(verification, ADDING, harness, 0) == {}
    assert coordinator.requests == []


def test_an_open_transaction_of_an_older_epoch_does_not_count(
    verification: TxnVerification, coordinator: Coordinator, harness: PartitionHarness
) -> None:
    write(harness, 0)
    coordinator.epoch = 1
    assert verify(verification, TransactionalProducer("tx", PID, 1, adds=False), harness, 0) == {T0: ErrorCode.TRANSACTION_ABORTABLE}


def test_disabled_verification_still_adds_partitions_in_version_2(
    verification: TxnVerification, coordinator: Coordinator, harness: PartitionHarness
) -> None:
    partition = harness.partitions.get("t", 0)
    partition.log.verifies_transactions = False
    assert verify(verification, ASKING, harness, 0) == {}
    assert verify(verification, ADDING, harness, 0) == {}
    assert coordinator.requests == [frozenset({T0})]
    assert partition.append(a_batch()).first_offset == 0


def test_all_new_partitions_of_a_request_are_added_at_once(
    verification: TxnVerification, coordinator: Coordinator, harness: PartitionHarness
) -> None:
    assert verify(verification, ADDING, harness, 0, 1) == {}
    assert coordinator.requests == [frozenset({T0, T1})]


@pytest.mark.parametrize("writer", [ADDING, ASKING], ids=["adds", "asks"])
@pytest.mark.parametrize(
    "error",
    [
        (ErrorCode.PRODUCER_FENCED, ErrorCode.INVALID_PRODUCER_EPOCH),
        (ErrorCode.INVALID_PRODUCER_ID_MAPPING, ErrorCode.INVALID_PRODUCER_ID_MAPPING),
        (ErrorCode.INVALID_TXN_STATE, ErrorCode.INVALID_TXN_STATE),
        (ErrorCode.NOT_COORDINATOR, ErrorCode.NOT_COORDINATOR),
    ],
)
def test_coordinator_errors_reach_the_producer_except_fenced(
    verification: TxnVerification,
    coordinator: Coordinator,
    harness: PartitionHarness,
    writer: TransactionalProducer,
    error: tuple[ErrorCode, ErrorCode],
) -> None:
    expected, seen = error
    coordinator.answers, coordinator.verdict = [expected], expected
    assert verify(verification, writer, harness, 0) == {T0: seen}


async def test_an_added_partition_is_used_when_it_is_durable(
    verification: TxnVerification, coordinator: Coordinator, harness: PartitionHarness
) -> None:
    durable: asyncio.Future[ErrorCode] = asyncio.get_running_loop().create_future()
    coordinator.answers = [durable]
    waiting = asyncio.ensure_future(verify_later(verification, harness))
    await asyncio.sleep(0)
    assert not waiting.done()
    durable.set_result(ErrorCode.NONE)
    assert await waiting == {}


@pytest.mark.parametrize("writer", [ADDING, ASKING], ids=["adds", "asks"])
async def test_a_late_verification_does_not_start_a_new_transaction(
    verification: TxnVerification, coordinator: Coordinator, harness: PartitionHarness, writer: TransactionalProducer
) -> None:
    partition = harness.partitions.get("t", 0)
    loop = asyncio.get_running_loop()
    added: asyncio.Future[ErrorCode] = loop.create_future()
    coordinator.answers, coordinator.slow = [added], loop.create_future()
    waiting = asyncio.ensure_future(verdicts_later(verification, writer, harness))
    await asyncio.sleep(0)
    partition.append_marker(TxnMarker(PID, 1 if writer.adds else 0, False, 0, 2 if writer.adds else 0))
    added.set_result(ErrorCode.NONE)
    coordinator.slow.set_result({T0: ErrorCode.NONE})
    guard = (await waiting)[T0]
    assert isinstance(guard, VerificationGuard)
    with pytest.raises(Rejected) as stale:
        partition.append(a_batch(), guard=guard)
    assert stale.value.code is (ErrorCode.INVALID_PRODUCER_EPOCH if writer.adds else ErrorCode.INVALID_TXN_STATE)
    assert not partition.has_open_transaction(PID, 0)


async def test_a_late_verified_batch_is_appended_with_its_guard(
    verification: TxnVerification, coordinator: Coordinator, harness: PartitionHarness
) -> None:
    coordinator.slow = asyncio.get_running_loop().create_future()
    waiting = asyncio.ensure_future(verdicts_later(verification, ASKING, harness))
    await asyncio.sleep(0)
    coordinator.slow.set_result({T0: ErrorCode.NONE})
    guard = (await waiting)[T0]
    assert isinstance(guard, VerificationGuard)
    harness.partitions.get("t", 0).append(a_batch(), guard=guard)
    assert verify(verification, ASKING, harness, 0) == {}


def test_an_unverified_batch_does_not_start_a_transaction(harness: PartitionHarness) -> None:
    with pytest.raises(Rejected) as unasked:
        harness.partitions.get("t", 0).append(a_batch())
    assert (unasked.value.code, unasked.value.message) == (ErrorCode.INVALID_TXN_STATE, "Record was not part of an ongoing transaction")


def test_an_old_producer_epoch_is_refused_without_a_request(
    verification: TxnVerification, coordinator: Coordinator, harness: PartitionHarness
) -> None:
    harness.partitions.get("t", 0).append_marker(TxnMarker(PID, 5, False, 0, 0))
    assert verify(verification, ADDING, harness, 0) == {T0: ErrorCode.INVALID_PRODUCER_EPOCH}
    assert coordinator.requests == []


async def test_a_lost_addition_refuses_the_batch(
    verification: TxnVerification, coordinator: Coordinator, harness: PartitionHarness
) -> None:
    durable: asyncio.Future[ErrorCode] = asyncio.get_running_loop().create_future()
    durable.set_exception(Rejected(ErrorCode.NOT_COORDINATOR))
    coordinator.answers = [durable]
    assert await verify_later(verification, harness) == {T0: ErrorCode.NOT_COORDINATOR}


async def test_a_write_waits_for_the_previous_transactions_end(
    verification: TxnVerification, coordinator: Coordinator, harness: PartitionHarness
) -> None:
    coordinator.answers = [ErrorCode.CONCURRENT_TRANSACTIONS] * 3
    assert await verify_later(verification, harness) == {}
    assert len(coordinator.requests) == 4


async def test_the_wait_for_the_previous_transactions_end_is_limited(
    verification: TxnVerification, coordinator: Coordinator, harness: PartitionHarness
) -> None:
    coordinator.answers = [ErrorCode.CONCURRENT_TRANSACTIONS] * 100
    assert await verify_later(verification, harness) == {T0: ErrorCode.CONCURRENT_TRANSACTIONS}
    assert len(coordinator.requests) == limits.ADD_PARTITIONS_TRIES


def test_old_clients_get_concurrent_transactions_at_once(
    verification: TxnVerification, coordinator: Coordinator, harness: PartitionHarness
) -> None:
    coordinator.verdict = ErrorCode.CONCURRENT_TRANSACTIONS
    assert verify(verification, ASKING, harness, 0) == {T0: ErrorCode.CONCURRENT_TRANSACTIONS}
