"""`<offset>.snapshot`: the state of a partition's producers after the batches below that offset (Kafka's ProducerStateManager).

Invariants: a snapshot has only each producer's newest batch; earlier ones are read from the log (`producer_replay.find_duplicate`). An
invalid snapshot is removed, never repaired.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Final

from ottla.broker.storage.files import Files
from ottla.broker.storage.producer_state import BatchMetadata, ProducerStateEntry
from ottla.protocol.errors import ProtocolError
from ottla.protocol.producer_snapshot import COUNT, ENTRY, HEAD, VERSION, entries_of
from ottla.protocol.records.crc32c import crc32c

SUFFIX: Final = ".snapshot"


class CorruptSnapshot(Exception):
    """Raised when a file is not a producer snapshot of a known version."""


def encode_snapshot(entries: Iterable[ProducerStateEntry]) -> bytes:
    """Return the bytes of a snapshot file with these producers' states."""
    rows = [
        ENTRY.pack(
            e.producer_id,
            e.producer_epoch,
            e.last_sequence,
            e.last_offset,
            e.last_offset_delta,
            e.last_timestamp,
            e.coordinator_epoch,
            e.current_txn_first_offset,
        )
        for e in entries
    ]
    body = COUNT.pack(len(rows)) + b"".join(rows)
    return HEAD.pack(VERSION, crc32c(body)) + body


def decode_snapshot(data: bytes) -> list[ProducerStateEntry]:
    """Return the producers' states in the bytes of a snapshot file. Raises `CorruptSnapshot` if the bytes are invalid."""
    try:
        return list(_entries(entries_of(data)))
    except ProtocolError as e:
        raise CorruptSnapshot(str(e)) from e


def _entries(rows: memoryview) -> Iterator[ProducerStateEntry]:
    for pid, epoch, sequence, offset, delta, timestamp, coordinator_epoch, txn_first_offset in ENTRY.iter_unpack(rows):
        entry = ProducerStateEntry(pid, epoch, coordinator_epoch, timestamp, txn_first_offset)
        if offset >= 0:
            entry.batches.append(BatchMetadata(sequence, offset, delta, timestamp))
            entry.older_in_log = True
        yield entry


class ProducerSnapshots:
    """The producer snapshot files in one partition's directory. `offsets` has the offset at which each was taken; `unsynced` those of files
    that are not synced yet."""

    __slots__ = ("_directory", "_files", "offsets", "unsynced")

    def __init__(self, files: Files, directory: Path, offsets: Iterable[int] = ()) -> None:
        self._files = files
        self._directory = directory
        self.offsets = set(offsets)
        self.unsynced: set[int] = set()

    def path(self, offset: int) -> Path:
        return self._directory / f"{offset:020d}{SUFFIX}"

    @property
    def latest(self) -> int | None:
        return max(self.offsets, default=None)

    def take(self, entries: Iterable[ProducerStateEntry], offset: int, *, sync: bool) -> bool:
        """Write the producers' states `entries` as the snapshot at `offset`, unless a snapshot at this or a later offset exists. Return
        whether it was written. Raises `OSError`."""
        latest = self.latest
        if latest is not None and offset <= latest:
            return False
        self._files.write(self.path(offset), encode_snapshot(entries), sync=sync)
        self.offsets.add(offset)
        if not sync:
            self.unsynced.add(offset)
        return True

    def newest(self, at_most: int) -> int | None:
        """Return the offset of the newest snapshot at or below `at_most`, None if there is none."""
        return max((o for o in self.offsets if o <= at_most), default=None)

    def read(self, offset: int) -> list[ProducerStateEntry]:
        """Return the producers' states in the snapshot at `offset`. Raises `CorruptSnapshot` if the file is invalid, and `OSError`."""
        return decode_snapshot(self._files.read_bytes(self.path(offset)))

    def remove(self, offset: int) -> None:
        self._files.remove(self.path(offset))
        self.offsets.discard(offset)
        self.unsynced.discard(offset)

    def forget(self, offset: int) -> Path | None:
        """Remove the snapshot at `offset` from `offsets`. Return its path, so that the caller removes the file; None if there is no such
        snapshot."""
        if offset not in self.offsets:
            return None
        self.offsets.discard(offset)
        self.unsynced.discard(offset)
        return self.path(offset)

    def remove_above(self, end: int) -> None:
        """Remove the snapshots at offsets above `end`, after a truncation of the log."""
        for offset in [o for o in self.offsets if o > end]:
            self.remove(offset)

    def remove_strays(self, bases: Iterable[int]) -> None:
        """Remove the snapshots that are not at a segment's base offset, except the newest one if it is beyond the last base offset
        (ProducerStateManager.removeStraySnapshots)."""
        known = set(bases)
        strays = sorted(self.offsets - known)
        if strays and strays[-1] > max(known, default=-1):
            strays.pop()
        for offset in strays:
            self.remove(offset)
