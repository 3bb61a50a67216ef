"""Fixes a data directory's state at one moment by listing its files and their sizes, so that all queries of an audit read the same state
while a broker may keep writing.

Invariants:
- A broker appends while its directory is being listed. If a listing saw a transaction's marker in one partition, but listed another
  partition before its marker was appended, the transaction would look torn. Therefore the directory is listed until two listings in a row
  are equal: logs only grow, so all sizes are those of a moment between the two listings.
- A directory that never stops changing is read as it was listed last, with a note in the verdict.
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
"""The prefix of a path to a file with a stored listing (see `pin`). Such a path stands for a log directory in the state in which it was
listed."""
LISTINGS_MAX: Final = 20
WRITTEN_WHILE_LISTED: Final = (
    "written to all the time while it was listed: its partitions are not from the same moment, and a transaction that ended then may seem "
    "torn. Judge it again, or a snapshot, or when the broker has stopped"
)


def pin(path: str, file: Path) -> str:
    """List the directory `path`, write the listing to `file`, and return a path (`pinned:...`) that makes readers use this listing, and so
    ignore later changes."""
    found = at_one_moment(lambda: find_file_logs(path)) if _is_local(path) else find_file_logs(path)
    content = asdict(found) | {"high_watermarks": [[*at, offset] for at, offset in found.high_watermarks.items()]}
    file.write_text(json.dumps(content), encoding="utf-8")
    return PINNED + str(file)


def at_one_moment(listing: Callable[[], LogDirectory]) -> LogDirectory:
    """Repeat the listing until two in a row have equal segments, and return the last one. After LISTINGS_MAX attempts, return the last one
    with a note that the directory kept changing."""
    before = listing()
    for _ in range(LISTINGS_MAX):
        found = listing()
        if found.segments == before.segments:
            return found
        before = found
    before.notes.append(WRITTEN_WHILE_LISTED)
    return before


def pinned(path: str, topics: Collection[str] = ()) -> LogDirectory:
    """Return the listing of a log directory that `pin` stored, with only these topics (empty: all). `path` is the path that `pin` returned
    (`pinned:...`)."""
    fields = json.loads(Path(path.removeprefix(PINNED)).read_text(encoding="utf-8"))
    found = LogDirectory(fields["path"], notes=fields["notes"], problems=fields["problems"])
    found.segments = [Segment(**each) for each in fields["segments"]]
    found.side_files = [SideFile(**each) for each in fields["side_files"]]
    found.high_watermarks = {(topic, partition): offset for topic, partition, offset in fields["high_watermarks"]}
    return found.of_topics(topics)


def _is_local(path: str) -> bool:
    try:
        return place(path).is_local
    except (OSError, ValueError):
        return False
