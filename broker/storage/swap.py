"""Completes or undoes cleaning and deletion in a partition's directory after a crash (Kafka's LogLoader).

Files with these suffixes are removed: `.deleted` (removed from the log), `.cleaned` (incomplete output of compaction) and `.tmp`. A `.swap`
file is complete output of compaction, and replaces the segments whose offsets it covers. It is removed instead if a `.cleaned` file with
the same or a lower base offset exists: compaction was then replacing segments by several files, of which not all were complete.
"""

from __future__ import annotations

from pathlib import Path

from ottla.broker.storage.files import FileEntry, Files
from ottla.broker.storage.open_files import OpenFiles
from ottla.broker.storage.segment import REPLAY_BYTES, Segment
from ottla.protocol.records.errors import CorruptBatch


def finish_swaps(files: Files, directory: Path) -> list[FileEntry]:
    """Complete or undo an interrupted compaction or deletion. Return the directory's files afterwards. Raises `OSError`."""
    entries = files.scan(directory)
    if not any(e.name.endswith((".deleted", ".cleaned", ".swap", ".tmp")) for e in entries):
        return entries
    undone = min((_base(e.name) for e in entries if e.name.endswith(".log.cleaned")), default=2**63)
    swaps = []
    for entry in entries:
        name = entry.name
        if name.endswith((".deleted", ".cleaned", ".tmp")) or (name.endswith(".swap") and _base(name) >= undone):
            files.remove(directory / name)
        elif name.endswith(".log.swap"):
            swaps.append(entry)
    if swaps:
        _make_room(files, directory, entries, swaps)
    for entry in files.scan(directory):
        if entry.name.endswith(".swap"):
            files.rename(directory / entry.name, directory / entry.name.removesuffix(".swap"))
    return files.scan(directory)


def _make_room(files: Files, directory: Path, entries: list[FileEntry], swaps: list[FileEntry]) -> None:
    """Remove the segments in `entries` whose offsets the `.swap` files cover, and which these files replace."""
    start = min(_base(e.name) for e in swaps)
    end = max(_end_offset(files, directory, e) for e in swaps)
    for entry in entries:
        if entry.name.endswith((".log", ".index", ".timeindex", ".txnindex")) and start <= _base(entry.name) < end:
            files.remove(directory / entry.name)


def _end_offset(files: Files, directory: Path, entry: FileEntry) -> int:
    base = _base(entry.name)
    segment = Segment(files, OpenFiles(1), directory, base, size=entry.size, created_ms=0)
    segment.path = directory / entry.name
    end = base + 1
    try:
        for _, header in segment.batches(chunk=REPLAY_BYTES):
            end = header.next_offset
    except CorruptBatch:
        return end
    finally:
        segment.release()
    return end


def _base(name: str) -> int:
    stem = name.partition(".")[0]
    return int(stem) if stem.isdigit() else -1
