"""Plants anomalies in copies of logs that real brokers wrote: batches are duplicated, removed, swapped or damaged, and nothing else is
changed.

Rules:
- Indexes and producer snapshots are not copied, because they would reveal the change.
- Each corruption returns the findings that the audit has to report.
"""

from __future__ import annotations

import shutil
from collections.abc import Callable
from itertools import pairwise
from pathlib import Path
from typing import NamedTuple

from ottla.protocol.records.batch import BatchHeader, split_batches, stamp
from ottla.spark_jobs.corpus.case import Expected


class Batch(NamedTuple):
    """One record batch of a log segment: its parsed header, and all its bytes (header included)."""

    header: BatchHeader
    data: bytes

    @property
    def is_plain(self) -> bool:
        """Whether an idempotent producer wrote the batch outside transactions."""
        return self.header.producer_id >= 0 and not self.header.is_transactional and not self.header.is_control


class CannotCorrupt(Exception):
    """Raised by a corruption function if the log has no batch of the kind that it needs."""


def copy_logs(source: Path, target: Path) -> None:
    """Copy those files of a data directory that an audit reads: segments and text checkpoints. Indexes and the cluster metadata are not
    copied."""
    for file in sorted(source.glob("*-*/*.log")):
        if not file.parent.name.startswith("__cluster_metadata"):
            (target / file.parent.name).mkdir(parents=True, exist_ok=True)
            shutil.copy(file, target / file.parent.name)
    for checkpoint in source.glob("*-checkpoint"):
        shutil.copy(checkpoint, target)


class LastSegment(NamedTuple):
    """The last segment of a partition. `batches` are all its batches; `healthy` are those at or above the log start offset. `compacted`:
    the log cleaner has cleaned the partition."""

    file: Path
    batches: list[Batch]
    healthy: list[Batch]
    compacted: bool

    def place(self, offset: int) -> str:
        """Return the segment's partition and an offset as text, `topic-partition@offset`."""
        return f"{self.file.parent.name}@{offset}"

    def write(self, batches: list[Batch]) -> None:
        """Replace the segment's content by these batches."""
        self.file.write_bytes(b"".join(batch.data for batch in batches))


def read_last_segment(partition_dir: Path) -> LastSegment:
    """Read and parse the last segment file of a partition directory, and look up in the checkpoints of the data directory where the log
    starts and whether it was cleaned. Raises ValueError if the directory has no segment."""
    file = max(partition_dir.glob("*.log"))
    data = file.read_bytes()
    batches = [Batch(header, data[at : at + header.size_bytes]) for at, header in split_batches(data)]
    start = _noted(partition_dir, "log-start-offset-checkpoint")
    healthy = [batch for batch in batches if batch.header.base_offset >= start]
    return LastSegment(file, batches, healthy, _noted(partition_dir, "cleaner-offset-checkpoint") > 0)


def _noted(partition_dir: Path, checkpoint: str) -> int:
    file = partition_dir.parent / checkpoint
    rows = [line.split() for line in file.read_text().splitlines()[2:]] if file.exists() else []
    return next((int(offset) for topic, partition, offset in rows if f"{topic}-{partition}" == partition_dir.name), 0)


def _moved(batch: Batch, place: Batch) -> Batch:
    """Return a copy of `batch` that has the base offset and the leader epoch of `place`, another batch."""
    head, tail = stamp(batch.data, place.header.base_offset, place.header.partition_leader_epoch)
    return Batch(batch.header, head + bytes(tail))


def damage(segment: LastSegment) -> list[Expected]:
    """Flip one bit in the records of the middle batch; return the finding that the audit must report."""
    if not segment.healthy:
        raise CannotCorrupt("no batch")
    chosen = segment.healthy[len(segment.healthy) // 2]
    broken = bytearray(chosen.data)
    broken[-1] ^= 0x04
    segment.write([Batch(chosen.header, bytes(broken)) if batch is chosen else batch for batch in segment.batches])
    return [("crc", "violation", "wrong CRC", segment.place(chosen.header.base_offset))]


def duplicate(segment: LastSegment) -> list[Expected]:
    """Append a copy of an idempotent producer's batch, as a broker without producer state would do with a retry; return the findings that
    the audit must report."""
    newest: dict[int, int] = {}
    for batch in segment.batches:
        newest[batch.header.producer_id] = max(newest.get(batch.header.producer_id, 0), batch.header.producer_epoch)
    for batch in segment.healthy:
        if batch.is_plain and batch.header.producer_epoch == newest[batch.header.producer_id]:
            last = segment.batches[-1].header
            head, tail = stamp(batch.data, last.last_offset + 1, last.partition_leader_epoch)
            segment.write([*segment.batches, Batch(batch.header, head + bytes(tail))])
            return [("duplicate-sequence", "violation", "same batch twice", segment.place(last.last_offset + 1))]
    raise CannotCorrupt("no batch of an idempotent producer")


def lose(segment: LastSegment) -> list[Expected]:
    """Remove a batch between two others of the same producer and epoch; return the findings that the audit must report."""
    if segment.compacted:
        raise CannotCorrupt("what is missing here may have been compacted away")
    for batch, following in pairwise(segment.healthy):
        same = [other.header.base_offset for other in segment.healthy if _alike(other, batch)]
        later = [offset for offset in same if offset > batch.header.base_offset]
        if batch.is_plain and later and len(later) < len(same) - 1:
            segment.write([other for other in segment.batches if other is not batch])
            return [
                ("sequence-gap", "violation", "sequence gap", segment.place(later[0])),
                ("offsets", "warning", "offset gap", segment.place(following.header.base_offset)),
            ]
    raise CannotCorrupt("no producer with three batches")


def _alike(one: Batch, other: Batch) -> bool:
    return (one.header.producer_id, one.header.producer_epoch) == (other.header.producer_id, other.header.producer_epoch)


def reorder(segment: LastSegment) -> list[Expected]:
    """Swap two consecutive batches of one producer, with their offsets; return the findings that the audit must report."""
    for first, second in pairwise(segment.healthy):
        if first.is_plain and _alike(first, second) and second.is_plain and first.header.record_count == second.header.record_count:
            swapped = {first.header.base_offset: _moved(second, first), second.header.base_offset: _moved(first, second)}
            segment.write([swapped.get(batch.header.base_offset, batch) for batch in segment.batches])
            return [("sequence-order", "violation", "arrived late", segment.place(second.header.base_offset))]
    raise CannotCorrupt("no producer with two batches in a row")


CORRUPTIONS: dict[str, Callable[[LastSegment], list[Expected]]] = {
    "damage": damage,
    "duplicate": duplicate,
    "lose": lose,
    "reorder": reorder,
}
