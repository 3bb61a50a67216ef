"""Opens a partition's directory as a `PartitionLog`: completes or undoes interrupted file replacements and truncates incomplete writes
(Kafka's LogLoader).

Invariants:
* After a clean shutdown batches and indexes are not verified. After any other shutdown every batch from the recovery point on is verified,
  and the log is truncated at the first invalid batch; later segments are removed, and an empty last one that does not continue the log.
  All removed bytes are reported as `Damage`.
* Damage never prevents the start; only an error of the disk (`OSError`) does.
"""

from __future__ import annotations

import contextlib
import random
import zlib
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

from ottla.broker.core.log_config import LogConfig
from ottla.broker.storage.checkpoint_file import CorruptCheckpoint
from ottla.broker.storage.errors import Damage
from ottla.broker.storage.files import FileEntry, Files
from ottla.broker.storage.leader_epochs import FILE_NAME as EPOCHS_FILE
from ottla.broker.storage.leader_epochs import LeaderEpochs, decode_epochs
from ottla.broker.storage.log_parts import LogParts
from ottla.broker.storage.open_files import OpenFiles
from ottla.broker.storage.partition_log import PartitionLog
from ottla.broker.storage.partition_metadata import FILE_NAME as PARTITION_METADATA
from ottla.broker.storage.partition_metadata import encode_metadata
from ottla.broker.storage.producer_replay import apply, load_snapshot, readable_batches, replay
from ottla.broker.storage.producer_snapshots import ProducerSnapshots
from ottla.broker.storage.producer_state import ProducerState
from ottla.broker.storage.segment import REPLAY_BYTES, Segment
from ottla.broker.storage.segment_list import SegmentList
from ottla.broker.storage.swap import finish_swaps
from ottla.broker.storage.txn_index import AbortedTxn
from ottla.protocol.records.batch import MAGIC_END, BatchHeader, crc_ok
from ottla.protocol.records.errors import CorruptBatch

INDEX_SUFFIXES: Final = (".index", ".timeindex", ".txnindex")


@dataclass(slots=True)
class OpenRequest:
    """The input of `open_log` and `new_log`. `recovery_point` and `log_start_offset` are from the data directory's checkpoint files.
    `clean` is true after a clean shutdown."""

    directory: Path
    topic: str
    partition: int
    topic_id: bytes
    config: LogConfig
    now_ms: int
    files: Files
    open_files: OpenFiles
    rng: random.Random
    clean: bool = True
    recovery_point: int = 0
    log_start_offset: int = 0
    producer_expiration_ms: int = 86_400_000
    verifies_transactions: bool = True
    with_files_to_delete: set[tuple[str, int]] = field(default_factory=set)
    on_truncation: Callable[[tuple[str, int], int], None] = lambda key, active_base_offset: None
    of_cluster_broker: bool = False
    """Whether the node is a broker of a cluster. On such a node, a partition directory without a topic id is a stray: it belongs to no
    topic (Kafka's `LogManager.isStrayReplica`)."""


@dataclass(slots=True)
class _Loading:
    """The components of one partition that recovery has loaded so far, and the damage it has found."""

    request: OpenRequest
    findings: list[Damage] = field(default_factory=list)
    snapshots: ProducerSnapshots = field(init=False)
    producers: ProducerState = field(default_factory=ProducerState)
    epochs: LeaderEpochs = field(init=False)
    epochs_changed: bool = False
    epochs_lost: bool = False

    def found(self, file: Path, reason: str, position: int = -1, dropped: int = 0) -> None:
        self.findings.append(Damage(file, reason, position, dropped))


def open_log(request: OpenRequest) -> tuple[PartitionLog, list[Damage]]:
    """Open the log of one partition and recover it; create its files if it has none. Return the log and the damage that was repaired.
    Raises `OSError`."""
    load = _Loading(request)
    segments, suspect = _load_segments(load)
    load.epochs = _load_epochs(load)
    listed = SegmentList(segments) if segments else SegmentList([_new_segment(load, request.log_start_offset)])
    load.snapshots.remove_strays(listed.base_offsets)
    end = _recover(load, listed, suspect)
    log_start = max(request.log_start_offset, listed.first.base_offset)
    if end < log_start:
        end = _start_over(load, listed, log_start)
    _load_producers(load, listed, end)
    _settle_epochs(load, listed, log_start, end)
    listed.active.release()  # most of thousands of partitions are not used before the next shutdown
    recovery_point = end if request.clean and not load.findings else min(request.recovery_point, end)
    return PartitionLog(_parts(load, listed, log_start, recovery_point, end)), load.findings


def new_log(request: OpenRequest) -> PartitionLog:
    """Return the empty log of a new partition, only in memory: the first write creates its directory, segment and `partition.metadata`.

    Thousands of partitions can therefore be created at once without any disk access. A partition that is in the metadata log and has no
    directory is empty.
    """
    load = _Loading(request)
    load.snapshots = ProducerSnapshots(request.files, request.directory)
    load.epochs = LeaderEpochs(request.files, request.directory, in_memory=True)

    def make_directory() -> None:
        request.files.make_dir(request.directory)
        name, data = request.directory / PARTITION_METADATA, encode_metadata(request.topic_id)
        if request.of_cluster_broker:  # on disk before any record (Kafka's `UnifiedLog.append`)
            request.files.write_atomic(name, data)
        else:  # a standalone node identifies its partitions by name
            request.files.write(name, data, sync=False)
        load.epochs.begin_file()

    segment = Segment(
        request.files,
        request.open_files,
        request.directory,
        0,
        size=0,
        created_ms=request.now_ms,
        fresh=True,
        make_directory=make_directory,
    )
    return PartitionLog(_parts(load, SegmentList([segment]), 0, 0, 0))


def _parts(load: _Loading, segments: SegmentList, log_start: int, recovery_point: int, end: int) -> LogParts:
    request = load.request
    return LogParts(
        topic=request.topic,
        partition=request.partition,
        topic_id=request.topic_id,
        directory=request.directory,
        config=request.config,
        files=request.files,
        open_files=request.open_files,
        segments=segments,
        producers=load.producers,
        snapshots=load.snapshots,
        epochs=load.epochs,
        log_start_offset=log_start,
        recovery_point=recovery_point,
        log_end_offset=end,
        producer_expiration_ms=request.producer_expiration_ms,
        verifies_transactions=request.verifies_transactions,
        rng=request.rng,
        with_files_to_delete=request.with_files_to_delete,
        on_truncation=request.on_truncation,
    )


def _new_segment(load: _Loading, base_offset: int) -> Segment:
    request = load.request
    segment = Segment(request.files, request.open_files, request.directory, base_offset, size=0, created_ms=request.now_ms, fresh=True)
    segment.create_files()
    return segment


def _load_segments(load: _Loading) -> tuple[list[Segment], set[int]]:
    """Return the directory's segments, and the base offsets of those with a missing or invalid index. Recovery verifies these segments from
    their start."""
    request = load.request
    entries = finish_swaps(request.files, request.directory)
    logs = {_base(e): e.size for e in entries if e.name.endswith(".log")}
    indexed = {_base(e) for e in entries if e.name.endswith(".index")}
    for entry in entries:
        if entry.name.endswith(INDEX_SUFFIXES) and _base(entry) not in logs:
            request.files.remove(request.directory / entry.name)
            load.found(request.directory / entry.name, "index without a log file, removed")
    load.snapshots = ProducerSnapshots(request.files, request.directory, [_base(e) for e in entries if e.name.endswith(".snapshot")])
    segments = [
        Segment(request.files, request.open_files, request.directory, base, size=size, created_ms=request.now_ms)
        for base, size in sorted(logs.items())
    ]
    suspect = set(logs) - indexed
    for base in sorted(suspect):
        load.found(request.directory / f"{base:020d}.index", "missing; the segment is verified and its indexes are rebuilt")
    with_aborted = {_base(e) for e in entries if e.name.endswith(".txnindex")}
    for segment in segments:
        if segment.base_offset in with_aborted:
            try:
                segment.txn_index.load()
            except ValueError as e:
                load.found(segment.txn_index.path, f"not usable ({e}); the segment is verified and its indexes are rebuilt")
                suspect.add(segment.base_offset)
            segment.txn_index.release()
    return segments, suspect


def _base(entry: FileEntry) -> int:
    stem = entry.name.partition(".")[0]
    return int(stem) if stem.isdigit() else -1


def _load_epochs(load: _Loading) -> LeaderEpochs:
    request = load.request
    path = request.directory / EPOCHS_FILE
    try:
        data = request.files.read_bytes(path)
        if data:  # empty in Kafka at first, or after a power loss: then the batches have the epochs
            return LeaderEpochs(request.files, request.directory, decode_epochs(data))
    except FileNotFoundError:
        pass
    except CorruptCheckpoint as e:
        load.found(path, f"not usable ({e}); leader epochs are read from the batches")
    load.epochs_lost = True
    return LeaderEpochs(request.files, request.directory)


def _recover(load: _Loading, segments: SegmentList, suspect: set[int]) -> int:
    """Verify the segments in `suspect` and, after an unclean shutdown, those beyond the recovery point. Return the log end offset."""
    request = load.request
    if request.clean:
        try:
            end = segments.active.resume()
        except (CorruptBatch, ValueError) as e:
            load.found(segments.active.path, f"damaged although the last shutdown was clean ({e}); the segment is verified")
            suspect.add(segments.active.base_offset)
        if not suspect:
            return end
    point = request.recovery_point
    todo = [s for s in segments if s.base_offset in suspect or (not request.clean and (segments.next_base(s) or point + 1) > point)]
    return _check_segments(load, segments, todo, suspect)


def _check_segments(load: _Loading, segments: SegmentList, todo: list[Segment], suspect: set[int]) -> int:
    for segment in todo:
        point = 0 if segment.base_offset in suspect else load.request.recovery_point
        end, cut = _check_segment(load, segments, segment, point)
        following = segments.next_base(segment)
        if cut or (following is not None and following < end and not load.request.clean):  # it was truncated, which a power loss undid
            _drop_after(load, segments, segment)
            break
        if segment is not segments.active:
            segment.finish()
    _drop_empty_after_gap(load, segments)
    return segments.active.resume()


def _drop_empty_after_gap(load: _Loading, segments: SegmentList) -> None:
    """Remove the active segment if it is empty and the segment before it ends below its base offset. A power loss can take the unsynced end
    of a segment and keep the name of the one that the log was rolled to. A replica would never fetch the records in such a gap.

    A gap before records proves nothing: compaction makes gaps, but keeps the last offset below the active segment.
    """
    last = segments.active
    if load.request.clean or last.size or len(segments) == 1 or last.base_offset <= load.request.recovery_point:
        return
    if segments[-2].resume() < last.base_offset:
        _drop_after(load, segments, segments[-2])


def _check_segment(load: _Loading, segments: SegmentList, segment: Segment, recovery_point: int) -> tuple[int, bool]:
    """Verify a segment's batches from offset `recovery_point` on, and rebuild its indexes from there. Return its end offset, and whether it
    was truncated."""
    good = segment.trust_indexes_below(recovery_point) if recovery_point > segment.base_offset else segment.distrust_indexes()
    start = end = segment.header_at(good).base_offset if good else segment.base_offset
    interval = load.request.config.index_interval_bytes
    transactions = cut = False
    try:
        for position, header, data in segment.whole_batches(good):
            if header.base_offset < end:
                raise CorruptBatch(f"offset {header.base_offset} follows {end - 1}")
            if not _checksum_ok(data, header):
                raise CorruptBatch(f"the batch at offset {header.base_offset} has a wrong checksum")
            segment.note_recovered(position, header, interval)
            _note_epoch(load, header)
            transactions |= header.is_control
            end = header.next_offset
            good = position + header.size_bytes
    except CorruptBatch as e:
        load.found(segment.path, f"{e}; the log is truncated there", good, segment.size - good)
        segment.truncate_at(good, end)
        cut = True
    if transactions:
        _rebuild_txn_index(load, segments, segment, start)
    return end, cut


def _checksum_ok(data: memoryview, header: BatchHeader) -> bool:
    return crc_ok(data, header) if header.magic == 2 else zlib.crc32(data[MAGIC_END - 1 :]) == header.crc


def _note_epoch(load: _Loading, header: BatchHeader) -> None:
    if header.partition_leader_epoch > load.epochs.latest:
        load.epochs.note(header.partition_leader_epoch, header.base_offset)
        load.epochs_changed = True


def _rebuild_txn_index(load: _Loading, segments: SegmentList, segment: Segment, start: int) -> None:
    """Rebuild the segment's transaction index from offset `start` on, with the producer state restored for that offset."""
    state = ProducerState()
    load.findings += load_snapshot(state, load.snapshots, start=segments.first.base_offset, end=start)
    replay(state, segments, start)
    for position, header in segment.batches(segment.offset_index.lookup(start), chunk=REPLAY_BYTES):
        if header.base_offset >= start:
            completed = apply(state, segment, position, header)
            if completed is not None and completed.aborted:
                stable = state.last_stable_offset_after(completed)
                segment.txn_index.append(AbortedTxn(completed.producer_id, completed.first_offset, completed.last_offset, stable))


def _drop_after(load: _Loading, segments: SegmentList, last: Segment) -> None:
    """Remove all segments after `last`, which was truncated or lost its end: a log continues without gaps from segment to segment."""
    gone = [s for s in segments if s.base_offset > last.base_offset]
    for segment in gone:
        _remove(load, segment)
        load.found(segment.path, "does not continue the segment before it; removed", 0, segment.size)
    if gone:
        segments.replace(gone, [])


def _remove(load: _Loading, segment: Segment) -> None:
    segment.release()
    for path in segment.paths():
        load.request.files.remove(path)


def _start_over(load: _Loading, segments: SegmentList, log_start: int) -> int:
    """Replace a log that ends below `log_start`, and so has no visible record, by an empty log at `log_start`; return its end offset
    (LogLoader.recoverLog)."""
    old = list(segments)
    for segment in old:
        load.found(segment.path, f"ends before the log's start {log_start}; removed", 0, segment.size)
        _remove(load, segment)
    segments.replace(old, [_new_segment(load, log_start)])
    return log_start


def _load_producers(load: _Loading, segments: SegmentList, end: int) -> None:
    load.snapshots.remove_above(end)
    load.findings += load_snapshot(load.producers, load.snapshots, start=segments.first.base_offset, end=end)
    if load.producers.end_offset < end:
        replay(load.producers, segments, end)
        with contextlib.suppress(OSError):  # only makes the next start slower
            load.snapshots.take(load.producers, end, sync=False)


def _settle_epochs(load: _Loading, segments: SegmentList, log_start: int, end: int) -> None:
    if load.epochs_lost:
        # Start anew: epochs of the verified segments would otherwise precede those of the other segments.
        load.epochs = LeaderEpochs(load.request.files, load.request.directory)
        for segment in segments:
            for _, header in readable_batches(segment):
                _note_epoch(load, header)
    if load.epochs_changed or load.epochs_lost:
        load.epochs.save()
    load.epochs.truncate_from_end(end)
    load.epochs.truncate_from_start(log_start)
