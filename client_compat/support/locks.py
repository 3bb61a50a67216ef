"""Locks between processes: what is fetched or built once is made by one of them, and the others wait."""

from __future__ import annotations

import fcntl
from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager
from pathlib import Path

MAVEN = Path(__file__).resolve().parents[2] / ".kafka" / "maven.lock"


@contextmanager
def locked(path: Path) -> Iterator[None]:
    """Hold `path` alone, also against other threads; its directory is made."""
    path.parent.mkdir(parents=True, exist_ok=True)
    with path.open("w") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        yield


def maven() -> AbstractContextManager[None]:
    """One Maven of this checkout at a time: two that fetch the same jar into their one repository can read each other's halves."""
    return locked(MAVEN)
