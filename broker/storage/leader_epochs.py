"""The start offset of each leader epoch: `leader-epoch-checkpoint` (Kafka's LeaderEpochFileCache).

Invariants: entries strictly increase in epoch and in start offset; the file has the same entries and is rewritten with every change. The
log's flush syncs it. A power loss before that costs nothing, because recovery reads the epochs from the unflushed batches.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterable
from itertools import pairwise
from pathlib import Path
from typing import Final, NamedTuple

from ottla.broker.storage.checkpoint_file import CorruptCheckpoint, decode_lines, encode_lines, number
from ottla.broker.storage.files import Files

FILE_NAME: Final = "leader-epoch-checkpoint"
UNDEFINED: Final = -1


class EpochStart(NamedTuple):
    epoch: int
    start_offset: int


def decode_epochs(data: bytes) -> list[EpochStart]:
    """Return the entries (epoch, start offset) in the bytes of a leader-epoch-checkpoint file. Raises `CorruptCheckpoint` if the bytes have
    another format."""
    entries = [EpochStart(number(epoch, at), number(start, at)) for at, (epoch, start) in enumerate(decode_lines(data, 2), 3)]
    for line, (before, after) in enumerate(pairwise(entries), 4):
        if after.epoch <= before.epoch or after.start_offset <= before.start_offset:
            raise CorruptCheckpoint(f"line {line}: {after} after {before}")
    return entries


class LeaderEpochs:
    """The leader epochs of one log, with their start offsets. `in_memory` is true for a log whose directory does not exist yet: no file is
    written until `begin_file` is called."""

    __slots__ = ("_directory", "_entries", "_files", "_in_memory", "latest", "synced")

    def __init__(self, files: Files, directory: Path, entries: Iterable[EpochStart] = (), *, in_memory: bool = False) -> None:
        self._files = files
        self._directory = directory
        self._entries = list(entries)
        self.latest = self._entries[-1].epoch if self._entries else UNDEFINED
        """The greatest epoch in the list, -1 if the list is empty."""
        self.synced = False
        self._in_memory = in_memory

    @property
    def path(self) -> Path:
        return self._directory / FILE_NAME

    @property
    def entries(self) -> tuple[EpochStart, ...]:
        return tuple(self._entries)

    def assign(self, epoch: int, start_offset: int) -> None:
        """Record that `epoch` begins at `start_offset`, and rewrite the file. Raises `OSError`.

        First, all entries with the same or a greater epoch, or with the same or a greater start offset, are removed. Nothing changes if
        `epoch` is negative, or if it is the latest epoch and its recorded start offset is not greater than `start_offset`.
        """
        last = self._entries[-1] if self._entries else None
        if epoch < 0 or (last is not None and epoch == last.epoch and start_offset >= last.start_offset):
            return
        kept = [e for e in self._entries if e.epoch < epoch and e.start_offset < start_offset]
        self._replace([*kept, EpochStart(epoch, start_offset)])

    def note(self, epoch: int, start_offset: int) -> None:
        """Record an epoch's start during recovery, without writing the file; `save` does that.

        Entries of the file with this start offset or a later one are removed: a power loss destroyed their records, but not the file.
        """
        if epoch > self.latest:
            while self._entries and self._entries[-1].start_offset >= start_offset:
                self._entries.pop()
            self._entries.append(EpochStart(epoch, start_offset))
            self.latest = epoch

    def epoch_at(self, offset: int) -> int:
        """Return the leader epoch of the record at `offset`, -1 if unknown."""
        number = bisect_right(self._entries, offset, key=lambda e: e.start_offset) - 1
        return self._entries[number].epoch if number >= 0 else UNDEFINED

    def end_offset_for(self, epoch: int, log_end_offset: int) -> tuple[int, int]:
        """Return (the greatest known epoch <= `epoch`, the offset at which that epoch ends) (KIP-101). The latest epoch ends at
        `log_end_offset`.

        For an epoch before the first known one, return it with the start offset of the first. For an epoch after the latest one, return
        (-1, -1).
        """
        if epoch == UNDEFINED or epoch > self.latest:
            return UNDEFINED, UNDEFINED
        if epoch == self.latest:
            return epoch, log_end_offset
        following = bisect_right(self._entries, epoch, key=lambda e: e.epoch)
        if following == len(self._entries):  # a negative epoch in a request about a log without epochs
            return UNDEFINED, UNDEFINED
        found = epoch if following == 0 else self._entries[following - 1].epoch
        return found, self._entries[following].start_offset

    def truncate_from_end(self, end_offset: int) -> None:
        """Remove the leader epochs that begin at or after `end_offset`, and rewrite the file. Raises `OSError`."""
        kept = [e for e in self._entries if e.start_offset < end_offset]
        if len(kept) < len(self._entries):
            self._replace(kept)

    def truncate_from_start(self, start_offset: int) -> None:
        """Remove the leader epochs that end at or before `start_offset`; the epoch that contains this offset then begins there. Raises
        `OSError`."""
        below = [e for e in self._entries if e.start_offset < start_offset]
        if not below:
            return
        above = self._entries[len(below) :]
        if above and above[0].start_offset == start_offset:
            self._replace(above)
        else:
            self._replace([EpochStart(below[-1].epoch, start_offset), *above])

    def clear(self) -> None:
        if self._entries:
            self._replace([])

    def begin_file(self) -> None:
        """Write the file, unsynced, after the directory of a log that was only in memory was created. A crash may leave the file empty.

        Raises `OSError`.
        """
        self._files.write(self.path, self._encoded(), sync=False)
        self._in_memory = False

    def save(self) -> None:
        """Write the leader-epoch-checkpoint file, unsynced; do nothing for a log that is only in memory. Raises `OSError`."""
        if self._in_memory:
            return
        self._files.write_atomic(self.path, self._encoded(), sync=False)
        self.synced = False

    def _encoded(self) -> bytes:
        return encode_lines(f"{e.epoch} {e.start_offset}" for e in self._entries)

    def _replace(self, entries: list[EpochStart]) -> None:
        before, self._entries = self._entries, entries
        try:
            self.save()
        except OSError:
            self._entries = before  # else the next call would find the entry here, and nothing would write it
            raise
        self.latest = entries[-1].epoch if entries else UNDEFINED
