"""Producer state from files: the newest snapshot that checks out, then the batches after it (reference 2.7).

Deviation from Kafka, on the safe side: a log without any snapshot is replayed from its start also after a clean stop, where Kafka
assumes that there were no producers. A lost snapshot then costs a walk over headers and no duplicate.
"""

from __future__ import annotations

import logging
from collections.abc import Iterator

from broker.storage.errors import Finding
from broker.storage.producer_snapshots import CorruptSnapshot, ProducerSnapshots
from broker.storage.producer_state import CompletedTxn, ProducerState
from broker.storage.segment import REPLAY_BYTES, Segment
from broker.storage.segment_list import SegmentList
from protocol.records.batch import BatchHeader
from protocol.records.control import Marker, parse_marker
from protocol.records.errors import CorruptBatch, RecordsError

logger = logging.getLogger(__name__)


def read_marker(segment: Segment, position: int, header: BatchHeader) -> Marker | None:
    """The marker of a control batch, None when it does not end a transaction. Raises `RecordsError`."""
    marker = parse_marker(segment.pread(header.size_bytes, position))
    return marker if marker.ends_transaction else None


def load_snapshot(state: ProducerState, snapshots: ProducerSnapshots, *, start: int, end: int) -> list[Finding]:
    """Starts `state` from the newest good snapshot up to `end`, or empty at `start`; bad ones are removed. Raises `OSError`.

    `start` is where the first segment begins, not the log's start: a batch that DeleteRecords hid still says what its producer did last, a
    hidden marker that its transaction is over. What an older snapshot knows may have changed in batches that are gone: it says nothing.
    """
    findings = []
    while (offset := snapshots.newest(end)) is not None and offset >= start:
        try:
            entries = snapshots.read(offset)
        except (CorruptSnapshot, FileNotFoundError) as e:
            findings.append(Finding(snapshots.path(offset), f"producer snapshot not usable ({e}), removed; an older one or the log serves"))
            snapshots.remove(offset)
            continue
        state.load(entries, offset)
        return findings
    state.load((), start)
    return findings


def replay(state: ProducerState, segments: SegmentList, end: int) -> None:
    """Applies the batches from `state.end_offset` up to `end`; where bytes are no batch, the rest of that segment is passed over."""
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
    """As `Segment.batches`, up to where bytes are no batch: damage in a segment that was synced long ago does not stop a start."""
    try:
        yield from segment.batches(position, chunk=REPLAY_BYTES)
    except CorruptBatch as e:
        logger.warning("%s cannot be read to its end: %s", segment.path, e)


def apply(state: ProducerState, segment: Segment, position: int, header: BatchHeader) -> CompletedTxn | None:
    """One batch read back; returns the transaction that it completes. An unreadable marker is no marker."""
    if not header.has_producer_id:
        return None
    marker = None
    if header.is_control:
        try:
            marker = read_marker(segment, position, header)
        except RecordsError:
            return None
    return state.replay(header, marker)
