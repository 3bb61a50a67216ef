"""After any operations in any order, a restart restores the state that was in memory, which equals a plain model.

The model is a list: no segments, no indexes, no files. Hypothesis prints the steps that break it.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from tempfile import TemporaryDirectory

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, rule

from ottla.broker.core.log_config import LogConfig
from ottla.broker.core.rejected import Rejected
from ottla.broker.storage.log_values import Isolation
from ottla.broker.storage.producer_state import BATCHES_REMEMBERED, Origin
from ottla.protocol.records.batch import split_batches
from tests.support.logs import NOW_MS, LogHarness, batch, marker, producers, windows

PRODUCERS = st.integers(1, 3)
Entry = tuple[int, int, int, int]
"""(base offset, last offset, producer id, base sequence) of a batch."""


class LogMachine(RuleBasedStateMachine):
    def __init__(self) -> None:
        super().__init__()
        self._tmp = TemporaryDirectory()
        config = LogConfig(segment_bytes=700, index_interval_bytes=150)
        self.harness = LogHarness(Path(self._tmp.name) / "topic-0", config)
        self.model: list[Entry] = []
        self.sequences: dict[int, int] = {}
        self.flushed = 0

    def teardown(self) -> None:
        self.harness.log.release()
        self._tmp.cleanup()

    @property
    def end(self) -> int:
        return self.model[-1][1] + 1 if self.model else 0

    # --- what can happen -------------------------------------------------------------------------------------------------------

    @rule(count=st.integers(1, 4), size=st.integers(0, 60))
    def append_plain(self, count: int, size: int) -> None:
        self.harness.append(batch(count=count, size=size))
        self.model.append((self.end, self.end + count - 1, -1, -1))

    @rule(pid=PRODUCERS)
    def append_to_a_full_window(self, pid: int) -> None:
        for _ in range(BATCHES_REMEMBERED):
            self.append_next_of_producer(pid, 1, False)

    @rule(pid=PRODUCERS, count=st.integers(1, 4), transactional=st.booleans())
    def append_next_of_producer(self, pid: int, count: int, transactional: bool) -> None:
        sequence = self.sequences.get(pid, 0)
        entry = next((e for e in self.harness.log.producers() if e.producer_id == pid), None)
        is_open = entry is not None and entry.current_txn_first_offset >= 0
        info = self.harness.append(batch(pid, 0, sequence, count=count, transactional=transactional or is_open))
        assert not info.duplicate
        self.model.append((self.end, self.end + count - 1, pid, sequence))
        self.sequences[pid] = sequence + count

    @rule(pid=PRODUCERS, committed=st.booleans())
    def end_transaction(self, pid: int, committed: bool) -> None:
        self.harness.append(marker(pid, 0, committed=committed), origin=Origin.COORDINATOR)
        self.model.append((self.end, self.end, pid, -1))
        self.sequences.setdefault(pid, 0)

    @rule(pid=PRODUCERS, back=st.integers(1, BATCHES_REMEMBERED + 2))
    def retry_an_old_batch(self, pid: int, back: int) -> None:
        own = [e for e in self.model if e[2] == pid and e[3] >= 0]
        if back > len(own):
            return
        base, last, _, sequence = own[-back]
        remembered = (sequence, sequence + last - base) in windows(self.harness.log)[pid]
        entry = next(e for e in self.harness.log.producers() if e.producer_id == pid)
        again = batch(pid, 0, sequence, count=last - base + 1, transactional=entry.current_txn_first_offset >= 0)
        try:
            info = self.harness.append(again)
        except Rejected:
            assert not remembered
        else:
            assert remembered
            assert (info.first_offset, info.last_offset, info.duplicate) == (base, last, True)

    @rule()
    def roll(self) -> None:
        if self.harness.log.segments.active.size:
            self.harness.log.roll(NOW_MS)

    @rule()
    def flush(self) -> None:
        self.harness.log.flush()
        self.flushed = self.end

    @rule(data=st.data())
    def delete_records(self, data: st.DataObject) -> None:
        if not self.model:
            return
        self.flush()
        log = self.harness.log
        log.delete_records_before(data.draw(st.integers(0, self.model[-1][0])))
        log.apply_retention(NOW_MS)
        self.model = [e for e in self.model if e[1] >= log.log_start_offset]

    @rule()
    def crash(self) -> None:
        self.goes_on_as_it_was(self.harness.crash)

    @rule()
    def stop_and_start(self) -> None:
        self.goes_on_as_it_was(self.harness.restart)
        self.flushed = self.end

    def goes_on_as_it_was(self, over: Callable[[], object]) -> None:
        def state() -> tuple[object, ...]:
            return producers(self.harness.log), self.harness.log.last_stable_offset, self.aborted(), self.windows_in_the_log()

        before = state()
        over()
        assert self.harness.findings == []
        assert state() == before

    def windows_in_the_log(self) -> dict[int, list[tuple[int, int]]]:
        """Return each producer's remembered batches (first and last sequence) that a restart can restore: those in segments that retention
        has not deleted, and the newest one, which a snapshot keeps."""
        known = windows(self.harness.log)
        return {
            entry.producer_id: [
                each
                for each, batch in zip(known[entry.producer_id], entry.batches, strict=True)
                if batch.first_offset >= self.harness.log.segments.first.base_offset or batch is entry.batches[-1]
            ]
            for entry in self.harness.log.producers()
        }

    @rule(lost=st.integers(1, 500))
    def crash_with_a_torn_tail(self, lost: int) -> None:
        """Crash, and cut `lost` bytes from the end of the active segment, but none that were flushed."""
        active = self.harness.log.segments.active
        unflushed = [e for e in self.model if e[0] >= max(self.flushed, active.base_offset)]
        if not unflushed:
            return
        found = active.find(unflushed[0][0])
        assert found is not None
        size = max(active.size - lost, found[0])
        with active.path.open("r+b") as file:
            file.truncate(size)
        self.harness.crash()
        self.cut_model(self.harness.log.log_end_offset)
        assert len(self.harness.findings) <= 1

    @rule(data=st.data())
    def truncate(self, data: st.DataObject) -> None:
        offset = data.draw(st.integers(self.flushed, self.end))
        self.harness.log.truncate_to(offset, NOW_MS)
        self.cut_model(self.harness.log.log_end_offset)
        assert offset - 4 < self.end <= offset

    def cut_model(self, end: int) -> None:
        self.model = [e for e in self.model if e[1] < end]
        assert self.end == end, "the log was not cut between two batches"
        self.flushed = min(self.flushed, end)
        known = producers(self.harness.log)
        self.sequences = {pid: known[pid][1] + 1 for pid in self.sequences if pid in known}

    def aborted(self) -> list[object]:
        return [tuple(txn) for segment in self.harness.log.segments for txn in segment.txn_index.entries()]

    # --- what must hold --------------------------------------------------------------------------------------------------------

    @invariant()
    def the_log_is_the_model(self) -> None:
        assert [(h.base_offset, h.last_offset, h.producer_id, h.base_sequence) for h in self.harness.headers()] == self.model

    @invariant()
    def every_offset_is_found(self) -> None:
        for base, last, _, _ in self.model[-3:]:
            for offset in (max(base, self.harness.log.log_start_offset), last):
                records = self.harness.log.read(offset, 1, isolation=Isolation.LOG_END, min_one_batch=True).records
                assert [h.base_offset for _, h in split_batches(records)] == [base]

    @invariant()
    def offsets_are_in_order(self) -> None:
        log = self.harness.log
        assert log.log_start_offset <= log.last_stable_offset <= log.high_watermark == log.log_end_offset == self.end
        assert log.recovery_point <= log.log_end_offset


LogMachine.TestCase.settings = settings(max_examples=150, stateful_step_count=40)
TestLogReplay = LogMachine.TestCase
