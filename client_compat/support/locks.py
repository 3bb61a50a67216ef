"""Locks between processes: one of them downloads or builds something, and the others wait."""

from __future__ import annotations

import fcntl
from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager
from pathlib import Path

MAVEN = Path(__file__).resolve().parents[2] / ".kafka" / "maven.lock"


@contextmanager
def locked(path: Path) -> Iterator[None]:
    """Hold an exclusive lock of the file `path` while the context lasts, also against other threads. The file's directory is created if
    needed."""
    path.parent.mkdir(parents=True, exist_ok=True)
    with path.open("w") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        yield


def maven() -> AbstractContextManager[None]:
    """Return a context in which no other process of this checkout runs Maven: two Mavens that download the same jar to one repository can
    read partial files."""
    return locked(MAVEN)
