"""A data directory as it is at one moment, for all queries of one run, whatever a broker writes meanwhile.

Rules that hold here: a broker appends while its directory is listed, and a transaction whose data was listed before its marker came, in
another partition than the marker that was seen, would look torn. So the directory is listed again until two listings say the same: as logs
only grow, all sizes were those at the moment between the two. A directory that never rests is read as it was listed last, with a note.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Collection
from dataclasses import asdict
from pathlib import Path
from typing import Final

from ottla.spark_jobs.filesystem import place
from ottla.spark_jobs.log_directory import LogDirectory, Segment, SideFile
from ottla.spark_jobs.log_files import find_file_logs

PINNED: Final = "pinned:"
"""In front of the file that says what to read."""
LISTINGS_MAX: Final = 20
RESTLESS: Final = (
    "written to all the time while it was listed: its partitions are not from the same moment, and a transaction that ended then may seem "
    "torn. Judge it again, or a snapshot, or when the broker has stopped"
)


def pin(path: str, file: Path) -> str:
    """The path under which the directory is read as it is now; `file` is written for it."""
    found = at_one_moment(lambda: find_file_logs(path)) if _is_local(path) else find_file_logs(path)
    content = asdict(found) | {"high_watermarks": [[*at, offset] for at, offset in found.high_watermarks.items()]}
    file.write_text(json.dumps(content), encoding="utf-8")
    return PINNED + str(file)


def at_one_moment(listing: Callable[[], LogDirectory]) -> LogDirectory:
    """What two listings in a row agree about."""
    before = listing()
    for _ in range(LISTINGS_MAX):
        found = listing()
        if found.segments == before.segments:
            return found
        before = found
    before.notes.append(RESTLESS)
    return before


def pinned(path: str, topics: Collection[str] = ()) -> LogDirectory:
    """What `pin` wrote, of some topics (empty: all)."""
    said = json.loads(Path(path.removeprefix(PINNED)).read_text(encoding="utf-8"))
    found = LogDirectory(said["path"], notes=said["notes"], problems=said["problems"])
    found.segments = [Segment(**each) for each in said["segments"]]
    found.side_files = [SideFile(**each) for each in said["side_files"]]
    found.high_watermarks = {(topic, partition): offset for topic, partition, offset in said["high_watermarks"]}
    return found.of_topics(topics)


def _is_local(path: str) -> bool:
    try:
        return place(path).is_local
    except (OSError, ValueError):
        return False
