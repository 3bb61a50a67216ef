"""Errors of storage that are not sent to clients. For an error that a client gets, storage raises `ottla.broker.core.rejected.Rejected`."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from ottla.broker.core.rejected import Rejected
from ottla.protocol.error_codes import ErrorCode


class FsyncFailed(OSError):
    """Raised when a sync failed. The contents of the page cache are then unknown: the process must stop, and recover from the files at its
    next start.

    A retry would be wrong: after a failed fsync Linux marks the pages clean, and the next fsync succeeds without having written them.
    """


def storage_error(what: str, error: Exception) -> Rejected:
    """Return the exception `Rejected` (KAFKA_STORAGE_ERROR) for a request that failed with the disk error `error`. `what` describes the
    failed operation, for the message."""
    return Rejected(ErrorCode.KAFKA_STORAGE_ERROR, f"{what}: {error}")


class LogDirLocked(Exception):
    """Raised when another broker, Ottla or Apache Kafka, holds the lock of the data directory."""


class LogDirRefused(Exception):
    """Raised when the data directory belongs to another cluster or node, or is unusable. The message names the file and the reason."""


@dataclass(frozen=True, slots=True)
class Damage:
    """Damage that was found and repaired when the data directory was opened. `position` is a byte position in `file`, -1 for the
    whole file."""

    file: Path
    reason: str
    position: int = -1
    bytes_dropped: int = 0

    def __str__(self) -> str:
        where = f" at byte {self.position}" if self.position >= 0 else ""
        dropped = f"; {self.bytes_dropped} bytes dropped" if self.bytes_dropped else ""
        return f"{self.file}{where}: {self.reason}{dropped}"
