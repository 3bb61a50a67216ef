"""The transaction service over a data directory in memory: time, restarts, failing and slow disks."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncIterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from ottla.broker.controller.create_topics import NewTopic
from ottla.broker.controller.delete_topics import TopicRef
from ottla.broker.core import limits
from ottla.broker.core.java_hash import partition_of
from ottla.broker.core.rejected import Rejected
from ottla.broker.core.settings import BrokerSettings
from ottla.broker.runtime.coordination import shards
from ottla.broker.runtime.coordination.txn_service import TxnResult
from ottla.broker.sim.memory_files import MemoryFiles
from ottla.broker.storage.log_values import Isolation
from ottla.broker.txns import decide
from ottla.broker.txns.states import TxnState
from ottla.broker.txns.transaction import Transaction
from ottla.broker.txns.txn_records import TxnRecord
from ottla.protocol.error_codes import ErrorCode
from ottla.protocol.records.batch import HEADER_BYTES, split_batches
from ottla.protocol.records.control import ControlType
from ottla.protocol.records.record import SimpleRecord
from tests.support.txn_dirs import SETTINGS, TxnDir

A, B = ("t", 0), ("t", 1)
TIMEOUT_MS, CHECK_MS = 60_000, 10_000
WEEK_MS, HOUR_MS = 604_800_000, 3_600_000


@pytest.fixture
def files() -> MemoryFiles:
    return MemoryFiles()


@pytest.fixture
async def opened(tmp_path: Path, files: MemoryFiles) -> AsyncIterator[TxnDir]:
    opened = await TxnDir(tmp_path, files=files).load()
    await opened.make_topics(("t", 2), ("in", 1))
    yield opened
    opened.crash()


async def reopened(opened: TxnDir, path: Path, files: MemoryFiles) -> TxnDir:
    """Return the directory opened again after SIGKILL, at the same wall-clock time."""
    opened.crash()
    again = TxnDir(path, files=files)
    again.clock.advance(opened.clock.now_ms() - again.clock.now_ms())
    return await again.load()


async def test_no_transactional_id_is_coordinated_without_the_topic(tmp_path: Path, files: MemoryFiles) -> None:
    opened = await TxnDir(tmp_path, files=files).load()
    assert not opened.txns.shards.exist
    assert opened.init() == TxnResult(ErrorCode.NOT_COORDINATOR)
    assert opened.txns.verify_partitions("tx", 1, 0, frozenset({A})) == {A: ErrorCode.NOT_COORDINATOR}
    with pytest.raises(Rejected):
        opened.txns.get("tx")
    await opened.txns.shards.create_topic()
    assert opened.init().error is ErrorCode.NONE
    opened.crash()


async def test_an_empty_transactional_id_is_refused_by_every_api(opened: TxnDir) -> None:
    nobody = TxnResult(producer_id=1, producer_epoch=0)
    assert opened.init("").error is ErrorCode.INVALID_REQUEST
    assert opened.add(nobody, A, transactional_id="") is ErrorCode.INVALID_REQUEST
    assert opened.end(nobody, commit=True, transactional_id="").error is ErrorCode.INVALID_REQUEST
    assert opened.txns.verify_partitions("", 1, 0, frozenset({A}))[A] is ErrorCode.INVALID_REQUEST


async def test_a_transaction_without_waits_completes_at_once(opened: TxnDir) -> None:
    producer = opened.init()
    opened.add(producer, A, B)
    opened.write(producer, A)
    assert not opened.is_stable(A)
    ended = opened.txns.end_txn("tx", producer.producer_id, producer.producer_epoch, commit=True, client_version=2)
    assert isinstance(ended, TxnResult)
    assert opened.transaction().state is TxnState.COMPLETE_COMMIT
    assert (opened.outcomes(A), opened.outcomes(B)) == ([ControlType.COMMIT], [ControlType.COMMIT])


@pytest.mark.parametrize("version", [0, 2])
async def test_a_transaction_timeout_aborts_and_fences_the_producer(tmp_path: Path, files: MemoryFiles, version: int) -> None:
    opened = await TxnDir(tmp_path, files=files, settings=BrokerSettings(transaction_version=version, **SETTINGS)).load()  # type: ignore[arg-type] # all are ints
    await opened.make_topics(("t", 2))
    producer = opened.init()
    opened.add(producer, A, version=version)
    opened.write(producer, A)
    await opened.pass_ms(TIMEOUT_MS)
    assert opened.transaction().state is TxnState.ONGOING
    await opened.pass_ms(CHECK_MS)
    assert opened.transaction().state is TxnState.COMPLETE_ABORT
    assert (opened.is_stable(A), opened.outcomes(A)) == (True, [ControlType.ABORT])
    with pytest.raises(Rejected) as fenced:
        opened.write(producer, A, 1)
    assert fenced.value.code is ErrorCode.INVALID_PRODUCER_EPOCH
    assert opened.add(producer, A, version=version) is ErrorCode.PRODUCER_FENCED
    opened.crash()


async def test_an_open_transaction_keeps_its_timeout_over_a_restart(opened: TxnDir, tmp_path: Path, files: MemoryFiles) -> None:
    producer = opened.init()
    opened.add(producer, A)
    await opened.pass_ms(TIMEOUT_MS - CHECK_MS + 1)
    again = await reopened(opened, tmp_path, files)
    assert again.transaction().state is TxnState.ONGOING
    await again.pass_ms(CHECK_MS)
    assert again.transaction().state is TxnState.COMPLETE_ABORT
    again.crash()


async def test_a_thousand_timeouts_take_bounded_turns(opened: TxnDir) -> None:
    count = 1_000
    for i in range(count):
        producer = opened.init(f"tx-{i}")
        assert opened.add(producer, A, transactional_id=f"tx-{i}") is ErrorCode.NONE
        opened.write(producer, A)
    await opened.pass_ms(TIMEOUT_MS + CHECK_MS)
    aborted = [txn for txn in opened.txns.all_transactions() if txn.state is TxnState.COMPLETE_ABORT]
    assert len(aborted) == limits.TIMED_OUT_TRANSACTIONS_PER_TURN
    for _ in range(count // limits.TIMED_OUT_TRANSACTIONS_PER_TURN):
        await opened.pass_ms(1)
    assert {txn.state for txn in opened.txns.all_transactions()} == {TxnState.COMPLETE_ABORT}
    assert opened.is_stable(A)
    assert opened.outcomes(A) == [ControlType.ABORT] * count


async def test_timeouts_of_large_transactions_take_bounded_turns(opened: TxnDir) -> None:
    deleted = [("gone", index) for index in range(limits.MARKERS_AT_ONCE)]
    for name in "abcdefgh":
        opened.add(opened.init(name), *deleted, transactional_id=name)
    await opened.pass_ms(TIMEOUT_MS + CHECK_MS)
    aborted = [txn for txn in opened.txns.all_transactions() if txn.state is TxnState.COMPLETE_ABORT]
    assert len(aborted) == limits.TIMED_OUT_TRANSACTIONS_PER_TURN // (1 + limits.MARKERS_AT_ONCE // 10) + 1
    await opened.pass_ms(1)
    assert {txn.state for txn in opened.txns.all_transactions()} == {TxnState.COMPLETE_ABORT}


async def test_a_transaction_whose_abort_is_too_large_does_not_hold_up_other_timeouts(opened: TxnDir) -> None:
    big, small = opened.init("big"), opened.init("small")
    opened.add(big, *[("t" * 249, index) for index in range(100)], transactional_id="big")
    opened.add(small, A, transactional_id="small")
    opened.write(small, A)
    log = opened.partitions.get("__transaction_state", 0).log
    log.config = replace(log.config, max_message_bytes=400)
    await opened.pass_ms(TIMEOUT_MS + CHECK_MS)
    assert opened.transaction("big").state is TxnState.ONGOING
    assert opened.transaction("small").state is TxnState.COMPLETE_ABORT
    assert opened.is_stable(A)


async def test_an_unused_transactional_id_expires_after_a_week(opened: TxnDir, tmp_path: Path, files: MemoryFiles) -> None:
    idle = opened.init("idle")
    await opened.pass_ms(WEEK_MS)
    opened.init("busy")
    open_for_long = opened.init("open")
    await opened.pass_ms(HOUR_MS)
    assert {txn.transactional_id for txn in opened.txns.all_transactions()} == {"busy", "open"}
    assert opened.end(idle, commit=True, transactional_id="idle").error is ErrorCode.INVALID_PRODUCER_ID_MAPPING
    assert opened.init("idle", (idle.producer_id, idle.producer_epoch)).producer_id > open_for_long.producer_id
    again = await reopened(opened, tmp_path, files)
    assert {txn.transactional_id for txn in again.txns.all_transactions()} == {"busy", "open", "idle"}
    again.crash()


async def test_transactional_ids_expire_one_partition_per_turn_despite_a_bug(
    tmp_path: Path, files: MemoryFiles, monkeypatch: pytest.MonkeyPatch
) -> None:
    opened = await TxnDir(tmp_path, files=files, settings=BrokerSettings(transaction_state_log_num_partitions=3)).load()
    await opened.txns.shards.create_topic()
    names = {partition_of(name, 3): name for name in "abcdefgh"}
    for name in names.values():
        opened.init(name)

    def left() -> set[str]:
        return {txn.transactional_id for txn in opened.txns.all_transactions()}

    def broken(*_: object) -> list[TxnRecord]:
        raise ZeroDivisionError

    monkeypatch.setattr(opened.txns.shards.at(1).machine, "expired", broken)
    assert len(left()) == 3
    opened.tick(WEEK_MS + HOUR_MS)
    max_at_once = 0
    for _ in range(5):
        before = len(left())
        await asyncio.sleep(0)
        max_at_once = max(max_at_once, before - len(left()))
    assert max_at_once == 1
    assert left() == {names[1]}
    opened.crash()


async def test_expired_transactional_ids_are_removed_in_small_batches(opened: TxnDir) -> None:
    for i in range(10):
        opened.init(f"{i}" * 3_000)
    log = opened.partitions.get("__transaction_state", 0).log
    before = log.log_end_offset
    await opened.pass_ms(WEEK_MS + HOUR_MS)
    assert list(opened.txns.all_transactions()) == []
    assert log.log_end_offset == before + 10
    records = bytes(log.read(before, 1 << 20, isolation=Isolation.LOG_END).records)
    tombstones = [header.record_count for _, header in split_batches(records) if header.base_offset >= before]
    assert tombstones == [5, 5]


async def test_a_failed_write_of_the_decision_leaves_the_transaction_open(opened: TxnDir, files: MemoryFiles) -> None:
    producer = opened.init()
    opened.add(producer, A)
    files.room = 0
    assert opened.end(producer, commit=True).error is ErrorCode.NOT_COORDINATOR
    assert opened.init() == TxnResult(ErrorCode.NOT_COORDINATOR)
    files.room = None
    assert opened.transaction().state is TxnState.ONGOING
    assert opened.end(producer, commit=True).error is ErrorCode.NONE


async def test_a_failed_timeout_abort_is_retried(opened: TxnDir, files: MemoryFiles, caplog: pytest.LogCaptureFixture) -> None:
    producer = opened.init()
    opened.add(producer, A)
    files.room = 0
    with caplog.at_level(logging.WARNING):
        await opened.pass_ms(TIMEOUT_MS + CHECK_MS)
    assert "cannot be aborted yet" in caplog.text
    files.room = None
    await opened.pass_ms(CHECK_MS)
    assert opened.transaction().state is TxnState.COMPLETE_ABORT


async def test_failed_timeout_aborts_are_retried_after_a_pause(
    opened: TxnDir, files: MemoryFiles, caplog: pytest.LogCaptureFixture
) -> None:
    for i in range(limits.TIMED_OUT_TRANSACTIONS_PER_TURN + 1):
        opened.add(opened.init(f"tx-{i}"), A, transactional_id=f"tx-{i}")
    files.room = 0
    with caplog.at_level(logging.WARNING):
        await opened.pass_ms(TIMEOUT_MS + CHECK_MS)
        await opened.pass_ms(1)
    assert caplog.text.count("cannot be aborted yet") == 1


async def test_a_failed_write_of_the_completion_is_retried(opened: TxnDir, files: MemoryFiles) -> None:
    producer = opened.init()
    opened.add(producer, A)
    state = opened.partitions.get("__transaction_state", 0).log.segments.active.path
    writes = 0

    def refuse_the_second(operation: str, path: Path) -> None:
        nonlocal writes
        if operation == "write" and path == state:
            writes += 1
            if writes == 2:
                raise OSError(28, "full")

    files.on_call = refuse_the_second
    assert opened.end(producer, commit=True).error is ErrorCode.NONE, "what was decided is decided"
    assert opened.transaction().state is TxnState.PREPARE_COMMIT
    assert opened.add(producer, A) is ErrorCode.CONCURRENT_TRANSACTIONS
    await opened.pass_ms(limits.MARKER_RETRY_MS)
    assert opened.transaction().state is TxnState.COMPLETE_COMMIT
    assert opened.outcomes(A) == [ControlType.COMMIT]


async def test_a_producer_id_rotation_survives_a_kill(opened: TxnDir, tmp_path: Path, files: MemoryFiles) -> None:
    """The kill comes after the producer got its next id and before the transaction is complete."""
    opened.init()
    (shard,) = opened.txns.shards.serving()
    shard.append([TxnRecord("tx", opened.transaction()._replace(producer_epoch=32_766))])
    last = TxnResult(producer_id=opened.transaction().producer_id, producer_epoch=32_766)
    opened.add(last, A)
    marked = opened.partitions.get(*A).log.segments.active.path

    def refuse_markers(operation: str, path: Path) -> None:
        if operation == "write" and path == marked:
            raise OSError(28, "full")

    files.on_call = refuse_markers
    promised = opened.end(last, commit=True)
    assert (promised.error, promised.producer_epoch) == (ErrorCode.NONE, 0)
    assert promised.producer_id > last.producer_id
    assert opened.add(promised, A) is ErrorCode.CONCURRENT_TRANSACTIONS
    files.heal()
    again = await reopened(opened, tmp_path, files)
    assert again.outcomes(A) == [ControlType.COMMIT]
    assert again.end(last, commit=True) == promised, "a retry is recognised, too"
    assert again.add(promised, A) is ErrorCode.NONE
    again.crash()


async def test_a_deleted_topic_does_not_block_the_transactions_end(opened: TxnDir) -> None:
    await opened.decisions.create_topics([NewTopic("gone", 1)])
    producer = opened.init()
    opened.add(producer, A, ("gone", 0))
    await opened.decisions.delete_topics([TopicRef("gone")])
    assert opened.end(producer, commit=True).error is ErrorCode.NONE
    assert opened.transaction().state is TxnState.COMPLETE_COMMIT


async def test_markers_are_sent_after_the_decision_is_flushed(tmp_path: Path) -> None:
    opened = await TxnDir(tmp_path, settings=BrokerSettings(log_flush_interval_messages=1, **SETTINGS)).load()  # type: ignore[arg-type] # all are ints
    await opened.make_topics(("t", 2))

    async def done(answer: TxnResult | ErrorCode | asyncio.Future[TxnResult] | asyncio.Future[ErrorCode]) -> TxnResult | ErrorCode:
        assert isinstance(answer, asyncio.Future), "answered before it was durable"
        return await answer  # type: ignore[no-any-return] # either of the two

    producer = await done(opened.txns.init_producer_id("tx", TIMEOUT_MS, None))
    assert isinstance(producer, TxnResult)
    identity = ("tx", producer.producer_id, producer.producer_epoch)
    assert await done(opened.txns.add_partitions(*identity, frozenset({A}), 2)) is ErrorCode.NONE
    again = opened.txns.add_partitions(*identity, frozenset({A}), 2)
    assert again is ErrorCode.NONE, "nothing to write and nothing to wait for"
    ending = opened.txns.end_txn(*identity, commit=True, client_version=2)
    assert opened.outcomes(A) == []
    assert await done(ending) == TxnResult(producer_id=producer.producer_id, producer_epoch=1)
    async with asyncio.timeout(10):
        while opened.transaction().state is not TxnState.COMPLETE_COMMIT:  # noqa: ASYNC110 # the disk's thread has no event for it
            await asyncio.sleep(0)
    assert opened.outcomes(A) == [ControlType.COMMIT]
    opened.crash()


async def test_a_transactional_id_is_loading_until_its_partition_is_loaded(
    opened: TxnDir, tmp_path: Path, files: MemoryFiles, monkeypatch: pytest.MonkeyPatch
) -> None:
    opened.init()
    for i in range(50):
        opened.init(f"tx-{i}")
    opened.crash()
    monkeypatch.setattr(shards, "LOAD_CHUNK_BYTES", 100)
    again = TxnDir(tmp_path, files=files)
    starting = asyncio.ensure_future(again.load())
    while not starting.done():  # the groups and the transactions each wait a while
        await asyncio.sleep(0)
        again.tick(shards.LOAD_BEFORE_SERVING_MS)
    await starting
    assert again.init() == TxnResult(ErrorCode.COORDINATOR_LOAD_IN_PROGRESS)
    with pytest.raises(Rejected) as loading:
        list(again.txns.all_transactions())
    assert loading.value.code is ErrorCode.COORDINATOR_LOAD_IN_PROGRESS
    async with asyncio.timeout(10):
        while again.init().error is ErrorCode.COORDINATOR_LOAD_IN_PROGRESS:  # noqa: ASYNC110 # as a client asks
            await asyncio.sleep(0)
    assert len(list(again.txns.all_transactions())) == 51
    again.crash()


async def test_an_unreadable_record_affects_only_its_transactional_id(
    opened: TxnDir, tmp_path: Path, files: MemoryFiles, caplog: pytest.LogCaptureFixture
) -> None:
    opened.init()
    opened.partitions.get("__transaction_state", 0).append_records(
        [SimpleRecord(b"\x00\x00\x00\x05ab", b"?"), SimpleRecord(b"\x00\x09", b"")]
    )
    with caplog.at_level(logging.WARNING):
        again = await reopened(opened, tmp_path, files)
    assert [txn.transactional_id for txn in again.txns.all_transactions()] == ["tx"]
    assert caplog.text.count("Skipping the record") == 2
    again.crash()


async def test_a_damaged_batch_disables_only_its_partitions_transactional_ids(
    tmp_path: Path, files: MemoryFiles, caplog: pytest.LogCaptureFixture
) -> None:
    settings = BrokerSettings(transaction_state_log_num_partitions=2, offsets_topic_num_partitions=1)
    opened = await TxnDir(tmp_path, files=files, settings=settings).load()
    await opened.make_topics(("t", 1))
    for name in ("a", "b"):  # partitions 1 and 0
        opened.init(name)
    opened.crash()
    again = TxnDir(tmp_path, files=files, settings=settings)
    fd = files.open(again.partitions.get("__transaction_state", 1).log.segments.active.path)
    files.pwrite(fd, [b"\x00"], HEADER_BYTES)
    files.close(fd)
    await again.load()
    assert "loading of __transaction_state-1 failed" in caplog.text
    assert again.init("a") == TxnResult(ErrorCode.NOT_COORDINATOR)
    assert again.init("b").producer_epoch == 1
    assert [txn.transactional_id for txn in again.txns.all_transactions()] == ["b"]
    again.crash()


async def test_after_a_stop_no_timer_is_left(opened: TxnDir, files: MemoryFiles) -> None:
    producer = opened.init()
    opened.add(producer, A)
    marked = opened.partitions.get(*A).log.segments.active.path

    def refuse_markers(operation: str, path: Path) -> None:
        if operation == "write" and path == marked:
            raise OSError(28, "full")

    files.on_call = refuse_markers
    opened.end(producer, commit=True)
    opened.txns.stop()
    opened.groups.stop()
    await opened.nursery.stop()
    assert len(opened.timers) == 0


async def test_an_offline_partition_does_not_move_its_transactional_ids(tmp_path: Path, files: MemoryFiles) -> None:
    settings = BrokerSettings(transaction_state_log_num_partitions=3, offsets_topic_num_partitions=1)
    opened = await TxnDir(tmp_path, files=files, settings=settings).load()
    await opened.make_topics(("t", 2))
    before = {name: opened.init(name) for name in ("a", "b", "c", "d", "e", "f")}
    opened.crash()
    offline = tmp_path / "__transaction_state-1"

    def refuse(operation: str, path: Path) -> None:
        if path.parent == offline and path.suffix == ".log":
            raise OSError(5, "broken")

    files.on_call = refuse
    again = await TxnDir(tmp_path, files=files, settings=settings).load()
    after = {name: again.init(name) for name in before}
    served = {name for name, answer in after.items() if answer.error is ErrorCode.NONE}
    assert {after[name].error for name in before.keys() - served} == {ErrorCode.NOT_COORDINATOR}
    assert 0 < len(served) < len(before)
    for name in served:
        assert (after[name].producer_id, after[name].producer_epoch) == (before[name].producer_id, 1)
    again.crash()


async def test_a_bug_in_one_timeout_stops_neither_others_nor_the_next_check(
    opened: TxnDir, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    for name in ("tx-0", "tx-1", "tx-2"):
        opened.add(opened.init(name), A, transactional_id=name)
    fence = decide.fence_and_abort

    def broken(txn: Transaction, *rest: Any) -> decide.Decision:
        if txn.transactional_id == "tx-1":
            raise ZeroDivisionError
        return fence(txn, *rest)

    with monkeypatch.context() as patched:
        patched.setattr(decide, "fence_and_abort", broken)
        for _ in range(3):
            await opened.pass_ms(TIMEOUT_MS + CHECK_MS)
    states = {txn.transactional_id: txn.state for txn in opened.txns.all_transactions()}
    assert states == {"tx-0": TxnState.COMPLETE_ABORT, "tx-1": TxnState.ONGOING, "tx-2": TxnState.COMPLETE_ABORT}
    assert [type(record.exc_info[1]) for record in caplog.records if record.exc_info] == [ZeroDivisionError]
    await opened.pass_ms(CHECK_MS)
    assert opened.transaction("tx-1").state is TxnState.COMPLETE_ABORT
