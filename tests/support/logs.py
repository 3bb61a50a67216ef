"""One partition's log in a directory, which can be crashed and restarted."""

from __future__ import annotations

import random
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path

from ottla.broker.core.log_config import LogConfig
from ottla.broker.storage.errors import Damage
from ottla.broker.storage.files import FILES, Files
from ottla.broker.storage.log_dir import LogDir
from ottla.broker.storage.log_values import AppendInfo, Isolation
from ottla.broker.storage.open_files import OpenFiles
from ottla.broker.storage.partition_log import PartitionLog
from ottla.broker.storage.producer_replay import recall_window
from ottla.broker.storage.producer_state import Origin
from ottla.broker.storage.recovery import OpenRequest, open_log
from ottla.protocol.records.batch import BatchHeader, split_batches
from ottla.protocol.records.control import end_txn_marker
from ottla.protocol.records.record import SimpleRecord, build_batch

TOPIC_ID = bytes(range(16))
NOW_MS = 1_700_000_000_000


def batch(
    producer_id: int = -1,
    epoch: int = -1,
    sequence: int = -1,
    count: int = 1,
    *,
    timestamp: int = NOW_MS,
    size: int = 10,
    transactional: bool = False,
) -> bytes:
    """Make a batch of `count` records of `size` bytes, one ms apart."""
    records = [SimpleRecord(b"k", bytes(size), timestamp + i) for i in range(count)]
    return build_batch(records, producer_id=producer_id, producer_epoch=epoch, base_sequence=sequence, transactional=transactional)


def marker(producer_id: int, epoch: int, *, committed: bool, coordinator_epoch: int = 0, timestamp: int = NOW_MS) -> bytes:
    return end_txn_marker(
        committed=committed, producer_id=producer_id, producer_epoch=epoch, coordinator_epoch=coordinator_epoch, timestamp=timestamp
    )


@dataclass(repr=False)
class LogHarness:
    """A partition's log that a test can crash and restart: `log` is the open log, which `crash` and `restart` replace."""

    directory: Path
    config: LogConfig = field(default_factory=LogConfig)
    files: Files = FILES
    expiration_ms: int = 86_400_000
    verifies: bool = False
    findings: list[Damage] = field(default_factory=list)

    def __repr__(self) -> str:
        return f"LogHarness({self.directory})"

    def __post_init__(self) -> None:
        self.files.make_dir(self.directory)
        self.log = self.open(clean=True)

    def open(self, *, clean: bool, recovery_point: int = 0, log_start: int = 0, now_ms: int = NOW_MS) -> PartitionLog:
        request = OpenRequest(
            directory=self.directory,
            topic="topic",
            partition=0,
            topic_id=TOPIC_ID,
            config=self.config,
            now_ms=now_ms,
            files=self.files,
            open_files=OpenFiles(4),
            rng=random.Random(0),
            clean=clean,
            recovery_point=recovery_point,
            log_start_offset=log_start,
            producer_expiration_ms=self.expiration_ms,
            verifies_transactions=self.verifies,
        )
        self.log, self.findings = open_log(request)
        self.log.advance_high_watermark(self.log.log_end_offset)
        return self.log

    def crash(self, *, now_ms: int = NOW_MS) -> PartitionLog:
        """Open the log again as after SIGKILL, and return it. What was not written to its files is lost."""
        old = self.log
        old.release()
        return self.open(clean=False, recovery_point=old.recovery_point, log_start=old.log_start_offset, now_ms=now_ms)

    def restart(self, *, now_ms: int = NOW_MS) -> PartitionLog:
        """Close the log cleanly, open it again, and return it."""
        old = self.log
        old.close()
        return self.open(clean=True, recovery_point=old.recovery_point, log_start=old.log_start_offset, now_ms=now_ms)

    def append(self, data: bytes, *, origin: Origin = Origin.CLIENT, now_ms: int = NOW_MS, version: int = 0) -> AppendInfo:
        info = self.log.append(data, origin=origin, leader_epoch=0, now_ms=now_ms, transaction_version=version)
        self.log.advance_high_watermark(self.log.log_end_offset)
        return info

    def headers(self) -> list[BatchHeader]:
        """Return the header of every batch from the log's start on, read as a replica reads the log."""
        found: list[BatchHeader] = []
        offset = self.log.log_start_offset
        while offset < self.log.log_end_offset:
            records = self.log.read(offset, 1 << 20, isolation=Isolation.LOG_END, min_one_batch=True).records
            part = [h for _, h in split_batches(records)]
            assert part, f"nothing to read at {offset} of {self.log}"
            found += part
            offset = part[-1].next_offset
        return found

    def file(self, suffix: str, base: int = 0) -> Path:
        return self.directory / f"{base:020d}{suffix}"


def run_due_deletions(owner: PartitionLog | LogDir, now_ms: int) -> None:
    """Remove the segment files that are marked for deletion, as the background task does."""
    for remove in owner.due_deletions(now_ms):
        remove()


def producers(log: PartitionLog) -> dict[int, tuple[int, int, int, int, int]]:
    """Return, by producer id, the state that a reload must restore: epoch, last sequence, last offset, coordinator epoch, transaction
    start."""
    return {
        e.producer_id: (e.producer_epoch, e.last_sequence, e.last_offset, e.coordinator_epoch, e.current_txn_first_offset)
        for e in log.producers()
    }


def windows(log: PartitionLog) -> dict[int, Sequence[tuple[int, int]]]:
    """Return the (first, last) sequences of the batches in each producer's deduplication window (the last five), including those that are
    found only in the log, by producer id."""
    for entry in log.producers():
        if entry.older_in_log and entry.batches:
            recall_window(entry, log.segments)
    return {e.producer_id: [(b.first_sequence, b.last_sequence) for b in e.batches] for e in log.producers()}
