"""Restores producer state from files: the newest valid snapshot, then the batches after it (Kafka's UnifiedLog.rebuildProducerState).

A snapshot, Ottla's or Kafka's, has only a producer's newest batch. The other batches of its deduplication window (five batches) are read
from the log when the producer first sends an older batch again, so that a start costs nothing for producers that do not retry.

Deviation from Kafka, on the safe side: a log without any snapshot is replayed from its start even after a clean shutdown, where Kafka
assumes that there were no producers. A lost snapshot then costs a scan of headers, and no duplicates.
"""

from __future__ import annotations

import logging
from collections import deque
from collections.abc import Iterator
from itertools import islice
from typing import Final

from ottla.broker.storage.errors import Damage
from ottla.broker.storage.producer_snapshots import CorruptSnapshot, ProducerSnapshots
from ottla.broker.storage.producer_state import BatchMetadata, CompletedTxn, ProducerState, ProducerStateEntry
from ottla.broker.storage.segment import REPLAY_BYTES, Segment
from ottla.broker.storage.segment_list import SegmentList
from ottla.protocol.records.batch import BatchHeader
from ottla.protocol.records.control import Marker, parse_marker
from ottla.protocol.records.errors import CorruptBatch, RecordsError

logger = logging.getLogger(__name__)

BATCHES_SEARCHED: Final = 2048
"""The maximum number of batches that `recall_window` reads, backwards from a producer's newest batch, to find the producer's earlier
batches. About 400 producers have that many in flight. Reading them takes 2 ms, or 50 ms if batches are large and none belongs to the
producer. A batch before these is not recognized as a duplicate, as in Kafka."""


def read_marker(segment: Segment, position: int, header: BatchHeader) -> Marker | None:
    """Return the transaction marker in the control batch at byte `position` of the segment, None if the batch has another control record.
    Raises `RecordsError` if it cannot be decoded."""
    marker = parse_marker(segment.pread(header.size_bytes, position))
    return marker if marker.ends_transaction else None


def load_snapshot(state: ProducerState, snapshots: ProducerSnapshots, *, start: int, end: int) -> list[Damage]:
    """Load the newest valid snapshot in [`start`, `end`] into `state`; without one, `state` is empty at `start`. Raises `OSError`.

    Invalid snapshots are removed. `start` is the first segment's base offset, not the log start: batches that DeleteRecords has hidden
    below the log start still have producers' last sequences, and markers that end transactions. A snapshot below `start` is not used,
    because the batches after it are missing.
    """
    findings = []
    while (offset := snapshots.newest(end)) is not None and offset >= start:
        try:
            entries = snapshots.read(offset)
        except (CorruptSnapshot, FileNotFoundError) as e:
            findings.append(Damage(snapshots.path(offset), f"producer snapshot not usable ({e}), removed; an older one or the log is used"))
            snapshots.remove(offset)
            continue
        state.load(entries, offset)
        return findings
    state.load((), start)
    return findings


def replay(state: ProducerState, segments: SegmentList, end: int) -> None:
    """Apply the log's batches from `state.end_offset` up to `end` to `state`. After an invalid batch the rest of its segment is skipped."""
    start = state.end_offset
    if start >= end:
        return
    for segment in segments.from_offset(start):
        if segment.base_offset >= end:
            break
        position = segment.offset_index.lookup(start) if start > segment.base_offset else 0
        for at, header in readable_batches(segment, position):
            if header.last_offset < start:
                continue
            if header.base_offset >= end:
                break
            apply(state, segment, at, header)
    state.end_offset = end


def readable_batches(segment: Segment, position: int = 0) -> Iterator[tuple[int, BatchHeader]]:
    """Yield (position, header) like `Segment.batches`, but stop at an invalid batch: a corrupt old segment must not prevent a start."""
    try:
        yield from segment.batches(position, chunk=REPLAY_BYTES)
    except CorruptBatch as e:
        logger.warning("%s cannot be read to its end: %s", segment.path, e)


def apply(state: ProducerState, segment: Segment, position: int, header: BatchHeader) -> CompletedTxn | None:
    """Apply one batch from the log to `state`. Return the transaction that it completes, if any. An unreadable marker is ignored."""
    if not header.has_producer_id:
        return None
    marker = None
    if header.is_control:
        try:
            marker = read_marker(segment, position, header)
        except RecordsError:
            return None
    return state.replay(header, marker)


def find_duplicate(state: ProducerState, segments: SegmentList, batch: BatchHeader) -> BatchMetadata | None:
    """Return the batch of which `batch` is a duplicate, None if there is none. Unlike `ProducerState.find_duplicate_in_memory`, also search
    the log for batches older than the snapshot from which `state` was loaded. Raises `OSError`."""
    known = state.find_duplicate_in_memory(batch)
    if known is None and (entry := state.get(batch.producer_id)) is not None and entry.may_repeat_older(batch):
        recall_window(entry, segments)
        known = state.find_duplicate_in_memory(batch)
    return known


def recall_window(entry: ProducerStateEntry, segments: SegmentList) -> None:
    """Read the producer's batches that precede the oldest one in `entry` from the log, and add them to `entry`, until it has five. Raises
    `OSError`.

    Batches that retention, compaction or corruption removed from the log are not recognized as duplicates.
    """
    try:
        for header in islice(_back_from(segments, entry.batches[0].first_offset), BATCHES_SEARCHED):
            if header.producer_id == entry.producer_id and not header.is_control and not entry.remember_older(header):
                break
    except CorruptBatch as e:
        logger.warning("the earlier batches of producer %d cannot be read: %s", entry.producer_id, e)
    entry.older_in_log = False


def _back_from(segments: SegmentList, offset: int) -> Iterator[BatchHeader]:
    """Yield the headers of the batches before `offset`, newest first. The log is read backwards, one range between two index entries at a
    time. Raises `CorruptBatch` at an invalid batch."""
    for segment in segments.before(offset):
        end = offset
        while end > segment.base_offset:
            start = segment.offset_index.lookup(end - 1)
            step = _headers_below(end, segment, start)
            yield from reversed(step)
            if start == 0:
                break
            if not step:
                raise CorruptBatch(f"{segment.offset_index.path} does not lead to offset {end - 1}")
            end = step[0].base_offset


def _headers_below(end: int, segment: Segment, position: int) -> deque[BatchHeader]:
    """Return the headers of the last batches from byte `position` of the segment up to offset `end` (excluded): at most BATCHES_SEARCHED,
    because millions of batches may lie between two index entries.
    """
    headers: deque[BatchHeader] = deque(maxlen=BATCHES_SEARCHED)
    for _, header in segment.batches(position):
        if header.base_offset >= end:
            break
        headers.append(header)
    return headers
