"""The file `.lock`: one broker per directory, Ottla or Apache Kafka.

Java uses fcntl record locks. A process loses such a lock when it closes any descriptor of the file, and two locks of one process do not
conflict. Where the system has open-file-description locks, they are used instead: they have neither of these defects, and conflict with
Java's locks.
"""

from __future__ import annotations

import os
import struct
import sys
from pathlib import Path
from typing import Final

from ottla.broker.storage.errors import LogDirLocked, LogDirRefused

LOCK_FILE: Final = ".lock"


class DirLock:
    """The lock on a data directory's `.lock` file, held from the constructor to `release`, or to the end of the process. The constructor
    raises `LogDirLocked` if another broker holds the lock, and `LogDirRefused` if the file cannot be written.
    """

    __slots__ = ("_fd",)

    def __init__(self, directory: Path) -> None:
        path = directory / LOCK_FILE
        try:
            fd = os.open(path, os.O_RDWR | os.O_CREAT, 0o644)
        except OSError as e:
            raise LogDirRefused(f"{path} cannot be written: {e.strerror}") from e
        try:
            _lock(fd)
        except OSError as e:
            os.close(fd)
            raise LogDirLocked(f"{directory} is in use by another broker: it holds the lock of {path}") from e
        self._fd: int | None = fd

    def release(self) -> None:
        """Release the lock. A second call does nothing, because the descriptor's number may be in use again."""
        fd, self._fd = self._fd, None
        if fd is not None:
            os.close(fd)


if sys.platform == "win32":
    import msvcrt

    def _lock(fd: int) -> None:
        msvcrt.locking(fd, msvcrt.LK_NBLCK, 1)

else:
    import fcntl

    def _lock(fd: int) -> None:
        set_lock = getattr(fcntl, "F_OFD_SETLK", None)
        if set_lock is None:
            fcntl.lockf(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
        else:
            # struct flock: type, whence, start, length (0: all), pid (must be 0 for this kind)
            fcntl.fcntl(fd, set_lock, struct.pack("hhqqi4x", fcntl.F_WRLCK, os.SEEK_SET, 0, 0, 0))
