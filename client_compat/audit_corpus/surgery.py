"""Anomalies planted into logs that real brokers wrote: batches are copied, taken out or damaged, and nothing else is touched.

Rules: side files (indexes, snapshots) are left behind, for they would tell of the surgery; each operation says what must be found now.
"""

from __future__ import annotations

import shutil
from collections.abc import Callable
from itertools import pairwise
from pathlib import Path
from typing import NamedTuple

from protocol.records.batch import HEADER_BYTES, BatchHeader, split_batches, stamp
from spark_jobs.corpus.case import Expected


class Batch(NamedTuple):
    """One batch of a segment."""

    header: BatchHeader
    data: bytes

    @property
    def is_plain(self) -> bool:
        """An idempotent producer's, outside of transactions."""
        return self.header.producer_id >= 0 and not self.header.is_transactional and not self.header.is_control


class CannotOperate(Exception):
    """The log has no batch of the kind that the operation needs."""


def copy_logs(source: Path, target: Path) -> None:
    """Segments and text checkpoints of a data directory, without the cluster's metadata."""
    for file in sorted(source.glob("*-*/*.log")):
        if not file.parent.name.startswith("__cluster_metadata"):
            (target / file.parent.name).mkdir(parents=True, exist_ok=True)
            shutil.copy(file, target / file.parent.name)
    for checkpoint in source.glob("*-checkpoint"):
        shutil.copy(checkpoint, target)


def read(segment: Path) -> list[Batch]:
    """The batches of a segment."""
    data = segment.read_bytes()
    return [Batch(header, data[at : at + header.size_bytes]) for at, header in split_batches(data)]


def write(segment: Path, batches: list[Batch]) -> None:
    """The batches as the segment's new content."""
    segment.write_bytes(b"".join(batch.data for batch in batches))


def _place(segment: Path, offset: int) -> str:
    return f"{segment.parent.name}@{offset}"


def damage(segment: Path) -> list[Expected]:
    """One bit of the records in the middle batch."""
    batches = read(segment)
    at = len(batches) // 2
    header, data = batches[at]
    broken = bytearray(data)
    broken[HEADER_BYTES + 3] ^= 0x04
    batches[at] = Batch(header, bytes(broken))
    write(segment, batches)
    return [("crc", "violation", "wrong CRC", _place(segment, header.base_offset))]


def duplicate(segment: Path) -> list[Expected]:
    """An idempotent producer's batch once more at the end, as a broker without state would append a retry."""
    batches = read(segment)
    chosen = _with_epochs_last(batches)
    offset = batches[-1].header.last_offset + 1
    head, tail = stamp(chosen.data, offset, batches[-1].header.partition_leader_epoch)
    write(segment, [*batches, Batch(chosen.header, head + bytes(tail))])
    return [("duplicate-sequence", "violation", "same batch twice", _place(segment, offset))]


def _with_epochs_last(batches: list[Batch]) -> Batch:
    newest: dict[int, int] = {}
    for batch in batches:
        newest[batch.header.producer_id] = max(newest.get(batch.header.producer_id, 0), batch.header.producer_epoch)
    for batch in batches:
        if batch.is_plain and batch.header.producer_epoch == newest[batch.header.producer_id]:
            return batch
    raise CannotOperate("no batch of an idempotent producer")


def lose(segment: Path) -> list[Expected]:
    """A batch from between two others of the same producer and epoch."""
    batches = read(segment)
    for at, batch in enumerate(batches):
        same = [other.header for other in batches if _alike(other, batch)]
        later = [header for header in same if header.base_offset > batch.header.base_offset]
        if batch.is_plain and later and len(later) < len(same) - 1 and at + 1 < len(batches):
            after = batches[at + 1].header.base_offset
            write(segment, batches[:at] + batches[at + 1 :])
            return [
                ("sequence-gap", "violation", "sequence gap", _place(segment, later[0].base_offset)),
                ("offsets", "warning", "offset gap", _place(segment, after)),
            ]
    raise CannotOperate("no producer with three batches")


def _alike(one: Batch, other: Batch) -> bool:
    return (one.header.producer_id, one.header.producer_epoch) == (other.header.producer_id, other.header.producer_epoch)


def reorder(segment: Path) -> list[Expected]:
    """Two neighbouring batches of one producer change places and offsets."""
    batches = read(segment)
    for at, (first, second) in enumerate(pairwise(batches)):
        if first.is_plain and _alike(first, second) and second.is_plain and first.header.record_count == second.header.record_count:
            swapped = []
            for batch, offset in ((second, first.header.base_offset), (first, second.header.base_offset)):
                head, tail = stamp(batch.data, offset, batch.header.partition_leader_epoch)
                swapped.append(Batch(batch.header, head + bytes(tail)))
            write(segment, batches[:at] + swapped + batches[at + 2 :])
            return [("sequence-order", "violation", "arrived late", _place(segment, second.header.base_offset))]
    raise CannotOperate("no producer with two batches in a row")


OPERATIONS: dict[str, Callable[[Path], list[Expected]]] = {
    "damage": damage,
    "duplicate": duplicate,
    "lose": lose,
    "reorder": reorder,
}
