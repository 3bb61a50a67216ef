"""What can go wrong below the level of an answer to one request. An answer is `ottla.broker.core.rejected.Rejected`."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from ottla.broker.core.rejected import Rejected
from ottla.protocol.error_codes import ErrorCode


class FsyncFailed(OSError):
    """A sync failed, so what the page cache still holds is unknown: the process must stop and recover from the files.

    Retrying would lie: after a failed fsync Linux marks the pages clean, and the next fsync succeeds without having written them.
    """


def storage_error(what: str, error: Exception) -> Rejected:
    """What a client is told where the disk refused."""
    return Rejected(ErrorCode.KAFKA_STORAGE_ERROR, f"{what}: {error}")


class LogDirLocked(Exception):
    """Another broker, ours or Apache Kafka, holds the lock of this directory."""


class LogDirRefused(Exception):
    """The directory belongs to another cluster or node, or cannot be used at all. The message names the file and what it says."""


@dataclass(frozen=True, slots=True)
class Damage:
    """One piece of damage that a start found and repaired. `position` is a byte position in `file`, -1 when the whole file is meant."""

    file: Path
    reason: str
    position: int = -1
    bytes_dropped: int = 0

    def __str__(self) -> str:
        where = f" at byte {self.position}" if self.position >= 0 else ""
        dropped = f"; {self.bytes_dropped} bytes dropped" if self.bytes_dropped else ""
        return f"{self.file}{where}: {self.reason}{dropped}"
