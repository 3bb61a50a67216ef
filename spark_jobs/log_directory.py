"""What is found of partition logs, wherever they are: their segments, the files beside them, and what is wrong with the place."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Final

TRANSACTION_STATE: Final = "__transaction_state"
CONSUMER_OFFSETS: Final = "__consumer_offsets"
COMPACTED_BY_DESIGN: Final = frozenset({CONSUMER_OFFSETS, TRANSACTION_STATE, "__share_group_state"})
"""Internal topics whose cleanup.policy is always `compact`: holes in them are legal even where no cleaner checkpoint came along."""


@dataclass(frozen=True, slots=True, kw_only=True)
class LogFile:
    """One file of one partition, and what the directory says about that partition.

    `log_dir` is the path or URL as the caller gave it; offsets and sizes are in records and bytes. `cleaned_to` is the cleaner's first
    dirty offset: below it compaction may have removed records (0: never compacted; 2^63-1: compacted, nobody knows how far).
    """

    log_dir: str
    topic: str
    partition: int
    base_offset: int
    path: str
    size_bytes: int
    log_start_offset: int
    cleaned_to: int
    clean_shutdown: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class Segment(LogFile):
    """One `.log` file. `next_base_offset`: where the next segment begins, None for the last one. `index_bytes`: the size of its `.index`,
    -1 where it has none."""

    is_last: bool
    next_base_offset: int | None
    index_bytes: int


@dataclass(frozen=True, slots=True, kw_only=True)
class SideFile(LogFile):
    """A file beside a segment: `kind` is `index`, `timeindex`, `txnindex`, `snapshot` or `leader-epoch-checkpoint` (its `base_offset` is
    the first segment's). `segment_bytes`: the size of the segment of the same base offset, -1 where there is none."""

    kind: str
    segment_bytes: int = -1


@dataclass(slots=True)
class LogDirectory:
    """What was found under one path. `problems` keep the verdict from being complete (unreadable); `notes` do not (passed over on
    purpose)."""

    path: str
    segments: list[Segment] = field(default_factory=list)
    side_files: list[SideFile] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)
    problems: list[str] = field(default_factory=list)
    high_watermarks: dict[tuple[str, int], int] = field(default_factory=dict)
    """What the broker last noted as replicated to all, per topic and partition."""

    @property
    def size_bytes(self) -> int:
        """Bytes in all segments together."""
        return sum(segment.size_bytes for segment in self.segments)

    def of_topics(self, topics: Collection[str]) -> LogDirectory:
        """The same of some topics (empty: all). None of them here is a problem."""
        if not topics:
            return self
        segments = [segment for segment in self.segments if segment.topic in topics]
        files = [file for file in self.side_files if file.topic in topics]
        lost = [] if segments or self.problems else [no_logs(self.path, topics)]
        return replace(self, segments=segments, side_files=files, problems=self.problems + lost)


def no_logs(path: str, topics: Collection[str]) -> str:
    """The problem of a directory in which nothing was found."""
    if topics:
        return f"{path}: no partition of {', '.join(sorted(topics))} here"
    below = sorted(each.parent.name for each in Path(path).glob("*/meta.properties"))
    hint = f"; data directories are in it: {', '.join(below)}" if below else ""
    return f"{path}: no partition logs here (expected directories such as flights-0 with 00000000000000000000.log in them){hint}"
