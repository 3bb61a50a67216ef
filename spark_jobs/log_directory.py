"""The result of listing partition logs, whether in files or on brokers: segments, the files beside them, and problems."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Collection
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Final

TRANSACTION_STATE: Final = "__transaction_state"
CONSUMER_OFFSETS: Final = "__consumer_offsets"
SHARE_GROUP_STATE: Final = "__share_group_state"
COMPACTED_BY_DESIGN: Final = frozenset({CONSUMER_OFFSETS, TRANSACTION_STATE})
"""Internal topics whose cleanup.policy is always `compact`: missing offsets in them are legal even if the cleaner's checkpoint is missing.
`__share_group_state` is not one of them: old records are deleted from its start (Kafka's ShareCoordinatorService creates it with the policy
`delete`)."""
LEADER_EPOCHS: Final = "leader-epoch-checkpoint"
COORDINATOR_TOPICS: Final = COMPACTED_BY_DESIGN | {SHARE_GROUP_STATE}
"""The internal topics of the group, transaction and share coordinators. A cluster creates each at its first use."""

POLICY_UNKNOWN: Final = (
    "this user may not see its cleanup.policy (DESCRIBE_CONFIGS): judged as compacted, so records that are missing may not be reported"
)
"""A note on a topic of a cluster. For the audit it is a problem; other commands do not need the setting."""


@dataclass(frozen=True, slots=True, kw_only=True)
class LogFile(ABC):
    """One file of one partition, with facts about the partition from the data directory.

    `log_dir` is the caller's path or URL; `directory` is the partition's directory. A log may have millions of files, so all files of a
    partition share one `directory` string, and `name` and `path` are computed on access. `cleaned_to` is the log cleaner's first dirty
    offset: compaction may have removed records below it (0: never compacted; 2^63-1: compacted up to an unknown offset). `modified_ns`: the
    file's modification time, 0 if it is unknown.
    """

    log_dir: str
    topic: str
    partition: int
    directory: str
    base_offset: int
    size_bytes: int
    log_start_offset: int
    cleaned_to: int
    clean_shutdown: bool
    modified_ns: int = 0

    @property
    @abstractmethod
    def name(self) -> str:
        """The file's name."""

    @property
    def path(self) -> str:
        """The file's path or URL."""
        return f"{self.directory}/{self.name}"


@dataclass(frozen=True, slots=True, kw_only=True)
class Segment(LogFile):
    """One `.log` file. `next_base_offset`: the base offset of the next segment, None for the last segment. `index_bytes`: the size of
    its `.index`, -1 if it has none."""

    is_last: bool
    next_base_offset: int | None
    index_bytes: int

    @property
    def name(self) -> str:
        return f"{self.base_offset:020d}.log"


@dataclass(frozen=True, slots=True, kw_only=True)
class SideFile(LogFile):
    """A file beside the segments. `kind` is `index`, `timeindex`, `txnindex`, `snapshot` or `leader-epoch-checkpoint`; for the last,
    `base_offset` is that of the first segment. `segment_bytes`: the size of the segment with the same base offset, -1 if there is none."""

    kind: str
    segment_bytes: int = -1

    @property
    def name(self) -> str:
        return LEADER_EPOCHS if self.kind == LEADER_EPOCHS else f"{self.base_offset:020d}.{self.kind}"


@dataclass(slots=True)
class LogDirectory:
    """The log files found in one directory or one cluster. `problems` (unreadable files) make the verdict incomplete; `notes` (files
    skipped on purpose) do not."""

    path: str
    segments: list[Segment] = field(default_factory=list)
    side_files: list[SideFile] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)
    problems: list[str] = field(default_factory=list)
    high_watermarks: dict[tuple[str, int], int] = field(default_factory=dict)
    """The broker's checkpointed high watermarks (`replication-offset-checkpoint`), by topic and partition."""

    @property
    def size_bytes(self) -> int:
        """The size of all listed segments in bytes."""
        return sum(segment.size_bytes for segment in self.segments)

    def of_topics(self, topics: Collection[str]) -> LogDirectory:
        """Return the listing of these topics only (empty: all). If the directory has none of them, the result has a problem."""
        if not topics:
            return self
        segments = [segment for segment in self.segments if segment.topic in topics]
        files = [file for file in self.side_files if file.topic in topics]
        lost = [] if segments or self.problems else [no_logs(self.path, topics)]
        return replace(self, segments=segments, side_files=files, problems=self.problems + lost)


def no_logs(path: str, topics: Collection[str]) -> str:
    """Return the text of a verdict's problem: there are no logs at `path`, or none of these topics."""
    if topics:
        return f"{path}: no partition of {', '.join(sorted(topics))} here"
    below = sorted(each.parent.name for each in Path(path).glob("*/meta.properties"))
    hint = f"; data directories are in it: {', '.join(below)}" if below else ""
    return f"{path}: no partition logs here (expected directories such as flights-0 with 00000000000000000000.log in them){hint}"
