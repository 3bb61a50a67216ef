"""A node's copy of the cluster's metadata log, with snapshots of its beginning (Kafka's KafkaRaftLog).

Invariants:
- The log begins at 0, or there is a snapshot of everything before its beginning.
- A snapshot that reaches beyond the log replaces it: the log is then empty and begins where the snapshot ends.
- Only snapshots shorten the log at its beginning (KAFKA-14238).
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import partial
from itertools import pairwise
from typing import Final, NamedTuple

from ottla.broker.cluster.snapshots import SnapshotId
from ottla.broker.core.log_config import LogConfig
from ottla.broker.storage.errors import LogDirRefused
from ottla.broker.storage.log_values import Isolation
from ottla.broker.storage.partition_log import Origin, PartitionLog
from ottla.broker.storage.snapshot_files import SnapshotFiles
from ottla.protocol.schema import Buffer

METADATA_LOG_CONFIG: Final = LogConfig(retention_ms=-1, retention_bytes=-1, max_message_bytes=2**31 - 1)
"""The configuration of the metadata log. Retention removes nothing by itself, because only snapshots shorten this log; a batch may have any
size."""

_READ_BYTES: Final = 64 << 10
_NO_EPOCH: Final = -1


class MetadataRetention(NamedTuple):
    """metadata.max.retention.bytes and metadata.max.retention.ms, for the log and its snapshots. A negative value means no limit."""

    max_bytes: int = 100 << 20
    max_ms: int = 7 * 86_400_000


class RaftLog:
    """The metadata log with its snapshots. Only this object writes `log`. The constructor raises `LogDirRefused` if the log begins after
    offset 0 and no snapshot has the records before that, and OSError."""

    def __init__(self, log: PartitionLog, retention: MetadataRetention | None = None, *, now_ms: int) -> None:
        self.log = log
        self.snapshots = SnapshotFiles(log.files, log.directory)
        self._retention = retention or MetadataRetention()
        self.snapshots.load(log.log_start_offset)
        newest = self.snapshots.newest
        if log.log_start_offset > 0 and (newest is None or newest.end_offset < log.log_start_offset):
            raise LogDirRefused(f"{log.directory} begins at offset {log.log_start_offset} and has no snapshot of the records before")
        self.restart_at_newest_snapshot(now_ms)
        if newest is not None:  # a snapshot has only committed records
            log.advance_high_watermark(min(newest.end_offset, log.log_end_offset))

    @property
    def start_offset(self) -> int:
        return self.log.log_start_offset

    @property
    def end_offset(self) -> int:
        return self.log.log_end_offset

    @property
    def high_watermark(self) -> int:
        return self.log.high_watermark

    @property
    def last_epoch(self) -> int:
        """The epoch of the last record, which is in the log or in the newest snapshot; 0 if there is no record."""
        newest = self.snapshots.newest
        if self.log.epochs.latest == _NO_EPOCH and newest is not None and newest.end_offset == self.end_offset:
            return newest.epoch
        return max(self.log.epochs.latest, 0)

    def end_offset_for_epoch(self, epoch: int) -> tuple[int, int]:
        """Return (the greatest known epoch <= `epoch`, the offset at which that epoch ends). If the log knows no such epoch, return (the
        last epoch, the log's end)."""
        known, end = self.log.end_offset_for_epoch(epoch)
        return (known, end) if known != _NO_EPOCH else (self.last_epoch, self.end_offset)

    def has_snapshot(self, snapshot: SnapshotId) -> bool:
        return snapshot in self.snapshots.ids

    # --- append and truncate -----------------------------------------------------------------------------------------------------

    def append(self, records: Buffer, epoch_max: int, now_ms: int) -> None:
        """Append the complete batches in `records` unchanged, up to the first with an epoch greater than `epoch_max`.

        An incomplete batch at the end is skipped. Raises RecordsError for an invalid batch, `Rejected` with CORRUPT_MESSAGE for a batch
        that begins below the log's end, and `Rejected` with KAFKA_STORAGE_ERROR for a disk error.
        """
        if records:
            self.log.append(records, origin=Origin.REPLICATION, leader_epoch=epoch_max, now_ms=now_ms)

    def truncate_to(self, offset: int, now_ms: int) -> None:
        """Remove the records of the metadata log from `offset` on. Raises OSError."""
        assert offset >= self.high_watermark, "committed records are never truncated"
        self.log.truncate_to(offset, now_ms)

    def restart_at_newest_snapshot(self, now_ms: int) -> bool:
        """If the log ends before its newest snapshot, empty it, restart it at the snapshot's end and return True; otherwise return False.
        Raises OSError."""
        newest = self.snapshots.newest
        if newest is None or (newest.epoch, newest.end_offset) <= (self.last_epoch, self.end_offset):
            return False
        self.log.restart_at(newest.end_offset, now_ms)
        self.snapshots.forget_before(newest.end_offset, now_ms)
        return True

    # --- reading -----------------------------------------------------------------------------------------------------------------

    def committed(self, offset: int) -> bytes:
        """Return complete batches of the metadata log below the high watermark, from `offset` on; empty if there are none. Raises
        Rejected(OFFSET_OUT_OF_RANGE) if the log begins after `offset`, or if it cannot be read (KAFKA_STORAGE_ERROR, CORRUPT_MESSAGE)."""
        if offset >= self.high_watermark:
            return b""
        return self.log.read(offset, _READ_BYTES, isolation=Isolation.READ_UNCOMMITTED, min_one_batch=True).records

    # --- retention ---------------------------------------------------------------------------------------------------------------

    def clean(self, now_ms: int) -> bool:
        """Apply retention: remove the oldest snapshots, and the records before the first remaining one. Return whether anything was
        removed.

        The newest snapshot is always kept (KafkaRaftLog.maybeClean). Raises `Rejected` or OSError for a disk error, and ProtocolError for a
        corrupt snapshot.
        """
        return self._clean_by_size(now_ms) | self._clean_by_time(now_ms)

    def _clean_by_size(self, now_ms: int) -> bool:
        sizes = {snapshot: self.snapshots.size_bytes(snapshot) for snapshot in self.snapshots.ids}

        def exceeds(snapshot: SnapshotId) -> bool:
            if self.log.size_bytes + sum(sizes.values()) <= self._retention.max_bytes:
                return False
            del sizes[snapshot]
            return True

        return self._retention.max_bytes >= 0 and self._clean_while(exceeds, now_ms)

    def _clean_by_time(self, now_ms: int) -> bool:
        def is_old(snapshot: SnapshotId) -> bool:
            return now_ms - self.snapshots.append_time_ms(snapshot) > self._retention.max_ms

        return self._retention.max_ms >= 0 and self._clean_while(is_old, now_ms)

    def _clean_while(self, goes: Callable[[SnapshotId], bool], now_ms: int) -> bool:
        cleaned = False
        for snapshot, following in pairwise(list(self.snapshots.ids)):
            if not goes(snapshot) or not self._start_at(following, now_ms):
                break
            cleaned = True
        return cleaned

    def _start_at(self, snapshot: SnapshotId, now_ms: int) -> bool:
        """Move the log start to the snapshot's end, and remove earlier snapshots. Return whether anything was removed. Do nothing if the
        snapshot's end is not after the log start, or is above the high watermark (KafkaRaftLog.deleteBeforeSnapshot)."""
        if not self.start_offset < snapshot.end_offset <= self.high_watermark:
            return False
        self.log.delete_records_before(snapshot.end_offset)
        removed = self.log.apply_retention(now_ms)
        return self.snapshots.forget_before(snapshot.end_offset, now_ms) or removed > 0

    def due_deletions(self, now_ms: int) -> Iterator[Callable[[], None]]:
        """Yield functions that each remove one `.deleted` file whose delay is over. Call each once, on any thread. They raise OSError."""
        yield from self.log.due_deletions(now_ms)
        for path in self.snapshots.due_deletions(now_ms):
            yield partial(self.log.files.remove, path)
