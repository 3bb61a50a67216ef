"""A log of single records in a list, with real leader epochs: the interface that replication needs, without a disk."""

from __future__ import annotations

from pathlib import Path
from typing import NamedTuple

from ottla.broker.sim.memory_files import MemoryFiles
from ottla.broker.storage.leader_epochs import LeaderEpochs


class Entry(NamedTuple):
    epoch: int
    value: int


class ListLog:
    """A stand-in for a replica's log that holds single records in a list: `entries[i]` is at offset `log_start_offset + i`."""

    def __init__(self, *epochs: int, start: int = 0, high_watermark: int = 0) -> None:
        """Make a log with one record of each of `epochs`, in this order."""
        self.log_start_offset = start
        self.high_watermark = high_watermark
        self.entries: list[Entry] = []
        self.epochs = LeaderEpochs(MemoryFiles(), Path("/"))
        for epoch in epochs:
            self.append(Entry(epoch, 0))

    @property
    def log_end_offset(self) -> int:
        return self.log_start_offset + len(self.entries)

    def append(self, entry: Entry) -> None:
        self.epochs.assign(entry.epoch, self.log_end_offset)
        self.entries.append(entry)

    def read(self, offset: int, count: int) -> list[Entry]:
        return self.entries[offset - self.log_start_offset :][:count]

    def truncate_to(self, offset: int) -> None:
        del self.entries[max(0, offset - self.log_start_offset) :]
        self.epochs.truncate_from_end(self.log_end_offset)

    def restart_at(self, offset: int) -> None:
        self.entries.clear()
        self.epochs.clear()
        self.log_start_offset = offset
