"""Finds partition logs and their segments in a directory of this broker's or of Apache Kafka's.

Rules that hold here: nothing is opened but Kafka's two small text checkpoints; nothing is ever written; whatever is passed over is named
in a note,
so that "clean" never means "not looked at". Layout and names: Kafka's `LogDirs`, `UnifiedLog` and `LocalLog`.
"""

from __future__ import annotations

import os
import re
from collections.abc import Collection
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

PARTITION_DIR: Final = re.compile(r"(?P<topic>[a-zA-Z0-9._-]+)-(?P<partition>\d+)")
RENAMED_DIR: Final = re.compile(r".+-(delete|future|stray)")
SEGMENT_FILE: Final = re.compile(r"\d{20}\.log")
CLEAN_SHUTDOWN: Final = ".kafka_cleanshutdown"
LOG_START_CHECKPOINT: Final = "log-start-offset-checkpoint"
CLEANER_CHECKPOINT: Final = "cleaner-offset-checkpoint"
TRANSACTION_STATE: Final = "__transaction_state"
COMPACTED_BY_DESIGN: Final = frozenset({"__consumer_offsets", TRANSACTION_STATE, "__share_group_state"})
"""Internal topics whose cleanup.policy is always `compact`: holes in them are legal even where no cleaner checkpoint came along."""


@dataclass(frozen=True, slots=True)
class Segment:
    """One `.log` file of one partition and what the directory says about that partition.

    `log_dir` is the path as the caller gave it; offsets and sizes are in records and bytes. `cleaned_to` is the cleaner's first dirty
    offset:
    below it compaction may have removed records (0: never compacted; 2^63-1: compacted, nobody knows how far).
    """

    log_dir: str
    topic: str
    partition: int
    base_offset: int
    path: str
    size_bytes: int
    is_last: bool
    log_start_offset: int
    cleaned_to: int
    clean_shutdown: bool


@dataclass(slots=True)
class LogDirectory:
    """What was found under one path. `problems` keep the verdict from being complete (unreadable); `notes` do not (passed over on
    purpose)."""

    path: str
    segments: list[Segment] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)
    problems: list[str] = field(default_factory=list)

    @property
    def size_bytes(self) -> int:
        """Bytes in all segments together."""
        return sum(segment.size_bytes for segment in self.segments)


def find_logs(path: str | Path, topics: Collection[str] = ()) -> LogDirectory:
    """All segments under `path`: a broker's data directory, or one partition's directory. `topics`: only these (empty: all).

    Raises nothing for what it finds: a missing or unreadable directory is a problem in the answer.
    """
    root = Path(path)
    found = LogDirectory(str(path))
    try:
        if not root.is_dir():
            found.problems.append(f"{root}: no such directory")
            return found
        if PARTITION_DIR.fullmatch(root.name) and any(SEGMENT_FILE.fullmatch(entry.name) for entry in root.iterdir()):
            partition_dirs, checkpoints = [root], root.parent
        else:
            partition_dirs, checkpoints = sorted(entry for entry in root.iterdir() if entry.is_dir()), root
    except OSError as e:
        found.problems.append(f"{root}: {e.strerror}")
        return found
    starts = _read_checkpoint(checkpoints / LOG_START_CHECKPOINT, found)
    cleaned = _read_checkpoint(checkpoints / CLEANER_CHECKPOINT, found)
    clean_shutdown = (checkpoints / CLEAN_SHUTDOWN).exists()
    for partition_dir in partition_dirs:
        name = _parse_dir(partition_dir.name, topics, found)
        if name is not None:
            unknown = 2**63 - 1 if name[0] in COMPACTED_BY_DESIGN else 0
            _add_partition(
                found,
                partition_dir,
                name,
                log_start_offset=starts.get(name, 0),
                cleaned_to=max(cleaned.get(name, 0), unknown),
                clean_shutdown=clean_shutdown,
            )
    if not found.segments and not found.problems:
        found.problems.append(
            f"{root}: no partition logs here (expected directories such as flights-0 with 00000000000000000000.log in them)"
        )
    return found


def _parse_dir(name: str, topics: Collection[str], found: LogDirectory) -> tuple[str, int] | None:
    if RENAMED_DIR.fullmatch(name):
        found.notes.append(f"{name}: passed over (a deleted, moving or stray replica)")
        return None
    match = PARTITION_DIR.fullmatch(name)
    if match is None:
        found.notes.append(f"{name}: passed over (not a partition's directory)")
        return None
    topic = match["topic"]
    return (topic, int(match["partition"])) if not topics or topic in topics else None


def _add_partition(
    found: LogDirectory, directory: Path, name: tuple[str, int], *, log_start_offset: int, cleaned_to: int, clean_shutdown: bool
) -> None:
    try:
        files = sorted(entry for entry in directory.iterdir() if SEGMENT_FILE.fullmatch(entry.name))
        sizes = [file.stat().st_size for file in files]
    except OSError as e:
        found.problems.append(f"{directory}: {e.strerror}")
        return
    if not files:
        found.notes.append(f"{directory.name}: holds no segment")
    for i, (file, size) in enumerate(zip(files, sizes, strict=True)):
        if not os.access(file, os.R_OK):
            found.problems.append(f"{file}: not readable")
            continue
        segment = Segment(
            log_dir=found.path,
            topic=name[0],
            partition=name[1],
            base_offset=int(file.stem),
            path=str(file),
            size_bytes=size,
            is_last=i == len(files) - 1,
            log_start_offset=log_start_offset,
            cleaned_to=cleaned_to,
            clean_shutdown=clean_shutdown,
        )
        found.segments.append(segment)


def _read_checkpoint(path: Path, found: LogDirectory) -> dict[tuple[str, int], int]:
    """Kafka's offset checkpoint: `0`, a count, then `<topic> <partition> <offset>` a line. A missing file says nothing; a damaged one is
    a note."""
    try:
        lines = path.read_text(encoding="utf-8").splitlines()
        if not lines:  # Kafka makes the file before it has anything to write
            return {}
        rows = [line.split() for line in lines[2:] if line]
        if lines[0] != "0" or len(rows) != int(lines[1]):
            raise ValueError("version or count")
        return {(topic, int(partition)): int(offset) for topic, partition, offset in rows}
    except FileNotFoundError:
        return {}
    except OSError as e:
        found.problems.append(f"{path}: {e.strerror}")
    except (ValueError, IndexError):
        found.notes.append(f"{path.name}: damaged, not used")
    return {}
