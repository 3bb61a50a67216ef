"""Compaction against a model: a READ_COMMITTED reader of the whole log gets the latest committed value of each key, whatever was compacted,
aborted, left open, lost in a crash, or forgotten with the producer snapshots."""

from __future__ import annotations

import random
from dataclasses import dataclass, field
from pathlib import Path

import pytest

from ottla.broker.core import limits
from ottla.broker.core.log_config import LogConfig
from ottla.broker.storage.log_cleaner import clean_log
from ottla.broker.storage.log_values import Isolation
from ottla.broker.storage.producer_state import Origin
from ottla.protocol.records.batch import split_batches
from ottla.protocol.records.control import ControlType, parse_marker
from ottla.protocol.records.record import SimpleRecord, build_batch, iter_records
from tests.support.logs import NOW_MS, LogHarness, marker

STEPS = 80
PRODUCERS = 3
Seen = tuple[int, bytes | None, bytes | None]


def read_committed(log_harness: LogHarness, offset: int) -> list[Seen]:
    """Return (offset, key, value) of the records that a READ_COMMITTED consumer gets from `offset` on."""
    seen: list[Seen] = []
    while True:
        found = log_harness.log.read(offset, 600, isolation=Isolation.READ_COMMITTED, min_one_batch=True)
        if not found.records:
            return seen
        to_come = sorted(found.aborted, key=lambda txn: txn[1])
        hidden: set[int] = set()
        for position, header in split_batches(found.records):
            data = found.records[position : position + header.size_bytes]
            while to_come and to_come[0][1] <= header.last_offset:
                hidden.add(to_come.pop(0)[0])
            if header.is_control:
                if header.record_count and parse_marker(data).type is ControlType.ABORT:
                    hidden.discard(header.producer_id)
            elif header.producer_id not in hidden:
                seen += [(r.offset, r.key, r.value) for r in iter_records(data) if r.offset >= offset]
            offset = max(offset, header.next_offset)


@dataclass
class Harness:
    """A log, and the records written to it: (offset, key, value, number of the transaction or 0)."""

    log_harness: LogHarness
    rng: random.Random
    now_ms: int = NOW_MS
    first_dirty: int = 0
    written: list[tuple[int, bytes | None, bytes | None, int]] = field(default_factory=list)
    sequences: dict[int, int] = field(default_factory=dict)
    running: dict[int, int] = field(default_factory=dict)
    outcomes: dict[int, bool] = field(default_factory=lambda: {0: True})

    def records(self) -> list[SimpleRecord]:
        rng = self.rng
        count = rng.randint(1, 2)
        return [SimpleRecord(b"k%d" % rng.randrange(6), rng.choice([None, *[rng.randbytes(9)] * 4]), self.now_ms) for _ in range(count)]

    def wrote(self, records: list[SimpleRecord], first_offset: int, txn: int) -> None:
        self.written += [(first_offset + i, r.key, r.value, txn) for i, r in enumerate(records)]

    def plain(self) -> None:
        records = self.records()
        self.wrote(records, self.log_harness.append(build_batch(records)).first_offset, 0)

    def in_transaction(self) -> None:
        producer, records = self.rng.randrange(PRODUCERS), self.records()
        txn = self.running.setdefault(producer, len(self.outcomes) + len(self.running))
        sequence = self.sequences.get(producer, 0)
        self.sequences[producer] = sequence + len(records)
        data = build_batch(records, producer_id=producer, producer_epoch=0, base_sequence=sequence, transactional=True)
        self.wrote(records, self.log_harness.append(data).first_offset, txn)

    def decide(self) -> None:
        producer, committed = self.rng.randrange(PRODUCERS), self.rng.random() < 0.5
        self.log_harness.append(marker(producer, 0, committed=committed), origin=Origin.COORDINATOR)
        if producer in self.running:
            self.outcomes[self.running.pop(producer)] = committed

    def roll(self) -> None:
        if self.log_harness.log.segments.active.size:
            self.log_harness.log.roll(self.now_ms)

    def compact(self) -> None:
        cleaning = clean_log(self.log_harness.log, self.first_dirty, self.now_ms)
        while True:
            try:
                caller = next(cleaning)
            except StopIteration as stop:
                self.first_dirty = stop.value
                return
            if caller is not None:
                caller.sync()

    def lose_snapshots(self) -> None:
        for path in self.log_harness.directory.glob("*.snapshot"):
            path.unlink()
        self.log_harness.crash()

    def wait(self) -> None:
        self.now_ms += self.rng.choice([1, 10, 100])

    def step(self) -> None:
        writes = [self.plain] * 3 + [self.in_transaction] * 5 + [self.decide] * 4
        self.rng.choice(
            [*writes, *[self.roll, self.compact] * 2, self.log_harness.crash, self.log_harness.restart, self.lose_snapshots, self.wait]
        )()

    def check(self) -> None:
        log_harness = self.log_harness
        assert log_harness.findings == []
        stable = min((offset for offset, _, _, txn in self.written if txn not in self.outcomes), default=log_harness.log.log_end_offset)
        assert log_harness.log.last_stable_offset == stable
        committed = [(offset, key, value) for offset, key, value, txn in self.written if offset < stable and self.outcomes[txn]]
        seen = read_committed(log_harness, 0)
        assert set(seen) <= set(committed), "nothing that was aborted, nothing that was never written"
        assert set(read_committed(log_harness, self.rng.randint(0, log_harness.log.log_end_offset))) <= set(committed)
        truth = {key: value for _, key, value in committed}
        believed = {key: value for _, key, value in seen}
        assert dict.fromkeys(truth) | believed == truth, "a tombstone may be gone, and then the key, too"
        last_sequences = {p.producer_id: p.last_sequence for p in log_harness.log.producers() if p.last_sequence >= 0}
        assert last_sequences == {producer: sequence - 1 for producer, sequence in self.sequences.items()}


@pytest.mark.parametrize("seed", range(20))
def test_compaction_keeps_exactly_the_committed_records(tmp_path: Path, seed: int, monkeypatch: pytest.MonkeyPatch) -> None:
    rng = random.Random(seed)
    monkeypatch.setattr(limits, "COMPACTION_KEYS", rng.choice([3, 6, 1000]))
    config = LogConfig(
        segment_bytes=rng.choice([300, 600, 1500]),
        index_interval_bytes=rng.choice([0, 100, 300]),
        cleanup_policy=frozenset({"compact"}),
        delete_retention_ms=rng.choice([0, 5, 50]),
    )
    harness = Harness(LogHarness(tmp_path / "topic-0", config), rng)
    for _ in range(STEPS):
        harness.step()
        harness.check()
    harness.log_harness.log.release()
