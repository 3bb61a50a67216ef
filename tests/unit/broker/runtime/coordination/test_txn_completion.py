from __future__ import annotations

import asyncio
import logging
from dataclasses import dataclass, field

import pytest

from ottla.broker.core import limits
from ottla.broker.core.clock import VirtualClock
from ottla.broker.core.rejected import Rejected
from ottla.broker.core.timers import Timers
from ottla.broker.faults.engine import Faults
from ottla.broker.runtime.coordination.shard import ShardState
from ottla.broker.runtime.coordination.txn_completion import TxnCompletion
from ottla.broker.txns.states import TxnState
from ottla.broker.txns.transaction import TopicPartition, Transaction
from ottla.broker.txns.txn_marker import TxnMarker
from ottla.protocol.error_codes import ErrorCode

A, B, OFFSETS = ("a", 0), ("b", 0), ("__consumer_offsets", 3)


@dataclass
class Harness:
    """Scripted partitions that receive markers, and a virtual clock."""

    refusals: dict[TopicPartition, ErrorCode] = field(default_factory=dict)
    slow: set[TopicPartition] = field(default_factory=set)
    deleted: set[TopicPartition] = field(default_factory=set)
    written: list[tuple[TopicPartition, TxnMarker]] = field(default_factory=list)
    waiting: dict[TopicPartition, asyncio.Future[None]] = field(default_factory=dict)
    done: int = 0
    can_complete: bool = True

    def __post_init__(self) -> None:
        self.clock, self.timers = VirtualClock(), Timers()
        self.epoch, self.state = 9, ShardState.SERVING
        self.completion = TxnCompletion(self._send, self.timers, self.clock, self.exists, faults=Faults())

    def exists(self, harness: TopicPartition) -> bool:
        return harness not in self.deleted

    def _send(self, harness: TopicPartition, marker: TxnMarker) -> asyncio.Future[None] | None:
        if harness in self.refusals:
            raise Rejected(self.refusals[harness])
        self.written.append((harness, marker))
        if harness not in self.slow:
            return None
        self.waiting[harness] = asyncio.get_running_loop().create_future()
        return self.waiting[harness]

    def begin(self, *places: TopicPartition, decided: asyncio.Future[None] | None = None) -> None:
        txn = Transaction("tx", 7, 5, 60_000, TxnState.PREPARE_COMMIT, frozenset(places), 0, 0, version=2)
        self.completion.begin(self, txn, decided)

    def write(self, txn: Transaction) -> None:
        """Write to the transaction's partition of `__transaction_state`; only CompleteCommit is written here."""
        assert txn.state is TxnState.COMPLETE_COMMIT
        self.done += 1
        if not self.can_complete:
            raise Rejected(ErrorCode.NOT_COORDINATOR)

    def pass_ms(self, ms: int) -> None:
        self.clock.advance(ms)
        self.timers.run_due(self.clock.mono_ms())

    @property
    def places(self) -> list[TopicPartition]:
        return [harness for harness, _ in self.written]


def test_each_partition_gets_one_marker_at_once() -> None:
    harness = Harness()
    harness.begin(B, A, OFFSETS)
    assert harness.written == [(each, TxnMarker(7, 5, True, 9, 2)) for each in (OFFSETS, A, B)]
    assert (harness.done, len(harness.completion)) == (1, 0)


def test_large_transactions_share_the_turns_of_the_event_loop() -> None:
    harness = Harness()
    most = limits.MARKERS_AT_ONCE
    for name in ("a", "b"):
        places = frozenset((name, index) for index in range(2 * most + 1))
        harness.completion.begin(harness, Transaction(name, 7, 5, 60_000, TxnState.PREPARE_COMMIT, places, 0, 0, version=2))
    written = [len(harness.written)]
    while harness.timers.next_deadline() is not None:
        harness.pass_ms(limits.MARKERS_PAUSE_MS)
        written.append(len(harness.written))
    assert written == [2 * most, 3 * most, 4 * most, 4 * most + 1, 4 * most + 2]
    assert len(set(harness.places)) == len(harness.places)
    assert (harness.done, len(harness.completion)) == (2, 0)


async def test_a_large_transaction_is_complete_only_after_its_last_marker() -> None:
    last = ("z", 0)
    harness = Harness(slow={A}, refusals={B: ErrorCode.KAFKA_STORAGE_ERROR})
    harness.begin(A, B, last, *[("t", index) for index in range(limits.MARKERS_AT_ONCE)])
    harness.waiting[A].set_exception(Rejected(ErrorCode.NOT_LEADER_OR_FOLLOWER))
    await asyncio.sleep(0)
    assert (last in harness.places, len(harness.timers)) == (False, 1)
    harness.slow.clear()
    harness.refusals.clear()
    harness.pass_ms(limits.MARKERS_PAUSE_MS)
    assert (last in harness.places, harness.done) == (True, 0)
    harness.pass_ms(limits.MARKER_RETRY_MS)
    assert (harness.places[-2:], harness.done) == ([A, B], 1)


def test_a_resigned_coordinator_sends_no_more_markers_of_a_large_transaction() -> None:
    harness = Harness()
    harness.begin(*[("t", index) for index in range(limits.MARKERS_AT_ONCE + 1)])
    harness.completion.stop(harness)
    harness.pass_ms(limits.MARKERS_PAUSE_MS)
    assert (len(harness.places), harness.done) == (limits.MARKERS_AT_ONCE, 0)


def test_a_transaction_without_partitions_is_complete_at_once() -> None:
    harness = Harness()
    harness.begin()
    assert harness.done == 1


@pytest.mark.parametrize("error", [ErrorCode.KAFKA_STORAGE_ERROR, ErrorCode.NOT_LEADER_OR_FOLLOWER, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION])
def test_only_refused_markers_are_retried(error: ErrorCode) -> None:
    harness = Harness(refusals={A: error})
    harness.begin(A, B)
    assert (harness.places, harness.done) == ([B], 0)
    harness.pass_ms(limits.MARKER_RETRY_MS)
    assert (harness.places, harness.done) == ([B], 0)
    harness.refusals.clear()
    harness.pass_ms(limits.MARKER_RETRY_MS_MAX)
    assert (harness.places, harness.done) == ([B, A], 1)
    assert len(harness.timers) == 0


def test_retry_pauses_grow_to_a_limit_and_are_logged_once(caplog: pytest.LogCaptureFixture) -> None:
    harness = Harness(refusals={A: ErrorCode.KAFKA_STORAGE_ERROR})
    with caplog.at_level(logging.WARNING):
        harness.begin(A)
        pauses = []
        for _ in range(10):
            deadline = harness.timers.next_deadline()
            assert deadline is not None
            pauses.append(deadline - harness.clock.mono_ms())
            harness.pass_ms(pauses[-1])
    assert pauses[:3] == [limits.MARKER_RETRY_MS * n for n in (1, 2, 4)]
    assert pauses[-1] == limits.MARKER_RETRY_MS_MAX
    assert len(caplog.records) == 1


def test_a_deleted_topic_needs_no_marker() -> None:
    harness = Harness(refusals={A: ErrorCode.UNKNOWN_TOPIC_OR_PARTITION}, deleted={A})
    harness.begin(A, B)
    assert (harness.places, harness.done) == ([B], 1)


@pytest.mark.parametrize("error", [ErrorCode.INVALID_PRODUCER_EPOCH, ErrorCode.TRANSACTION_COORDINATOR_FENCED])
def test_a_newer_coordinator_or_producer_epoch_ends_the_retries(error: ErrorCode) -> None:
    harness = Harness(refusals={A: error})
    harness.begin(A, B)
    harness.pass_ms(limits.MARKER_RETRY_MS_MAX)
    assert (harness.places, harness.done, len(harness.completion), len(harness.timers)) == ([], 0, 0, 0)


async def test_a_late_response_with_a_newer_epoch_ends_the_retries() -> None:
    harness = Harness(slow={A}, refusals={B: ErrorCode.NOT_LEADER_OR_FOLLOWER})
    harness.begin(A, B)
    harness.waiting[A].set_exception(Rejected(ErrorCode.TRANSACTION_COORDINATOR_FENCED))
    await asyncio.sleep(0)
    assert (harness.done, len(harness.completion), len(harness.timers)) == (0, 0, 0)


def test_a_partition_that_cannot_have_transactions_needs_no_marker() -> None:
    harness = Harness(refusals={A: ErrorCode.UNSUPPORTED_FOR_MESSAGE_FORMAT})
    harness.begin(A, B)
    assert (harness.places, harness.done) == ([B], 1)


async def test_refused_markers_are_retried_while_others_are_in_flight() -> None:
    harness = Harness(slow={B}, refusals={A: ErrorCode.NOT_LEADER_OR_FOLLOWER})
    harness.begin(A, B)
    harness.refusals.clear()
    harness.pass_ms(limits.MARKER_RETRY_MS)
    assert (harness.places, harness.done) == ([B, A], 0)
    harness.waiting[B].set_result(None)
    await asyncio.sleep(0)
    assert (harness.done, len(harness.timers)) == (1, 0)


async def test_a_marker_for_a_deleted_topic_is_not_retried() -> None:
    harness = Harness(slow={A}, deleted={A})
    harness.begin(A)
    harness.waiting[A].set_exception(Rejected(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION))
    await asyncio.sleep(0)
    assert (harness.done, len(harness.timers)) == (1, 0)


async def test_a_transaction_is_complete_when_its_last_marker_is_durable() -> None:
    harness = Harness(slow={A, B})
    harness.begin(A, B)
    harness.waiting[A].set_result(None)
    await asyncio.sleep(0)
    assert harness.done == 0
    harness.waiting[B].set_result(None)
    await asyncio.sleep(0)
    assert harness.done == 1


async def test_a_marker_that_was_lost_is_written_again() -> None:
    harness = Harness(slow={A})
    harness.begin(A)
    harness.waiting[A].set_exception(Rejected(ErrorCode.KAFKA_STORAGE_ERROR))
    await asyncio.sleep(0)
    harness.slow.clear()
    harness.pass_ms(limits.MARKER_RETRY_MS)
    assert (harness.places, harness.done) == ([A, A], 1)


def test_a_failed_completion_is_retried_without_new_markers() -> None:
    harness = Harness(can_complete=False)
    harness.begin(A)
    harness.can_complete = True
    harness.pass_ms(limits.MARKER_RETRY_MS)
    assert (harness.places, harness.done, len(harness.completion)) == ([A], 2, 0)


async def test_after_a_stop_nothing_is_written() -> None:
    harness = Harness(refusals={A: ErrorCode.KAFKA_STORAGE_ERROR}, slow={B})
    harness.begin(A, B)
    harness.completion.stop()
    harness.refusals.clear()
    harness.waiting[B].set_result(None)
    await asyncio.sleep(0)
    harness.pass_ms(limits.MARKER_RETRY_MS_MAX)
    assert (harness.places, harness.done) == ([B], 0)


async def test_no_marker_is_sent_before_the_decision_is_committed() -> None:
    harness = Harness()
    decided: asyncio.Future[None] = asyncio.get_running_loop().create_future()
    harness.begin(A, decided=decided)
    await asyncio.sleep(0)
    assert harness.written == []
    decided.set_result(None)
    await asyncio.sleep(0)
    assert (harness.places, harness.done) == ([A], 1)


async def test_a_lost_decision_sends_no_marker() -> None:
    harness = Harness()
    decided: asyncio.Future[None] = asyncio.get_running_loop().create_future()
    harness.begin(A, decided=decided)
    decided.set_exception(Rejected(ErrorCode.NOT_LEADER_OR_FOLLOWER))
    await asyncio.sleep(0)
    assert harness.written == []


def test_a_resigned_coordinator_sends_no_more_markers() -> None:
    moved, stays = Harness(refusals={A: ErrorCode.KAFKA_STORAGE_ERROR}), Harness()
    moved.begin(A)
    moved.completion.stop(stays)
    assert len(moved.completion) == 1
    moved.completion.stop(moved)
    moved.refusals.clear()
    moved.pass_ms(limits.MARKER_RETRY_MS_MAX)
    assert (len(moved.completion), moved.places) == (0, [])
    moved.state = ShardState.CLOSED
    moved.begin(A)
    assert moved.places == []
