"""Writes logs with one segment per batch, so that an audit that divides logs at segment boundaries can divide them between any two
batches."""

from __future__ import annotations

import struct
from itertools import pairwise
from pathlib import Path

from ottla.protocol.records.batch import LOG_OVERHEAD
from ottla.spark_jobs.corpus import CASES
from ottla.spark_jobs.corpus.score import write


def cut_corpus(root: Path, some: slice = slice(None)) -> list[Path]:
    """Write test logs with known faults below `root`, with one segment per batch. `some` selects a slice of the audit's list of test cases.
    Return the directories of those cases that consist of one log directory, not of several replicas."""
    names = [*CASES][some]
    write({name: CASES[name] for name in names}, root)
    for log in list(root.rglob("*.log")):
        cut_at_every_batch(log)
    return [root / name for name in names if not CASES[name].directories]


def cut_at_every_batch(segment: Path) -> None:
    """Replace a segment file by several segment files, one per batch. A batch whose base offset is not higher than the current file's stays
    in that file. All bytes after a negative batch length stay in one file."""
    data, position = segment.read_bytes(), 0
    cuts = [(int(segment.stem), 0)]
    while position + LOG_OVERHEAD <= len(data):
        offset, length = struct.unpack_from(">qi", data, position)
        if length < 0:
            break
        if position and offset > cuts[-1][0] and not segment.with_name(f"{offset:020d}.log").exists():
            cuts.append((offset, position))
        position += LOG_OVERHEAD + length
    for (offset, start), (_, end) in pairwise([*cuts, (0, len(data))]):
        segment.with_name(f"{offset:020d}.log").write_bytes(data[start:end])
