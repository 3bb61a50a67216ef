"""One partition's log: appends, the order of their checks, and how far readers see (Kafka's UnifiedLog).

Invariants:
* An append first decides (size, roll, duplicate, producer rules), then writes, then changes memory; a rejected append has written nothing.
* A failed write is truncated at once. If that fails, too, the log is offline (`failure`): later appends and reads are rejected.
* Offsets: log start <= last stable <= high watermark <= log end. `append` never moves the high watermark; the log's owner does.
* The recovery point moves only after a successful sync of everything below it.
* Time and randomness are arguments.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterable, Iterator
from functools import partial
from pathlib import Path
from typing import Final

from ottla.broker.core.rejected import Rejected
from ottla.broker.storage.errors import storage_error
from ottla.broker.storage.flush import FlushTicket
from ottla.broker.storage.leaders_batches import leaders_batches
from ottla.broker.storage.log_parts import LogParts
from ottla.broker.storage.log_reader import LogReader, Search, finish
from ottla.broker.storage.log_values import (
    EARLIEST,
    EARLIEST_LOCAL,
    LATEST,
    NOT_FOUND,
    AppendInfo,
    Isolation,
    ReadResult,
    TimestampOffset,
)
from ottla.broker.storage.partition_metadata import FILE_NAME as PARTITION_METADATA
from ottla.broker.storage.producer_replay import find_duplicate, load_snapshot, replay
from ottla.broker.storage.producer_state import BatchMetadata, CompletedTxn, Origin, ProducerStateEntry
from ottla.broker.storage.retention import deletable
from ottla.broker.storage.segment import Segment
from ottla.broker.storage.txn_guard import VerificationGuard
from ottla.broker.storage.txn_index import AbortedTxn
from ottla.protocol.error_codes import ErrorCode
from ottla.protocol.records.batch import (
    CONTROL,
    LOG_APPEND_TIME,
    LOG_OVERHEAD,
    STAMPED_BYTES,
    TRANSACTIONAL,
    BatchHeader,
    read_header,
    stamped_head,
)
from ottla.protocol.records.control import Marker, parse_marker
from ottla.protocol.records.errors import RecordsError
from ottla.protocol.wire import Buffer

__all__ = ["AppendInfo", "Isolation", "Origin", "PartitionLog", "ReadResult", "TimestampOffset"]

SNAPSHOT_EVERY_BYTES: Final = 32 << 20
"""After this many bytes of appends, a flush also saves a producer snapshot. A restart then replays at most this much and the unflushed
data."""


class PartitionLog:
    """A partition's log: its segments, producer state and leader epochs. `recovery.open_log` or `new_log` makes it."""

    def __init__(self, parts: LogParts) -> None:
        self.topic = parts.topic
        self.partition = parts.partition
        self.topic_id = parts.topic_id
        self.directory = parts.directory
        self.config = parts.config
        self.log_start_offset = parts.log_start_offset
        self.high_watermark = parts.log_start_offset
        self.log_end_offset = parts.log_end_offset
        self.recovery_point = parts.recovery_point
        self.leader_epoch = max(parts.epochs.latest, 0)
        self.producer_expiration_ms = parts.producer_expiration_ms
        self.verifies_transactions = parts.verifies_transactions
        self.failure: OSError | None = None
        self.segments = parts.segments
        self.producer_state = parts.producers
        self.snapshots = parts.snapshots
        self.epochs = parts.epochs
        self.files = parts.files
        self.open_files = parts.open_files
        self._rng = parts.rng
        self._reader = LogReader(parts.segments)
        self.files_to_delete, self._with_files_to_delete = list[tuple[int, Path]](), parts.with_files_to_delete
        self.generation, self._on_truncation = 0, parts.on_truncation
        self._names_synced = False
        self._unsaved_producer_bytes = 0
        self._flush_snapshot: int | None = None
        self.on_change: Callable[[], object] = lambda: None
        """Called when the log start offset increases, the log is truncated, or it goes offline; not for appends and high watermarks."""

    def __repr__(self) -> str:
        return f"<log {self.topic}-{self.partition} [{self.log_start_offset}, {self.log_end_offset})>"

    # --- offsets ---------------------------------------------------------------------------------------------------------------

    @property
    def last_stable_offset(self) -> int:
        """The last stable offset: below it every transaction was committed or aborted. READ_COMMITTED consumers read up to it."""
        unstable = self.producer_state.first_unstable_offset
        if unstable is None or unstable >= self.high_watermark:
            return self.high_watermark
        return max(unstable, self.log_start_offset)

    @property
    def size_bytes(self) -> int:
        return self.segments.size_bytes

    def advance_high_watermark(self, offset: int) -> None:
        """Advance the high watermark to `offset`, below which every in-sync replica has the records. A lower `offset` changes nothing."""
        assert offset <= self.log_end_offset
        if offset > self.high_watermark:
            self.high_watermark = offset
            self.producer_state.on_high_watermark_updated(offset)

    def update_high_watermark(self, high_watermark: int) -> None:
        """Set a follower's high watermark to its leader's, which may be lower than the present one."""
        assert self.log_start_offset <= high_watermark <= self.log_end_offset
        self.high_watermark = high_watermark
        self.producer_state.on_high_watermark_updated(high_watermark)

    def become_leader(self, epoch: int) -> None:
        """Begin leader epoch `epoch` at the log's end; later appends belong to it. Raises Rejected(KAFKA_STORAGE_ERROR) for a disk
        error."""
        self._check_online()
        self._begin_epoch(epoch, self.log_end_offset)
        self.leader_epoch = epoch

    def _begin_epoch(self, epoch: int, offset: int) -> None:
        try:
            self.epochs.assign(epoch, offset)
        except OSError as e:
            raise storage_error("cannot record the leader epoch", e) from e

    def fail(self, error: OSError) -> None:
        """Take the log offline: every later append and read raises `Rejected` (KAFKA_STORAGE_ERROR) with `error` as its reason."""
        self.failure = error
        self.on_change()

    def _check_online(self) -> None:
        if self.failure is not None:
            raise storage_error(f"{self.topic}-{self.partition} is offline", self.failure)

    # --- append ----------------------------------------------------------------------------------------------------------------

    def append(
        self,
        batch: Buffer,
        *,
        origin: Origin,
        leader_epoch: int,
        now_ms: int,
        transaction_version: int = 0,
        guard: VerificationGuard | None = None,
    ) -> AppendInfo:
        """Append one batch that `batch_check` has validated, unless it is a duplicate. Raises `Rejected`; then nothing was written.

        The batch's base offset and leader epoch are replaced. With origin REPLICATION, `batch` may have several batches. They are written
        unchanged up to the first whose epoch is greater than `leader_epoch`; batches before a corrupt one stay written. For a marker,
        `transaction_version` is its transaction's. A transaction's first batch needs a `guard` of `ProducerState.start_verification`.
        """
        if origin is Origin.REPLICATION:
            return self._append_replicated(batch, leader_epoch, now_ms)
        header = read_header(batch)
        if header.size_bytes != len(batch) or header.last_offset_delta < 0:
            raise Rejected(ErrorCode.CORRUPT_MESSAGE, f"{len(batch)} bytes are not one batch")
        try:
            marker = parse_marker(batch) if header.attributes & CONTROL and header.producer_id >= 0 else None
        except RecordsError as e:
            raise Rejected(ErrorCode.INVALID_RECORD, str(e)) from e
        rest = (memoryview(batch)[STAMPED_BYTES:],)
        return self.append_parsed(
            header, rest, marker, guard, origin=origin, leader_epoch=leader_epoch, now_ms=now_ms, transaction_version=transaction_version
        )

    def append_parsed(
        self,
        header: BatchHeader,
        bytes_from_magic: tuple[Buffer, ...],
        marker: Marker | None = None,
        guard: VerificationGuard | None = None,
        *,
        origin: Origin,
        leader_epoch: int,
        now_ms: int,
        transaction_version: int = 0,
    ) -> AppendInfo:
        """Append one batch by the rules of `append`, with the same errors. Its header and, for a control batch, its `marker` are parsed
        already. `bytes_from_magic` are the batch's bytes from the magic byte on, in one or more buffers."""
        if self.failure is not None:
            self._check_online()
        size = header.batch_length + LOG_OVERHEAD
        base_offset = self.log_end_offset
        last_offset = base_offset + header.last_offset_delta
        self._maybe_roll(size, header.max_timestamp, last_offset, now_ms)
        if header.producer_id >= 0:
            if header.attributes & CONTROL:
                marker = self._checked_marker(header, marker, transaction_version)
            elif not self.producer_state.is_next_non_transactional(header):
                if origin is Origin.CLIENT and not self.producer_state.follows_last_batch(header):
                    known = self._find_duplicate(header)
                    if known is not None:
                        return AppendInfo(known.first_offset, known.last_offset, known.timestamp, self.log_start_offset, True)
                if header.attributes & TRANSACTIONAL and self.verifies_transactions:
                    self.producer_state.check_verified(header, guard)
                self.producer_state.check_batch(header, origin)
        if leader_epoch > self.epochs.latest:
            self.become_leader(leader_epoch)
        head = stamped_head(base_offset, header.batch_length, leader_epoch)
        self._write((head, *bytes_from_magic), size, last_offset, header.max_timestamp)
        self._written(header, base_offset, size, marker)
        append_time_ms = header.max_timestamp if header.attributes & LOG_APPEND_TIME else -1
        return AppendInfo(base_offset, last_offset, append_time_ms, self.log_start_offset)

    def _find_duplicate(self, header: BatchHeader) -> BatchMetadata | None:
        try:
            return find_duplicate(self.producer_state, self.segments, header)
        except OSError as e:
            raise storage_error("cannot read the producer's earlier batches", e) from e

    def _maybe_roll(self, size: int, max_timestamp: int, last_offset: int, now_ms: int) -> None:
        config = self.config
        if size > config.segment_bytes:
            raise Rejected(ErrorCode.RECORD_LIST_TOO_LARGE, f"{size} bytes do not fit into a segment of {config.segment_bytes}")
        active = self.segments.active
        try:
            full = active.should_roll(config, size, max_timestamp, last_offset, now_ms)
        except (OSError, RecordsError) as e:
            raise storage_error(f"cannot read {active.path}", e) from e
        if full:
            self.roll(now_ms)

    def _checked_marker(self, header: BatchHeader, marker: Marker | None, transaction_version: int) -> Marker | None:
        if marker is None or not marker.ends_transaction:
            return None
        self.producer_state.check_marker(header, marker, transaction_version)
        try:
            self.segments.active.txn_index.load()  # now: once the marker is written, adding its entry must not fail
        except (OSError, ValueError) as e:
            raise storage_error(f"cannot read {self.segments.active.txn_index.path}", e) from e
        return marker

    def _write(self, buffers: tuple[Buffer, ...], size: int, last_offset: int, max_timestamp: int) -> None:
        active = self.segments.active
        try:
            active.append(buffers, size, last_offset, max_timestamp, self.config.index_interval_bytes)
        except OSError as e:
            try:
                active.truncate_failed_write()
            except OSError as worse:
                self.fail(worse)
            raise storage_error(f"cannot append to {active.path}", e) from e

    def _written(self, header: BatchHeader, base_offset: int, size: int, marker: Marker | None) -> None:
        """Update the log end offset and the producer state in memory after a batch was written."""
        last_offset = base_offset + header.last_offset_delta
        self.log_end_offset = self.producer_state.end_offset = last_offset + 1
        if header.producer_id >= 0:
            if marker is not None:
                completed = self.producer_state.apply_marker(header, marker, last_offset)
                if completed is not None and completed.aborted:
                    self._note_aborted(completed)
            elif not header.attributes & CONTROL:
                self.producer_state.apply_batch(header, base_offset)
        self._unsaved_producer_bytes += size

    def _note_aborted(self, txn: CompletedTxn) -> None:
        stable = self.producer_state.last_stable_offset_after(txn)
        index = self.segments.active.txn_index
        if not len(index):
            self._names_synced = False  # the transaction index's file will be created
        index.append(AbortedTxn(txn.producer_id, txn.first_offset, txn.last_offset, stable))

    def _append_replicated(self, data: Buffer, leader_epoch: int, now_ms: int) -> AppendInfo:
        """Append the leader's batches unchanged. Raise `Rejected` at a corrupt batch or one below the log end; those before it stay
        written."""
        self._check_online()
        first = last = -1
        for header, batch, marker in leaders_batches(data, leader_epoch):
            if header.base_offset < self.log_end_offset:
                self._restart_at_first_batch(header, now_ms)
            self._maybe_roll(len(batch), header.max_timestamp, header.last_offset, now_ms)
            if header.partition_leader_epoch > self.epochs.latest:
                self._begin_epoch(header.partition_leader_epoch, header.base_offset)
            self._write((batch,), len(batch), header.last_offset, header.max_timestamp)
            self._written(header, header.base_offset, len(batch), marker)
            first = header.base_offset if first < 0 else first
            last = header.last_offset
        return AppendInfo(first, last, -1, self.log_start_offset)

    def _restart_at_first_batch(self, header: BatchHeader, now_ms: int) -> None:
        """Move the start of a follower's empty log down to the base offset of a batch that contains the log end offset. The leader can send
        such a batch after DeleteRecords. Raises `Rejected`: CORRUPT_MESSAGE if the log has records or the batch lacks that offset."""
        if not self.log_start_offset == self.log_end_offset <= header.last_offset:
            message = f"batch at offset {header.base_offset} where the log ends at {self.log_end_offset}"
            raise Rejected(ErrorCode.CORRUPT_MESSAGE, message)
        try:
            self.restart_at(header.base_offset, now_ms)
        except OSError as e:
            raise storage_error(f"cannot begin at offset {header.base_offset}", e) from e

    def roll(self, now_ms: int) -> None:
        """Close the active segment and start one at the log's end. Raises Rejected(KAFKA_STORAGE_ERROR); then the old one stays active."""
        base_offset = self.log_end_offset
        try:
            self.segments.active.finish()
            if self.snapshots.take(self.producer_state, base_offset, sync=False):
                self._unsaved_producer_bytes = 0
            segment = self._new_segment(base_offset, now_ms)
        except OSError as e:
            raise storage_error("cannot roll the log", e) from e
        self.segments.add(segment)

    def _new_segment(self, base_offset: int, now_ms: int) -> Segment:
        jitter = self._rng.randrange(self.config.segment_jitter_ms) if self.config.segment_jitter_ms > 0 else 0
        segment = Segment(self.files, self.open_files, self.directory, base_offset, size=0, created_ms=now_ms, jitter_ms=jitter, fresh=True)
        try:
            segment.create_files()
        except OSError:
            # The log may continue in the previous segment; a restart would take the base offset of this new file for the log's end.
            try:
                segment.remove()
            except OSError as worse:
                self.fail(worse)
            raise
        self._names_synced = False
        return segment

    # --- read ------------------------------------------------------------------------------------------------------------------

    def visible_end_offset(self, isolation: Isolation) -> int:
        """Return the end offset (exclusive) of the records that a reader with this isolation sees."""
        if isolation is Isolation.READ_UNCOMMITTED:
            return self.high_watermark
        return self.last_stable_offset if isolation is Isolation.READ_COMMITTED else self.log_end_offset

    def read(self, offset: int, max_bytes: int, *, isolation: Isolation, min_one_batch: bool = False) -> ReadResult:
        """Read at most `max_bytes` of one segment, from the batch with `offset` on; with `min_one_batch`, at least that whole batch.

        Raises `Rejected`: OFFSET_OUT_OF_RANGE if `offset` is outside [log start, log end], CORRUPT_MESSAGE or KAFKA_STORAGE_ERROR. The
        result is empty if `offset` is at or above the reader's visible end offset (high watermark or last stable offset).
        """
        if self.failure is not None:
            self._check_online()
        if not self.log_start_offset <= offset <= self.log_end_offset:
            message = f"offset {offset} is outside [{self.log_start_offset}, {self.log_end_offset}]"
            raise Rejected(ErrorCode.OFFSET_OUT_OF_RANGE, message)
        visible_end = self.visible_end_offset(isolation)
        data = None
        aborted: list[tuple[int, int]] = []
        if offset < visible_end:
            try:
                data = self._reader.read(offset, visible_end, self.log_end_offset, max_bytes, min_one_batch=min_one_batch)
                if data is not None and isolation is Isolation.READ_COMMITTED:
                    aborted = self._reader.aborted(offset, data, self.log_end_offset)
            except OSError as e:
                raise storage_error("cannot read the log", e) from e
            except RecordsError as e:
                raise Rejected(ErrorCode.CORRUPT_MESSAGE, str(e)) from e
        records, older, available = (b"", False, 0) if data is None else (data.records, data.on_older_segment, data.available_bytes)
        return ReadResult(records, self.high_watermark, self.last_stable_offset, self.log_start_offset, aborted, older, available)

    def offset_for_timestamp(self, timestamp: int, *, isolation: Isolation = Isolation.READ_UNCOMMITTED) -> TimestampOffset:
        """Return the first record whose timestamp is at least `timestamp` (ms). Negative values have ListOffsets' meaning (-1: latest, …).
        Return `NOT_FOUND` if there is no such record below the reader's visible end offset. Raises `Rejected` if the log cannot be read."""
        return finish(self.search_timestamp(timestamp, isolation))

    def search_timestamp(self, timestamp: int, isolation: Isolation) -> Search[TimestampOffset]:
        """Search like `offset_for_timestamp`, as a generator whose caller can search large batches on a thread (`log_reader.Search`)."""
        self._check_online()
        visible_end = self.visible_end_offset(isolation)
        if timestamp == LATEST:
            return TimestampOffset(-1, visible_end, self.epochs.latest)
        if timestamp in {EARLIEST, EARLIEST_LOCAL}:
            return TimestampOffset(-1, self.log_start_offset, self.epochs.epoch_at(self.log_start_offset))
        try:
            found = yield from self._reader.search(timestamp, self.log_start_offset, self._check_online)
        except OSError as e:
            raise storage_error("cannot read the log", e) from e
        except RecordsError as e:
            raise Rejected(ErrorCode.CORRUPT_MESSAGE, str(e)) from e
        return found if found is not None and found.offset < visible_end else NOT_FOUND

    def end_offset_for_epoch(self, epoch: int) -> tuple[int, int]:
        """Return (the greatest known epoch <= `epoch`, its end offset), or (-1, -1) if unknown (OffsetForLeaderEpoch)."""
        return self.epochs.end_offset_for(epoch, self.log_end_offset)

    def producers(self) -> Iterable[ProducerStateEntry]:
        """Return the state of every producer that the partition knows (DescribeProducers)."""
        return self.producer_state

    def expire_producers(self, now_ms: int) -> int:
        """Remove producers that were inactive for producer.id.expiration.ms. Return the number of removed producers."""
        return self.producer_state.expire(now_ms, self.producer_expiration_ms)

    # --- flush -----------------------------------------------------------------------------------------------------------------

    def flush(self) -> None:
        """Write everything in the log to disk (fsync) before returning. Raises `FsyncFailed`."""
        (ticket := self.flush_begin()).sync()
        self.flush_end(ticket)

    def flush_begin(self) -> FlushTicket:
        """Begin a flush: write the indexes and return a ticket with duplicated file descriptors. The caller runs the ticket's `sync` on any
        thread and then passes the ticket to `flush_end`. Raises `OSError`."""
        if not self.segments.active.is_on_disk:
            return FlushTicket(self.files, offset=self.log_end_offset, generation=self.generation, fds=[])
        self._snapshot_for_flush()
        moves = self.log_end_offset
        fds, paths = list[int](), list[Path]()
        for segment in self.segments.from_offset(self.recovery_point - 1):  # a roll at the recovery point added to a synced segment's index
            try:
                segment.save_indexes()
            except OSError:  # the data is synced anyway; the recovery point stays, and a restart rebuilds the indexes
                moves = self.recovery_point
            try:
                fds.append(self.files.dup(segment.fd))
            except OSError:
                FlushTicket(self.files, offset=moves, generation=self.generation, fds=fds).close()
                raise
            paths += [p for p in segment.paths()[1:] if self.files.exists(p)]
        paths += map(self.snapshots.path, sorted(self.snapshots.unsynced))
        self.snapshots.unsynced.clear()
        if not self.epochs.synced:
            paths.append(self.epochs.path)
            self.epochs.synced, self._names_synced = True, False  # the file was replaced by a rename
        if not self._names_synced:
            paths.append(self.directory / PARTITION_METADATA)
        directory = None if self._names_synced else self.directory
        self._names_synced = moves == self.log_end_offset  # else an index file may be created only next time
        return FlushTicket(self.files, offset=moves, generation=self.generation, fds=fds, paths=paths, directory=directory)

    def flush_end(self, ticket: FlushTicket) -> None:
        """Advance the recovery point after the ticket's successful sync, unless the log was truncated meanwhile."""
        if ticket.generation == self.generation:
            self.recovery_point = max(self.recovery_point, ticket.offset)

    def _snapshot_for_flush(self) -> None:
        if self._unsaved_producer_bytes < SNAPSHOT_EVERY_BYTES:
            return
        with contextlib.suppress(OSError):  # only makes a restart slower
            if self.snapshots.take(self.producer_state, self.log_end_offset, sync=False):
                self._unsaved_producer_bytes = 0
                if self._flush_snapshot is not None and self._flush_snapshot not in self.segments.base_offsets:
                    self.snapshots.remove(self._flush_snapshot)
                self._flush_snapshot = self.log_end_offset

    # --- the log's beginning -----------------------------------------------------------------------------------------------------

    def delete_records_before(self, offset: int) -> int:
        """Raise the log start to `offset` (-1: the high watermark) if it is lower, and return the log start (DeleteRecords). Raises
        `Rejected`: OFFSET_OUT_OF_RANGE above the high watermark, or KAFKA_STORAGE_ERROR."""
        self._check_online()
        target = self.high_watermark if offset == -1 else offset
        if not 0 <= target <= self.high_watermark:
            raise Rejected(ErrorCode.OFFSET_OUT_OF_RANGE, f"offset {offset} is outside [0, {self.high_watermark}]")
        try:
            self._maybe_increment_log_start_offset(target)
        except OSError as e:
            raise storage_error("cannot record the new log start", e) from e
        return self.log_start_offset

    def _maybe_increment_log_start_offset(self, offset: int) -> None:
        if offset > self.log_start_offset:
            self.log_start_offset = offset
            self.on_change()
            self.producer_state.on_log_start_offset_incremented(offset)
            self.epochs.truncate_from_start(offset)

    def apply_retention(self, now_ms: int) -> int:
        """Remove the segments that retention does not keep. Return their size in bytes. Their files are removed after file.delete.delay.ms.
        Raises Rejected(KAFKA_STORAGE_ERROR) for a disk error."""
        self._check_online()
        try:
            taken = deletable(
                list(self.segments),
                config=self.config,
                log_start_offset=self.log_start_offset,
                high_watermark=self.high_watermark,
                log_end_offset=self.log_end_offset,
                now_ms=now_ms,
            )
            if taken and len(taken) == len(self.segments):
                try:
                    self.roll(now_ms)
                except Rejected:  # a full disk has no room for a new segment, but removing the others makes some
                    del taken[-1]
                    if not taken:
                        raise
            for segment in taken:
                self.segments.replace([segment], [])
                self.delete_segment_files(segment, now_ms)
            self._maybe_increment_log_start_offset(self.segments.first.base_offset)
        except OSError as e:
            raise storage_error("cannot delete segments", e) from e
        if taken:
            self._reader.forget_positions()
        return sum(s.size for s in taken)

    def delete_segment_files(self, segment: Segment, now_ms: int, *, with_snapshot: bool = True) -> None:
        """Rename a removed segment's files, and with `with_snapshot` the producer snapshot at its base offset, to `.deleted`; they are
        removed after file.delete.delay.ms. Raises `OSError`."""
        segment.release()
        snapshot = self.snapshots.forget(segment.base_offset) if with_snapshot else None
        for path in [*segment.paths(), *([snapshot] if snapshot else [])]:
            with contextlib.suppress(FileNotFoundError):  # the transaction index is optional
                gone = path.with_name(path.name + ".deleted")
                self.files.rename(path, gone)
                self.files_to_delete.append((now_ms + self.config.file_delete_delay_ms, gone))
                self._with_files_to_delete.add((self.topic, self.partition))

    def due_deletions(self, now_ms: int) -> Iterator[Callable[[], None]]:
        """Yield functions that each remove one `.deleted` file whose delay is over. Call each once, on any thread.

        The delay is also over if the clock was set back. The functions raise `OSError`; the next start removes such a file.
        """
        while self.files_to_delete and not 0 < self.files_to_delete[0][0] - now_ms <= self.config.file_delete_delay_ms:
            yield partial(self.files.remove, self.files_to_delete.pop(0)[1])

    # --- the log's end -----------------------------------------------------------------------------------------------------------

    def truncate_to(self, offset: int, now_ms: int) -> None:
        """Remove the batch that contains `offset` and all later ones, and restore the producer state at the new end. Raises `OSError`."""
        if offset >= self.log_end_offset:
            self.epochs.truncate_from_end(self.log_end_offset)  # an epoch without records may be another leader's (KAFKA-10706)
            return
        if offset <= self.log_start_offset and offset < self.segments.first.base_offset:
            self.restart_at(offset, now_ms)
            return
        kept, *gone = self.segments.from_offset(offset)
        found = kept.find(offset)
        end = offset if found is None else min(offset, found[1].base_offset)  # compaction may have removed the batch with `offset`
        for segment in reversed(gone):  # the newest first, and before the cut, so that a kill in between leaves no gap
            segment.remove()
        if found is not None:
            kept.truncate_at(found[0], end)
        self._apply_truncation(gone, end)

    def restart_at(self, offset: int, now_ms: int) -> None:
        """Remove all records: the log is then empty and starts at `offset` (UnifiedLog.truncateFullyAndStartAt). Raises `OSError`."""
        old = list(self.segments)
        _ = old[-1].fd  # creates the directory of a log that is only in memory
        for segment in old:
            segment.remove()
        self.segments.replace(old, [self._new_segment(offset, now_ms)])
        self.log_start_offset = self.recovery_point = self.high_watermark = offset
        self.epochs.clear()
        self.snapshots.remove_above(-1)
        self._apply_truncation([], offset)

    def _apply_truncation(self, gone: list[Segment], end: int) -> None:
        """Update the state in memory for the log end `end`. The files are truncated already, and those of the segments `gone` removed."""
        self.generation += 1
        self.on_change()
        if gone:
            self._names_synced = False
            self.segments.replace(gone, [])
        self._on_truncation((self.topic, self.partition), self.segments.active.base_offset)
        self._reader.forget_positions()
        self.log_end_offset, self.log_start_offset = end, min(self.log_start_offset, end)
        self.epochs.truncate_from_end(end)
        self.high_watermark, self.recovery_point = min(self.high_watermark, end), min(self.recovery_point, end)
        self.snapshots.remove_above(end)
        load_snapshot(self.producer_state, self.snapshots, start=self.segments.first.base_offset, end=end)
        replay(self.producer_state, self.segments, end)
        self.producer_state.on_high_watermark_updated(self.high_watermark)

    # --- close -------------------------------------------------------------------------------------------------------------------

    def close(self) -> None:
        """Close the log cleanly: save and sync everything, including the producers' state. Raises `OSError`, including `FsyncFailed`."""
        if (ticket := self.close_begin()) is not None:
            ticket.sync()
            self.flush_end(ticket)
        self.release()

    def close_begin(self) -> FlushTicket | None:
        """Begin a clean close, which `release` ends. Return a ticket to sync; None if there is nothing to sync or the log is offline.
        Raises OSError."""
        if self.failure is not None or not self.segments.active.is_on_disk:
            return None
        self.segments.active.finish()
        self.snapshots.take(self.producer_state, self.log_end_offset, sync=False)
        if self.recovery_point < self.log_end_offset or not self._names_synced or self.snapshots.unsynced:
            return self.flush_begin()
        return None

    def release(self) -> None:
        """Close all file descriptors of the log without saving anything."""
        for segment in self.segments:
            segment.release()

    def segments_replaced(self) -> None:
        """Clear the cached byte positions. The log cleaner calls this after it has replaced segments."""
        self._reader.forget_positions()
