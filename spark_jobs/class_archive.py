"""The archive from which Spark's JVM loads its classes (Java's class data sharing), which halves the JVM's start.

Invariants:
- The first JVM writes the archive when it exits, which is after the audit's end. It writes the header last. If it is killed before that,
  the next JVM replaces the file. A JVM ignores an archive without a header, and an archive of other jars.
- An archive is code, so it is only loaded from a directory of this user.
"""

from __future__ import annotations

import os
import shlex
from contextlib import suppress
from hashlib import sha256
from pathlib import Path
from typing import Final

ARCHIVES_MAX: Final = 4
"""The maximum number of archives in the cache directory, including the one that is about to be written. An archive takes 70 to 200 MB."""


def archive_options(java: str, spark_home: Path) -> str:
    """Return the JVM options for Spark's class archive: to load classes from it, or to write it when the JVM exits if it does not exist
    yet. Return an empty string if this JVM or this user cannot have an archive."""
    try:
        program = Path(java).resolve()
        if not (program.parents[1] / "lib" / "server" / "classes.jsa").is_file():
            return ""  # without the archive of the JVM's own classes, any other archive is useless
        directory = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "ottla"
        directory.mkdir(mode=0o700, parents=True, exist_ok=True)
        if directory.stat().st_uid != os.geteuid():
            return ""
        parts = (program, spark_home / "jars")
        key = sha256(repr([(str(each), each.stat().st_mtime_ns) for each in parts]).encode()).hexdigest()[:16]
        archive = directory / f"spark-{key}.jsa"
        if _has_header(archive):
            option = "SharedArchiveFile"
        else:
            option = "ArchiveClassesAtExit"
            others = [path for path in directory.glob("spark-*.jsa") if path != archive]
            for old in sorted(others, key=lambda path: path.stat().st_mtime_ns)[: -ARCHIVES_MAX + 1]:
                old.unlink()
    except (OSError, RuntimeError):  # RuntimeError: this user has no home
        return ""
    return f"-Xlog:cds*=off {shlex.quote(f'-XX:{option}={archive}')}"


def _has_header(archive: Path) -> bool:
    """Return whether the archive exists and is complete. In an incomplete archive, the first bytes are zero."""
    with suppress(FileNotFoundError), archive.open("rb") as file:
        return any(file.read(4))
    return False
