"""A coordinator that is killed at any step of a transaction recovers to one outcome. Every disk operation is tried as the last one.

The disk fails after n operations, for every n until the whole transaction succeeds. Partial writes are tried too, with a record torn in the
middle. Then the directory is opened again, as after SIGKILL, and again after another kill right after the recovery.
"""

from __future__ import annotations

import contextlib
import itertools
from collections.abc import Callable
from copy import deepcopy
from dataclasses import dataclass
from pathlib import Path

import pytest

from ottla.broker.core.rejected import Rejected
from ottla.broker.runtime.coordination.txn_service import TxnResult
from ottla.broker.sim.memory_files import MemoryFiles
from ottla.broker.storage.errors import LogDirRefused
from ottla.broker.txns.states import PREPARED, TxnState
from ottla.broker.txns.txn_records import decode_record
from ottla.protocol.error_codes import ErrorCode
from ottla.protocol.records.batch import split_batches
from ottla.protocol.records.control import ControlType
from ottla.protocol.records.record import iter_records
from tests.support.topic_dirs import failing_after
from tests.support.txn_dirs import TxnDir

PLACES = [("t", 0), ("t", 1), ("u", 0)]
STEPS_MAX = 400
"""Far more disk operations than a transaction needs; the test asserts that it needs fewer."""


@dataclass
class Observed:
    """The responses that the producer got: None for no response."""

    producer: TxnResult | None = None
    added: bool = False
    ended: TxnResult | None = None


def run_transaction(opened: TxnDir, observed: Observed, *, commit: bool, version: int) -> None:
    """Run one transaction over three partitions and a group's offsets, and record the responses in `observed`; stop at the first rejection,
    as a client does."""
    observed.producer = answered(opened.init())
    if observed.producer is None:
        return
    for place in [*PLACES, opened.offsets_place]:
        if opened.add(observed.producer, place, version=version) is not ErrorCode.NONE:
            return
    observed.added = True
    for place in PLACES:
        opened.write(observed.producer, place)
    if opened.commit_offset(observed.producer, 42) == [ErrorCode.NONE]:
        observed.ended = answered(opened.end(observed.producer, commit=commit, version=version))


def answered(answer: TxnResult) -> TxnResult | None:
    return answer if answer.error is ErrorCode.NONE else None


async def begin(path: Path, files: MemoryFiles) -> TxnDir:
    opened = await TxnDir(path, files=files).load()
    await opened.make_topics(("t", 2), ("u", 1), ("in", 1))
    opened.init("another")  # allocates the block of producer ids now, which is not under test
    files.sync_dir(path)
    return opened


async def killed_after(path: Path, steps: int, *, torn: bool, commit: bool, version: int) -> tuple[Observed, bool, MemoryFiles]:
    """Run the transaction on a disk that fails after `steps` operations; return the responses, whether the disk survived, and the disk."""
    files = MemoryFiles()
    opened = await begin(path, files)
    files.on_call = tearing_after(steps, files) if torn else failing_after(steps)
    observed = Observed()
    with contextlib.suppress(Rejected):  # the disk has failed: the client gets no more responses
        run_transaction(opened, observed, commit=commit, version=version)
    outlived = is_alive(files, path)
    opened.crash()
    files.heal()
    return observed, outlived, files


def tearing_after(calls: int, files: MemoryFiles) -> Callable[[str, Path], None]:
    """Like `failing_after`, but the last write reaches the disk with half of a marker's bytes."""
    fail = failing_after(calls)
    torn = False

    def on_call(operation: str, path: Path) -> None:
        nonlocal torn
        try:
            fail(operation, path)
        except OSError:
            if torn or operation != "write":
                raise
            torn = True
            files.room = 39

    return on_call


async def check(opened: TxnDir, observed: Observed, *, commit: bool) -> str:
    """Check that all partitions and the group have the same outcome, consistent with the responses, and that no transaction is open; return
    the outcome."""
    txn = opened.txns.get("tx")
    if txn is None:
        assert observed.producer is None, "an answered InitProducerId was forgotten"
        return "unknown"
    assert txn.state not in PREPARED, "the recovery stopped half-way"
    places = [*PLACES, opened.offsets_place]
    if txn.state is TxnState.ONGOING:
        assert observed.ended is None, "an answered EndTxn was forgotten"
        await opened.pass_ms(60_000 + 10_001)
        assert opened.transaction().state is TxnState.COMPLETE_ABORT, "an open transaction ends with its timeout"
        assert {kind for place in places for kind in opened.outcomes(place)} <= {ControlType.ABORT}
        assert all(opened.is_stable(place) for place in places)
        assert opened.committed_offset() == -1
        return "open"
    if txn.state is TxnState.EMPTY:
        assert not observed.added, "an answered AddPartitionsToTxn was forgotten"
        return "empty"
    expected, kind = (TxnState.COMPLETE_COMMIT, ControlType.COMMIT) if commit else (TxnState.COMPLETE_ABORT, ControlType.ABORT)
    assert txn.state is expected
    assert [opened.outcomes(place) for place in places] == [[kind]] * len(places), "torn"
    assert all(opened.is_stable(place) for place in places)
    assert opened.committed_offset() == (42 if commit else -1)
    return "decided"


def check_life_goes_on(opened: TxnDir, observed: Observed, outcome: str, *, commit: bool, version: int) -> None:
    """Check that the producer can retry the lost request, and that its next transaction works."""
    producer = observed.producer
    if producer is None or outcome != "decided":
        producer = opened.init()
        while producer.error is ErrorCode.CONCURRENT_TRANSACTIONS:
            producer = opened.init()
    else:
        again = opened.end(producer, commit=commit, version=version)
        assert again.error is ErrorCode.NONE, "a retried EndTxn is not recognised"
        assert observed.ended in (None, again)
        producer = again if version == 2 else producer
    assert producer.error is ErrorCode.NONE
    assert opened.add(producer, PLACES[0], version=version) is ErrorCode.NONE
    assert opened.end(producer, commit=True, version=version).error is ErrorCode.NONE
    assert opened.is_stable(PLACES[0])


@pytest.mark.parametrize("version", [0, 2], ids=["V1", "V2"])
@pytest.mark.parametrize("commit", [True, False], ids=["commit", "abort"])
@pytest.mark.parametrize("torn", [False, True], ids=["whole", "torn"])
async def test_kill_at_any_step_leaves_the_same_transaction_outcome_on_every_partition(
    tmp_path: Path, torn: bool, commit: bool, version: int
) -> None:
    outcomes: dict[str, int] = {}
    for steps in itertools.count():
        assert steps < STEPS_MAX
        observed, outlived, files = await killed_after(tmp_path, steps, torn=torn, commit=commit, version=version)
        opened = await TxnDir(tmp_path, files=files).load()
        opened.crash()
        opened = await TxnDir(tmp_path, files=files).load()
        outcome = await check(opened, observed, commit=commit)
        check_life_goes_on(opened, observed, outcome, commit=commit, version=version)
        opened.crash()
        outcomes[outcome] = outcomes.get(outcome, 0) + 1
        if outlived:
            break
    print(f"\n{sum(outcomes.values())} crash points, all recovered: {outcomes}")
    assert set(outcomes) == {"unknown", "empty", "open", "decided"}
    assert outcomes["decided"] >= len(PLACES) + 2, "markers and the Complete record are steps of their own"


@pytest.mark.parametrize("version", [0, 2], ids=["V1", "V2"])
@pytest.mark.parametrize("commit", [True, False], ids=["commit", "abort"])
async def test_kill_at_any_step_of_the_recovery_keeps_the_transactions_outcome(tmp_path: Path, commit: bool, version: int) -> None:
    """The first kill comes right after the decision; then each step of the recovery is tried as the last one."""
    for first in itertools.count():
        assert first < STEPS_MAX
        observed, outlived, files = await killed_after(tmp_path, first, torn=False, commit=commit, version=version)
        assert not outlived
        if observed.ended is not None or is_decided(files, tmp_path):
            break
    points = 0
    for steps in itertools.count():
        assert steps < STEPS_MAX
        disk = deepcopy(files)
        disk.on_call = failing_after(steps)
        with contextlib.suppress(OSError, Rejected, LogDirRefused):  # a start that fails because of the disk
            (await TxnDir(tmp_path, files=disk).load()).crash()
        died = not is_alive(disk, tmp_path)
        disk.fds.clear()
        disk.heal()
        opened = await TxnDir(tmp_path, files=disk).load()
        assert await check(opened, observed, commit=commit) == "decided"
        opened.crash()
        points += 1
        if not died:
            break
    print(f"\n{points} crash points of the recovery, all recovered")


def is_alive(files: MemoryFiles, path: Path) -> bool:
    try:
        files.on_call("probe", path)
    except OSError:
        return False
    return True


def is_decided(files: MemoryFiles, path: Path) -> bool:
    """Return whether the log of `__transaction_state` contains the decision for "tx"."""
    log = bytes(files.nodes[path / "__transaction_state-0" / f"{0:020}.log"].data)
    records = [record for at, header in split_batches(log) for record in iter_records(log[at : at + header.size_bytes])]
    found = [decode_record(record.key, record.value) for record in records]
    return any(each is not None and each.value is not None and each.value.state in PREPARED for each in found)
