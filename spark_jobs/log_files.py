"""Finds partition logs in a data directory of Ottla or of Apache Kafka: their segments, and the files beside these (indexes, producer
snapshots, leader epoch checkpoints).

Invariants:
- Only Kafka's small text checkpoints are opened, and nothing is written.
- Everything that is skipped is named in a note, so that a clean verdict never covers files that were not judged.
- Layout and names follow Kafka's `LogDirs`, `UnifiedLog` and `LocalLog`.
"""

from __future__ import annotations

import re
from collections import deque
from collections.abc import Callable, Collection, Iterable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from sys import intern
from typing import Final

from ottla.protocol.printable import reason_of
from ottla.spark_jobs.filesystem import NO_REGULAR_FILE, SMALL_FILE_BYTES, SNAPSHOT_BYTES_MAX, Entry, Location, place
from ottla.spark_jobs.log_directory import COMPACTED_BY_DESIGN, LEADER_EPOCHS, LogDirectory, Segment, SideFile, no_logs

PARTITION_DIR: Final = re.compile(r"(?P<topic>[a-zA-Z0-9._-]+)-(?P<partition>0|[1-9]\d{0,9})", re.ASCII)
RENAMED_DIR: Final = re.compile(r".+-(delete|future|stray)")
SEGMENT_FILE: Final = re.compile(r"\d{20}\.log", re.ASCII)
SWAP_FILE: Final = re.compile(r"\d{20}\.log\.swap", re.ASCII)
"""Matches the name of a segment that the log cleaner has written to replace other segments, and has not renamed to its final name yet
(Kafka's `LocalLog.replaceSegments`)."""
SIDE_FILE: Final = re.compile(r"(?P<offset>\d{20})\.(?P<kind>index|timeindex|txnindex|snapshot)", re.ASCII)
CLEAN_SHUTDOWN: Final = ".kafka_cleanshutdown"
LOG_START_CHECKPOINT: Final = "log-start-offset-checkpoint"
HIGH_WATERMARK_CHECKPOINT: Final = "replication-offset-checkpoint"
CLEANER_CHECKPOINT: Final = "cleaner-offset-checkpoint"
SIZES_MAX: Final = {LEADER_EPOCHS: SMALL_FILE_BYTES, "snapshot": SNAPSHOT_BYTES_MAX}
"""The maximum size in bytes of those files beside a segment that are read as a whole, by the kind of file."""
SWAPPING: Final = "the cleaner was putting it in place of other segments; start the broker, which ends that, and judge it again"
PARTITION_MAX: Final = 2**31 - 1
OFFSET_MAX: Final = 2**63 - 1
MISSING_NAMED: Final = 10
"""How many missing partitions a note lists by name; it only counts the others."""
NO_OFFSET: Final = "no log has this offset"
LISTINGS_AT_ONCE: Final = 16
"""The number of concurrent directory listings on remote file systems, where each listing is a round trip."""
LISTED_AHEAD: Final = 2 * LISTINGS_AT_ONCE


def find_file_logs(path: str | Path, topics: Collection[str] = ()) -> LogDirectory:
    """List all segments under `path`: a broker's data directory or one partition's directory, as a path or a URL (see `filesystem`).
    `topics`: only these (empty: all).

    The function raises no errors for the directory's state: a missing or unreadable directory is a problem in the result.
    """
    found = LogDirectory(str(path))
    try:
        where = place(str(path))
        if not where.is_dir(where.path):
            is_file = where.is_file(where.path)
            found.problems.append(f"{path}: {'is a file; give the log directory that contains it' if is_file else 'no such directory'}")
            return found
        entries = where.entries(where.path)
    except (OSError, ValueError) as e:
        found.problems.append(f"{path}: {reason_of(e)}")
        return found
    if PARTITION_DIR.fullmatch(where.name) and any(SEGMENT_FILE.fullmatch(entry.name) for entry in entries):
        directories, root = {where.name: where.path}, where.parent
    else:
        directories, root = {entry.name: entry.path for entry in entries if entry.is_dir}, where.path
    facts = _Facts(
        starts=_read_checkpoint(where, f"{root}/{LOG_START_CHECKPOINT}", found),
        cleaned=_read_checkpoint(where, f"{root}/{CLEANER_CHECKPOINT}", found),
        clean_shutdown=where.is_file(f"{root}/{CLEAN_SHUTDOWN}"),
    )
    found.high_watermarks = _read_checkpoint(where, f"{root}/{HIGH_WATERMARK_CHECKPOINT}", found)
    found.problems += [
        f"{entry.path}: not a directory, not judged"
        for entry in entries
        if not entry.is_dir and (match := PARTITION_DIR.fullmatch(entry.name)) and (not topics or match["topic"] in topics)
    ]
    partitions = [(name, at) for dir_name, at in directories.items() if (name := _parse_dir(dir_name, topics, found)) is not None]
    for (name, at), listed in zip(partitions, _list_all(where, [at for _, at in partitions]), strict=True):
        if isinstance(listed, OSError):
            found.problems.append(f"{at}: {reason_of(listed)}")
        else:
            _add_partition(found, where, name, at, listed, facts)
    if root == where.path:
        _note_missing(found, directories, topics, facts)
    if not found.segments and not found.problems:
        found.problems.append(no_logs(found.path, topics))
    return found


@dataclass(frozen=True, slots=True)
class _Facts:
    """The contents of the data directory's checkpoint files, and other facts about all its partitions."""

    starts: dict[tuple[str, int], int]
    cleaned: dict[tuple[str, int], int]
    clean_shutdown: bool


def _note_missing(found: LogDirectory, directories: Collection[str], topics: Collection[str], facts: _Facts) -> None:
    """Add a note that names the partitions with records but without a directory. A partition has records if its checkpointed high watermark
    is above its log start offset. A directory that Kafka has renamed for deletion counts as its partition's directory."""
    existing = {name.rsplit(".", 1)[0] if RENAMED_DIR.fullmatch(name) else name for name in directories}
    missing = sorted(
        f"{name[0]}-{name[1]}"
        for name, high_watermark in found.high_watermarks.items()
        if high_watermark > facts.starts.get(name, 0) and f"{name[0]}-{name[1]}" not in existing and (not topics or name[0] in topics)
    )
    if missing:
        more = f" and {len(missing) - MISSING_NAMED} more" if len(missing) > MISSING_NAMED else ""
        names = ", ".join(missing[:MISSING_NAMED])
        found.notes.append(f"not judged, because they have no directory here, but records by {HIGH_WATERMARK_CHECKPOINT}: {names}{more}")


def _list_all(where: Location, paths: list[str]) -> Iterable[list[Entry] | OSError]:
    def listed(path: str) -> list[Entry] | OSError:
        try:
            return where.entries(path)
        except OSError as e:
            return e

    if where.is_local:
        return map(listed, paths)
    return _listed_ahead(listed, paths)


def _listed_ahead(listed: Callable[[str], list[Entry] | OSError], paths: list[str]) -> Iterator[list[Entry] | OSError]:
    """List the directories `paths` in parallel by calling `listed`, which returns a directory's entries or an error. Yield the results in
    the order of `paths`. At most LISTED_AHEAD of them are in memory at once, because the entries of all directories of a large log would
    take as much memory as its `Segment` objects."""
    ahead: deque[Future[list[Entry] | OSError]] = deque()
    with ThreadPoolExecutor(LISTINGS_AT_ONCE, "listing") as pool:
        for path in paths:
            ahead.append(pool.submit(listed, path))
            if len(ahead) == LISTED_AHEAD:
                yield ahead.popleft().result()
        while ahead:
            yield ahead.popleft().result()


def _parse_dir(name: str, topics: Collection[str], found: LogDirectory) -> tuple[str, int] | None:
    if RENAMED_DIR.fullmatch(name):
        found.notes.append(f"{name}: passed over (a deleted, moving or stray replica)")
        return None
    match = PARTITION_DIR.fullmatch(name)
    if match is None or int(match["partition"]) > PARTITION_MAX:
        found.notes.append(f"{name}: passed over (not a partition's directory)")
        return None
    topic = match["topic"]
    return (topic, int(match["partition"])) if not topics or topic in topics else None


def _add_partition(  # noqa: PLR0917 # called once
    found: LogDirectory, where: Location, name: tuple[str, int], directory: str, entries: list[Entry], facts: _Facts
) -> None:
    logs = [entry for entry in entries if SEGMENT_FILE.fullmatch(entry.name)]
    sizes = {entry.name: entry.size_bytes for entry in entries}
    bases = [int(entry.name[:20]) for entry in logs]
    same = {entry.name[:20]: base for entry, base in zip(logs, bases, strict=True)}
    """The base offset of each segment, by the 20 digits in its file name. A segment and its side files share the same integer object, which
    saves the driver's memory if there are millions of files."""
    unread = [f"{entry.path}: {NO_REGULAR_FILE}" for entry in logs if not entry.is_file]
    unread += [f"{entry.path}: {NO_OFFSET}" for entry, base in zip(logs, bases, strict=True) if base > OFFSET_MAX]
    unread += [f"{entry.path}: not readable" for entry in logs if entry.is_file and not where.readable(entry.path)]
    unread += [f"{entry.path}: {SWAPPING}" for entry in entries if SWAP_FILE.fullmatch(entry.name)]
    if unread:
        # If only some of the segments were read, a rule could report a gap or an open transaction that does not exist.
        found.problems += [f"{reason}; {name[0]}-{name[1]} is not judged" for reason in unread]
        return
    if not logs and (high_watermark := found.high_watermarks.get(name, 0)) > facts.starts.get(name, 0):
        found.problems.append(
            f"{name[0]}-{name[1]}: holds no segment, but consumers could read its records up to offset {high_watermark - 1}"
        )
    elif not logs:
        found.notes.append(f"{name[0]}-{name[1]}: holds no segment")
    unknown = 2**63 - 1 if name[0] in COMPACTED_BY_DESIGN else 0
    common = {
        "log_dir": found.path,
        "topic": name[0],
        "partition": name[1],
        "directory": directory,
        "log_start_offset": facts.starts.get(name, 0),
        "cleaned_to": max(facts.cleaned.get(name, 0), unknown),
        "clean_shutdown": facts.clean_shutdown,
    }
    for i, entry in enumerate(logs):
        last = i == len(logs) - 1
        segment = Segment(
            base_offset=bases[i],
            size_bytes=entry.size_bytes,
            modified_ns=entry.modified_ns,
            is_last=last,
            next_base_offset=None if last else bases[i + 1],
            index_bytes=sizes.get(f"{entry.name[:20]}.index", -1),
            **common,  # type: ignore[arg-type] # a dict of the fields that all files of a partition share
        )
        found.segments.append(segment)
    for entry in entries:
        match = SIDE_FILE.fullmatch(entry.name)
        if match is not None or entry.name == LEADER_EPOCHS:
            if not entry.is_file or not where.readable(entry.path):
                reason = "not readable" if entry.is_file else NO_REGULAR_FILE
                found.problems.append(f"{entry.path}: {reason}; it is not held against the log")
                continue
            kind = LEADER_EPOCHS if match is None else intern(match["kind"])
            if entry.size_bytes > SIZES_MAX.get(kind, entry.size_bytes):
                found.problems.append(f"{entry.path}: larger than {SIZES_MAX[kind] >> 20} MiB; it is not held against the log")
                continue
            base = min(bases, default=0) if match is None else same.get(match["offset"]) or int(match["offset"])
            if base > OFFSET_MAX:
                found.problems.append(f"{entry.path}: {NO_OFFSET}; it is not held against the log")
                continue
            found.side_files.append(
                SideFile(
                    base_offset=base,
                    size_bytes=entry.size_bytes,
                    modified_ns=entry.modified_ns,
                    kind=kind,
                    segment_bytes=sizes.get(f"{entry.name[:20]}.log", -1),
                    **common,  # type: ignore[arg-type] # a dict of the fields that all files of a partition share
                )
            )


def _read_checkpoint(where: Location, path: str, found: LogDirectory) -> dict[tuple[str, int], int]:
    """Read one of Kafka's offset checkpoints: `0` (the version), a line with the count, then `<topic> <partition> <offset>` lines. A
    missing file gives an empty dict; a damaged one also adds a note."""
    try:
        lines = where.read(path).decode("utf-8").splitlines()
        if not lines:  # Kafka creates the file before it has anything to write
            return {}
        rows = [line.split() for line in lines[2:] if line]
        if lines[0] != "0" or len(rows) != int(lines[1]):
            raise ValueError("version or count")
        offsets = {(topic, int(partition)): int(offset) for topic, partition, offset in rows}
        if any(abs(offset) > OFFSET_MAX for offset in offsets.values()):
            raise ValueError(NO_OFFSET)
        return offsets
    except FileNotFoundError:
        return {}
    except OSError as e:
        found.problems.append(f"{path}: {reason_of(e)}")
    except (ValueError, IndexError):
        found.notes.append(f"{path.rsplit('/', 1)[-1]}: damaged, not used")
    return {}
