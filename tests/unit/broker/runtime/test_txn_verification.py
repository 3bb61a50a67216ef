from __future__ import annotations

import asyncio
import inspect
from collections.abc import Iterator
from pathlib import Path

import pytest

from broker.core import limits
from broker.core.rejected import Rejected
from broker.runtime.txn_verification import Refused, TxnVerification, Writer
from protocol.error_codes import ErrorCode
from protocol.records.record import SimpleRecord, build_batch
from tests.support.manual_clock import ManualClock
from tests.support.partition_logs import PartitionScene

PID = 7
ADDING = Writer("tx", PID, 0, adds=True)
ASKING = Writer("tx", PID, 0, adds=False)
T0 = ("t", 0)
T1 = ("t", 1)

Answer = ErrorCode | asyncio.Future[ErrorCode]


async def a_turn(ms: int) -> None:
    """As long a pause as these tests need."""
    assert ms == limits.ADD_PARTITIONS_RETRY_MS
    await asyncio.sleep(0)


class Coordinator:
    """One transaction; `answers` are what the next additions are told, then NONE."""

    def __init__(self) -> None:
        self.added: set[tuple[str, int]] = set()
        self.answers: list[Answer] = []
        self.asked: list[frozenset[tuple[str, int]]] = []
        self.verdict: ErrorCode | None = None
        self.epoch = 0

    def add_partitions(
        self, transactional_id: str, producer_id: int, epoch: int, partitions: frozenset[tuple[str, int]], client_version: int
    ) -> Answer:
        assert (transactional_id, producer_id, epoch, client_version) == ("tx", PID, 0, 2)
        self.asked.append(partitions)
        answer = self.answers.pop(0) if self.answers else ErrorCode.NONE
        if answer is ErrorCode.NONE or isinstance(answer, asyncio.Future):
            self.added |= partitions
        return answer

    def verify_partitions(self, transactional_id: str, producer_id: int, epoch: int, partitions: frozenset[tuple[str, int]]) -> Refused:
        assert (transactional_id, producer_id, epoch) == ("tx", PID, self.epoch)
        if self.verdict is not None:
            return dict.fromkeys(partitions, self.verdict)
        return {p: ErrorCode.NONE if p in self.added else ErrorCode.TRANSACTION_ABORTABLE for p in partitions}


@pytest.fixture
def scene(tmp_path: Path) -> Iterator[PartitionScene]:
    scene = PartitionScene(tmp_path / "data", ManualClock(), partitions=2)
    yield scene
    scene.close()


@pytest.fixture
def coordinator() -> Coordinator:
    return Coordinator()


@pytest.fixture
def verification(coordinator: Coordinator) -> TxnVerification:
    return TxnVerification(coordinator, enabled=lambda: True, pause=a_turn)


def write(scene: PartitionScene, index: int, sequence: int = 0) -> None:
    """A batch of the transaction; it is open in the partition from now on."""
    records = [SimpleRecord(None, b"x", 1)]
    batch = build_batch(records, producer_id=PID, producer_epoch=0, base_sequence=sequence, transactional=True)
    scene.partitions.get("t", index).append(batch)


def verify(verification: TxnVerification, writer: Writer, scene: PartitionScene, *indexes: int) -> Refused:
    """The answer of a verification that need not wait."""
    answer = verification.verify(writer, [scene.partitions.get("t", index) for index in indexes])
    assert isinstance(answer, dict)
    return answer


async def verify_later(verification: TxnVerification, scene: PartitionScene, *indexes: int) -> Refused:
    answer = verification.verify(ADDING, [scene.partitions.get("t", index) for index in indexes or (0,)])
    assert inspect.isawaitable(answer)
    return await answer


def test_a_partition_that_was_not_added_is_refused_and_another_is_not(
    verification: TxnVerification, coordinator: Coordinator, scene: PartitionScene
) -> None:
    coordinator.added = {T1}
    assert verify(verification, ASKING, scene, 0, 1) == {T0: ErrorCode.TRANSACTION_ABORTABLE}


def test_where_the_transaction_is_open_nobody_is_asked(
    verification: TxnVerification, coordinator: Coordinator, scene: PartitionScene
) -> None:
    write(scene, 0)
    assert verify(verification, ASKING, scene, 0) == {}
    assert verify(verification, ADDING, scene, 0) == {}
    assert coordinator.asked == []


def test_an_open_transaction_of_an_older_epoch_is_not_the_writers(
    verification: TxnVerification, coordinator: Coordinator, scene: PartitionScene
) -> None:
    write(scene, 0)
    coordinator.epoch = 1
    assert verify(verification, Writer("tx", PID, 1, adds=False), scene, 0) == {T0: ErrorCode.TRANSACTION_ABORTABLE}


def test_switched_off_it_lets_old_clients_write_and_still_adds_for_new_ones(coordinator: Coordinator, scene: PartitionScene) -> None:
    off = TxnVerification(coordinator, enabled=lambda: False, pause=a_turn)
    assert verify(off, ASKING, scene, 0) == {}
    assert verify(off, ADDING, scene, 0) == {}
    assert coordinator.asked == [frozenset({T0})]


def test_all_new_partitions_of_a_request_are_added_at_once(
    verification: TxnVerification, coordinator: Coordinator, scene: PartitionScene
) -> None:
    assert verify(verification, ADDING, scene, 0, 1) == {}
    assert coordinator.asked == [frozenset({T0, T1})]


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
def test_the_coordinators_errors_are_the_writers_but_for_fenced(
    verification: TxnVerification, coordinator: Coordinator, scene: PartitionScene, writer: Writer, error: tuple[ErrorCode, ErrorCode]
) -> None:
    told, seen = error
    coordinator.answers, coordinator.verdict = [told], told
    assert verify(verification, writer, scene, 0) == {T0: seen}


async def test_an_addition_is_waited_for_until_it_is_durable(
    verification: TxnVerification, coordinator: Coordinator, scene: PartitionScene
) -> None:
    durable: asyncio.Future[ErrorCode] = asyncio.get_running_loop().create_future()
    coordinator.answers = [durable]
    waiting = asyncio.ensure_future(verify_later(verification, scene))
    await asyncio.sleep(0)
    assert not waiting.done()
    durable.set_result(ErrorCode.NONE)
    assert await waiting == {}


async def test_a_transaction_that_ended_while_its_addition_was_written_is_not_written_to(
    verification: TxnVerification, coordinator: Coordinator, scene: PartitionScene
) -> None:
    durable: asyncio.Future[ErrorCode] = asyncio.get_running_loop().create_future()
    coordinator.answers = [durable]
    waiting = asyncio.ensure_future(verify_later(verification, scene))
    await asyncio.sleep(0)
    coordinator.verdict = ErrorCode.PRODUCER_FENCED
    durable.set_result(ErrorCode.NONE)
    assert await waiting == {T0: ErrorCode.INVALID_PRODUCER_EPOCH}


async def test_an_addition_that_is_lost_refuses_the_batch(
    verification: TxnVerification, coordinator: Coordinator, scene: PartitionScene
) -> None:
    durable: asyncio.Future[ErrorCode] = asyncio.get_running_loop().create_future()
    durable.set_exception(Rejected(ErrorCode.NOT_COORDINATOR))
    coordinator.answers = [durable]
    assert await verify_later(verification, scene) == {T0: ErrorCode.NOT_COORDINATOR}


async def test_the_end_of_the_transaction_before_is_waited_for(
    verification: TxnVerification, coordinator: Coordinator, scene: PartitionScene
) -> None:
    coordinator.answers = [ErrorCode.CONCURRENT_TRANSACTIONS] * 3
    assert await verify_later(verification, scene) == {}
    assert len(coordinator.asked) == 4


async def test_but_not_for_ever(verification: TxnVerification, coordinator: Coordinator, scene: PartitionScene) -> None:
    coordinator.answers = [ErrorCode.CONCURRENT_TRANSACTIONS] * 100
    assert await verify_later(verification, scene) == {T0: ErrorCode.CONCURRENT_TRANSACTIONS}
    assert len(coordinator.asked) == limits.ADD_PARTITIONS_TRIES


def test_old_clients_are_told_of_the_end_that_is_under_way_at_once(
    verification: TxnVerification, coordinator: Coordinator, scene: PartitionScene
) -> None:
    coordinator.verdict = ErrorCode.CONCURRENT_TRANSACTIONS
    assert verify(verification, ASKING, scene, 0) == {T0: ErrorCode.CONCURRENT_TRANSACTIONS}
