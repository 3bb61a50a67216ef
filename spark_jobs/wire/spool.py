"""Stores a cluster's batches in a local directory with the layout of a broker's data directory, to be judged as files.

Invariants:
- Batches are written as they were fetched, in order. At the end of a run every file ends with a whole batch; a run after an interruption
  continues after the last whole batch of each partition.
- A directory holds the logs of one cluster.
- Offsets that no broker can return any more are missing in the files (a hole). Offsets below a hole made by retention are not judged; any
  other hole is a problem of each run.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Collection
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import BinaryIO, Final

from ottla.protocol.records.batch import LOG_OVERHEAD
from ottla.protocol.records.batch_walk import walk_headers
from ottla.spark_jobs.log_files import CLEANER_CHECKPOINT, LOG_START_CHECKPOINT, PARTITION_DIR, SEGMENT_FILE
from ottla.spark_jobs.segment_reader import BATCH_BYTES_MAX, ROWS_MAX
from ottla.spark_jobs.wire.address import STATE_FILE, Address, address_of
from ottla.spark_jobs.wire.cluster import Cluster, WireError
from ottla.spark_jobs.wire.find import UNKNOWN_OFFSET, Span, as_one_range, list_offsets
from ottla.spark_jobs.wire.reader import Gap, RangeReader
from ottla.spark_jobs.wire.throttle import Throttle

SEGMENT_BYTES: Final = 1 << 30
"""The maximum size of a segment file, in bytes. It is the default of Kafka's segment.bytes."""
READ_BYTES: Final = 4 << 20
LIMIT: Final = 1 << 62

Progress = Callable[[str, int, int], None]


class NotThisCluster(ValueError):
    """The directory contains something other than this cluster's logs."""


@dataclass(slots=True)
class _State:
    """The contents of a spool directory's state file: the cluster's id, for each `topic-partition` the offset at which judging starts, and
    notes on missing offsets. `problems`: for each `topic-partition` the holes that retention has not made."""

    cluster_id: str
    starts: dict[str, int] = field(default_factory=dict)
    notes: list[str] = field(default_factory=list)
    problems: dict[str, list[str]] = field(default_factory=dict)


def spool(
    path: str | Address,
    directory: Path,
    topics: Collection[str] = (),
    *,
    throttle: Throttle | None = None,
    segment_bytes: int = SEGMENT_BYTES,
    progress: Progress = lambda _step, _done, _total: None,
) -> tuple[list[str], list[str]]:
    """Fetch the batches that the cluster has and the directory does not have, and append them to the directory's files. Return (notes,
    problems): the problems name partitions that could not be read, or not as a whole.

    Raises WireError when no broker answers, NotThisCluster if the directory holds something else, and OSError if it cannot be written.
    """
    address = address_of(path)
    throttle = throttle or Throttle(address.bytes_per_second)
    offsets = list_offsets(address, topics)
    state = _opened(directory, offsets.cluster_id)
    notes, problems = list(offsets.notes), list(offsets.problems)
    with Cluster(address) as cluster:
        writer = _SpoolWriter(address, cluster, throttle, directory, state, segment_bytes)
        for done, span in enumerate(offsets.spans):
            progress(f"fetching {span.topic}-{span.partition}", done, len(offsets.spans))
            try:
                writer.fetch(span)
            except WireError as e:
                problems.append(str(e))
    _write_state(directory, state)
    _write_checkpoint(directory / LOG_START_CHECKPOINT, state.starts)
    compacted = {f"{span.topic}-{span.partition}": UNKNOWN_OFFSET for span in offsets.spans if span.compacted}
    _write_checkpoint(directory / CLEANER_CHECKPOINT, compacted)
    return notes + state.notes, problems + [hole for _, holes in sorted(state.problems.items()) for hole in holes]


@dataclass(frozen=True, slots=True)
class _SpoolWriter:
    """Fetches partitions of a cluster into one spool directory, a local copy of the cluster's logs."""

    address: Address
    cluster: Cluster
    throttle: Throttle
    directory: Path
    state: _State
    segment_bytes: int

    def fetch(self, span: Span) -> None:
        """Fetch the offsets of a partition that its files do not have yet, and append the batches to the files. Raises WireError when the
        partition's leader does not answer or does not return the last offsets, OSError if a file cannot be written."""
        name = f"{span.topic}-{span.partition}"
        with _PartitionFiles(_inside(self.directory, name), self.segment_bytes) as log:
            first = self.state.starts.get(name, span.start)
            start = first if log.next_offset is None else log.next_offset
            # Retention deleted offsets that were not fetched yet, so the stored batches and the cluster's batches have a gap between them.
            if start < span.start:
                self._note(f"{name}: offsets {start} to {span.start - 1} were removed before they were fetched; judged from there on")
                first = start = span.start
            if start > span.end:
                self._note(f"{name}: offsets from {span.end} on are kept here and gone from the cluster")
            self._start_at(name, first)
            if log.next_offset is None:
                self.state.problems.pop(name, None)
            lost: list[str] = []  # no batch behind these offsets has been stored, so the next run fetches them again
            reader = RangeReader(as_one_range(self.address, span, start), self.cluster, self.throttle)
            for item in reader.chunks():
                if not isinstance(item, Gap):
                    self._keep_holes(name, lost)
                    log.append(item.data, reader.next_offset)
                    continue
                text = f"{name}: offsets {item.start} to {item.end - 1} could not be fetched: {item.reason}"
                if item.legal:
                    self._note(text)
                    self._start_at(name, item.end)
                else:
                    lost.append(text)
            log.begin(start)
        if lost:
            raise WireError("; ".join(lost))

    def _keep_holes(self, name: str, lost: list[str]) -> None:
        """Move the texts in `lost` to the state file, before a batch behind the lost offsets is stored."""
        if lost:
            again = f"to fetch them again, remove {self.directory / name}"
            self.state.problems.setdefault(name, []).extend(f"{text}; {again}" for text in lost)
            lost.clear()
            _write_state(self.directory, self.state)

    def _note(self, text: str) -> None:
        """Add a note to the state file's notes, unless it is there already: a second run that finds the cluster unchanged has the same
        notes."""
        if text not in self.state.notes:
            self.state.notes.append(text)

    def _start_at(self, name: str, offset: int) -> None:
        if self.state.starts.get(name) != offset:
            self.state.starts[name] = offset
            _write_state(self.directory, self.state)


def _inside(directory: Path, name: str) -> Path:
    """Return the path of a partition's directory. Raises WireError if the path is outside of `directory`: the cluster, which may be
    hostile, chose the name."""
    match = PARTITION_DIR.fullmatch(name)
    path = directory / name
    if match is None or path.is_symlink() or path.resolve().parent != directory.resolve():
        raise WireError(f"{name!r} is no name of a partition's directory: not fetched")
    return path


class _PartitionFiles:
    """The segment files of one partition in a spool directory. Use it as a context manager."""

    def __init__(self, directory: Path, segment_bytes: int) -> None:
        self._directory = directory
        self._segment_bytes = segment_bytes
        directory.mkdir(parents=True, exist_ok=True)
        files = sorted(file for file in directory.iterdir() if SEGMENT_FILE.fullmatch(file.name))
        self._last = files[-1] if files else None
        self.next_offset = self._recovered()
        """The offset at which fetching continues: the one after the last whole batch in the files or, without such a batch, the one in the
        last file's name. None if there is no file, or this offset is 0."""
        self._file: BinaryIO | None = None if self._last is None else self._last.open("ab")

    def __enter__(self) -> _PartitionFiles:
        return self

    def __exit__(self, *_: object) -> None:
        if self._file is not None:
            self._file.close()

    def append(self, data: memoryview, offset: int) -> None:
        """Append whole batches, or damaged bytes between batches. If a new file begins with bytes that contain no batch, `offset` is the
        base offset in its name."""
        head = walk_headers(data, 0, LIMIT, 1, BATCH_BYTES_MAX, False)
        full = self._file is not None and 0 < self._file.tell() > self._segment_bytes - len(data)
        if self._file is None or (full and head.positions):
            self._begin(head.base_offsets[0] if head.positions else offset)
        assert self._file is not None
        self._file.write(data)

    def begin(self, offset: int) -> None:
        """Create the first file of a partition without batches, so that the partition exists in the directory."""
        if self._file is None:
            self._begin(offset)

    def _begin(self, offset: int) -> None:
        if self._file is not None:
            self._file.close()
        self._file = (self._directory / f"{offset:020d}.log").open("ab")

    def _recovered(self) -> int | None:
        """Truncate the partial batch that an interrupted run left, and return the offset at which fetching continues: the one after the
        last whole batch or, without such a batch, the one in the last file's name. None if there is no file or this offset is 0."""
        if self._last is None:
            return None
        size = self._last.stat().st_size
        end, next_offset = 0, None
        with self._last.open("rb") as file:
            while end < size:
                file.seek(end)
                data = file.read(READ_BYTES)
                head = walk_headers(data, 0, size - end, ROWS_MAX, BATCH_BYTES_MAX, False)
                sizes = zip(head.positions, head.batch_lengths, head.base_offsets, head.last_offset_deltas, strict=True)
                last_position = size - end - LOG_OVERHEAD
                whole = [
                    (at + length + LOG_OVERHEAD, base + delta + 1) for at, length, base, delta in sizes if at + length <= last_position
                ]
                if not whole:
                    break
                next_offset = max(next_offset or 0, *(offset for _, offset in whole))
                end += whole[-1][0]
        with self._last.open("rb+") as file:
            file.truncate(min(end, size))
        return next_offset if next_offset is not None else int(self._last.stem) or None


def _opened(directory: Path, cluster_id: str) -> _State:
    """Create the spool directory of a cluster, or open the existing one; return the contents of its state file. Raises NotThisCluster if
    the directory holds something else, such as another cluster's logs."""
    file = directory / STATE_FILE
    if file.exists():
        state = _State(**json.loads(file.read_text(encoding="utf-8")))
        if state.cluster_id != cluster_id:
            raise NotThisCluster(f"{directory} holds logs of cluster {state.cluster_id}, not of {cluster_id}")
        return state
    directory.mkdir(parents=True, exist_ok=True)
    if any(directory.iterdir()):
        raise NotThisCluster(f"{directory} is not empty, and no spool: give a new directory, or that of an interrupted run")
    state = _State(cluster_id)
    _write_state(directory, state)
    return state


def _write_state(directory: Path, state: _State) -> None:
    _write(directory / STATE_FILE, json.dumps(asdict(state)))


def _write_checkpoint(file: Path, offsets: dict[str, int]) -> None:
    """Write an offset checkpoint in Kafka's format. `offsets`: the offset to write for each `topic-partition`."""
    rows = [f"{name.rpartition('-')[0]} {name.rpartition('-')[2]} {offset}" for name, offset in sorted(offsets.items())]
    _write(file, "\n".join(["0", str(len(rows)), *rows]) + "\n")


def _write(file: Path, text: str) -> None:
    """Replace the file's content atomically."""
    partial = file.with_name(f"{file.name}.tmp")
    partial.write_text(text, encoding="utf-8")
    partial.replace(file)
