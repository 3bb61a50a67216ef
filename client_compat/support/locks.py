"""Locks between processes: one of them downloads or builds something, and the others wait."""

from __future__ import annotations

import fcntl
from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager
from pathlib import Path

MAVEN = Path(__file__).resolve().parents[2] / ".kafka" / "maven.lock"


@contextmanager
def locked(path: Path) -> Iterator[None]:
    """Lock `path` exclusively, also against other threads; its directory is created."""
    path.parent.mkdir(parents=True, exist_ok=True)
    with path.open("w") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        yield


def maven() -> AbstractContextManager[None]:
    """Allow one Maven of this checkout at a time: two that download the same jar to one repository can read partial files."""
    return locked(MAVEN)
