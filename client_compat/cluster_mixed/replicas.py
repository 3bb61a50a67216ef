"""Compares the brokers' directories: byte by byte up to the lowest high watermark, and the start offsets of leader epochs.

The brokers must have stopped. Segments may begin at different offsets (each broker rolls by itself), but their batches may not differ.
"""

from __future__ import annotations

import hashlib
from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple

from client_compat.support.counted import Counted
from ottla.protocol.records.batch import split_batches

HIGH_WATERMARKS = "replication-offset-checkpoint"
LEADER_EPOCHS = "leader-epoch-checkpoint"
NOT_REPLICATED = "__cluster_metadata-0"
"""The directory of the metadata log. It is not compared, because every node has a different part of this log."""


class Batch(NamedTuple):
    """One batch of a replica: its base offset, the offset after its last record, and a SHA-256 digest of its bytes."""

    base_offset: int
    next_offset: int
    digest: str


@dataclass(frozen=True, slots=True)
class Replica:
    """A partition's directory on one broker, as read. `epochs` has the (leader epoch, start offset) pairs of `leader-epoch-checkpoint`."""

    directory: Path
    batches: Sequence[Batch]
    epochs: Sequence[tuple[int, int]]
    high_watermark: int


@dataclass(slots=True)
class ReplicasVerdict(Counted):
    """The result of comparing the brokers' replicas. `partitions` and `batches` count the compared partitions and batches; `differ` counts
    replicas whose batches differ from the first replica's, `epochs_differ` those whose leader epochs differ."""

    JUDGED = "batches"
    WRONG = ("differ", "epochs_differ")
    NOTED = ("partitions",)
    partitions: int = 0
    batches: int = 0
    differ: int = 0
    epochs_differ: int = 0


def compare(directories: Sequence[Path]) -> ReplicasVerdict:
    """Compare the replicas of every partition that is in at least two of the brokers' data directories, and return the counts of
    differences."""
    verdict = ReplicasVerdict()
    found: dict[str, list[Path]] = defaultdict(list)
    for directory in directories:
        for path in directory.iterdir():
            if path.is_dir() and (path / LEADER_EPOCHS).exists() and path.name != NOT_REPLICATED:
                found[path.name].append(path)
    marks = {directory: high_watermarks(directory) for directory in directories}
    for name, paths in sorted(found.items()):
        if len(paths) > 1:
            verdict.partitions += 1
            _compare(verdict, name, [read(path, marks[path.parent].get(name, 0)) for path in paths])
    return verdict


def _compare(verdict: ReplicasVerdict, name: str, replicas: Sequence[Replica]) -> None:
    end = min(replica.high_watermark for replica in replicas)
    start = max((replica.batches[0].base_offset if replica.batches else 0) for replica in replicas)
    first, *others = replicas
    wanted, epochs = _between(first.batches, start, end), [one for one in first.epochs if one[1] < end]
    verdict.batches += len(wanted)
    for other in others:
        found = _between(other.batches, start, end)
        if found != wanted:
            verdict.differ += 1
            at = next((a for a, b in zip(wanted, found, strict=False) if a != b), None)
            where = f"at offset {at.base_offset}" if at else f"{len(wanted)} and {len(found)} batches below {end}"
            verdict.note(f"{name}: {first.directory.parent.name} and {other.directory.parent.name} differ: {where}")
        if (theirs := [one for one in other.epochs if one[1] < end]) != epochs:
            verdict.epochs_differ += 1
            verdict.note(f"{name}: leader epochs of {first.directory.parent.name} {epochs}, of {other.directory.parent.name} {theirs}")


def _between(batches: Sequence[Batch], start: int, end: int) -> list[Batch]:
    return [batch for batch in batches if batch.base_offset >= start and batch.next_offset <= end]


def read(directory: Path, high_watermark: int) -> Replica:
    """Read the batches below the high watermark, and the leader epochs, of a partition's directory."""
    batches = []
    for segment in sorted(directory.glob("*.log")):
        data = segment.read_bytes()
        for pos, header in split_batches(data):
            digest = hashlib.sha256(data[pos : pos + header.size_bytes]).hexdigest()
            batches.append(Batch(header.base_offset, header.next_offset, digest))
    epochs = [(int(line[0]), int(line[1])) for line in _lines(directory / LEADER_EPOCHS)]
    return Replica(directory, batches, epochs, high_watermark)


def high_watermarks(directory: Path) -> Mapping[str, int]:
    """Return the checkpointed high watermarks of a data directory, by partition (`topic-partition`)."""
    return {f"{topic}-{index}": int(offset) for topic, index, offset in _lines(directory / HIGH_WATERMARKS)}


def _lines(path: Path) -> list[list[str]]:
    """Return the rows of one of Kafka's checkpoint files, each split at spaces, without the first two lines (version and number of rows).
    Returns an empty list if the file does not exist."""
    return [line.split() for line in path.read_text().splitlines()[2:]] if path.exists() else []
