"""The snapshots in the metadata log's directory, and the one being written.

Invariants:
- A snapshot gets its name only when it is complete and on disk; until then it is a `.part`, which every start removes.
- A snapshot is removed by renaming it to `.deleted`; the file is removed after a delay, because a fetch may still be reading it.

Source: Kafka's Snapshots, FileRawSnapshotWriter, KafkaRaftLog.recoverSnapshots.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Final

from ottla.broker.cluster.snapshots import Snapshot, SnapshotId, read_append_time, read_snapshot
from ottla.broker.storage.files import Files
from ottla.protocol.wire import Buffer

PARTIAL: Final = ".checkpoint.part"
DELETED: Final = ".checkpoint.deleted"
DELETE_DELAY_MS: Final = 60_000
_HEADER_BATCH_MAX: Final = 64 << 10
"""The maximum size in bytes of a snapshot's first batch, which has the snapshot's header and the voters."""


class SnapshotFiles:
    """The snapshots in the metadata log's directory. `ids` are those of the complete snapshots, oldest first."""

    def __init__(self, files: Files, directory: Path) -> None:
        self._files = files
        self._directory = directory
        self._files_to_delete: deque[tuple[int, Path]] = deque()
        self.ids: list[SnapshotId] = []

    @property
    def newest(self) -> SnapshotId | None:
        """The snapshot with the greatest end offset; None if there is none."""
        return self.ids[-1] if self.ids else None

    def load(self, log_start_offset: int) -> None:
        """List the snapshots. Remove incomplete and deleted files, and snapshots that end before `log_start_offset`. Raises OSError."""
        for entry in self._files.scan(self._directory):
            found = SnapshotId.of_file(entry.name)
            if entry.name.endswith((PARTIAL, DELETED)) or (found is not None and found.end_offset < log_start_offset):
                self._files.remove(self._directory / entry.name)
            elif found is not None:
                self.add(found)

    def add(self, snapshot: SnapshotId) -> None:
        """Add a snapshot to the list `ids`, because its file is complete."""
        self.ids = sorted({*self.ids, snapshot})

    def path(self, snapshot: SnapshotId) -> Path:
        """Return the path that a snapshot's file has or would have."""
        return self._directory / snapshot.file_name

    def read(self, snapshot: SnapshotId) -> Snapshot:
        """Return the decoded contents of a snapshot. Raises ProtocolError if it is corrupt, and OSError."""
        return read_snapshot(self._files.read_bytes(self.path(snapshot)))

    def append_time_ms(self, snapshot: SnapshotId) -> int:
        """Return the time (ms) at which the last record that the snapshot contains was appended to the log. Raises ProtocolError if the
        snapshot's first batch is corrupt, and OSError."""
        fd = self._files.open_read(self.path(snapshot))
        try:
            return read_append_time(self._files.pread(fd, _HEADER_BATCH_MAX, 0))
        finally:
            self._files.close(fd)

    def read_part(self, snapshot: SnapshotId, position: int, size: int) -> bytes:
        """Return up to `size` bytes of a snapshot from `position`. Raises OSError."""
        fd = self._files.open_read(self.path(snapshot))
        try:
            return bytes(self._files.pread(fd, size, position))
        finally:
            self._files.close(fd)

    def size_bytes(self, snapshot: SnapshotId) -> int:
        """Return the size of a snapshot's file. Raises OSError."""
        fd = self._files.open_read(self.path(snapshot))
        try:
            return self._files.size(fd)
        finally:
            self._files.close(fd)

    def begin(self, snapshot: SnapshotId) -> PartialSnapshot:
        """Start a new snapshot as a `.part` file, and return it. Raises OSError."""
        return PartialSnapshot(self._files, snapshot, self.path(snapshot))

    def write(self, snapshot: SnapshotId, batches: Iterable[bytes]) -> None:
        """Write a whole snapshot and sync it; runs on any thread. The caller then adds it to `ids` by `add`. Raises OSError."""
        part = self.begin(snapshot)
        try:
            for batch in batches:
                part.write(batch)
            part.freeze()
        except BaseException:
            part.drop()
            raise

    def forget_before(self, end_offset: int, now_ms: int) -> bool:
        """Remove the snapshots that end before `end_offset` from `ids`, and rename their files to `.deleted`. Return whether there were
        any. Raises OSError."""
        gone = [snapshot for snapshot in self.ids if snapshot.end_offset < end_offset]
        for snapshot in gone:
            path = self.path(snapshot)
            given_up = path.with_name(path.name + DELETED.removeprefix(".checkpoint"))
            self._files.rename(path, given_up)
            self.ids.remove(snapshot)
            self._files_to_delete.append((now_ms + DELETE_DELAY_MS, given_up))
        return bool(gone)

    def due_deletions(self, now_ms: int) -> Iterator[Path]:
        """Yield each `.deleted` file whose delay is over, once, for the caller to remove."""
        while self._files_to_delete and self._files_to_delete[0][0] <= now_ms:
            yield self._files_to_delete.popleft()[1]


class PartialSnapshot:
    """A snapshot of the metadata log that is being written to a `.part` file. Its owner finally calls `freeze` (complete it) or `drop`."""

    def __init__(self, files: Files, snapshot: SnapshotId, path: Path) -> None:
        self.snapshot = snapshot
        self._files = files
        self._path = path
        self._partial = path.with_name(path.name + PARTIAL.removeprefix(".checkpoint"))
        files.remove(self._partial)
        self._fd = files.open(self._partial)
        self._size = 0

    def write(self, data: Buffer) -> None:
        """Append bytes to the snapshot's `.part` file. Raises OSError."""
        self._files.pwrite(self._fd, [data], self._size)
        self._size += len(data)

    def freeze(self) -> None:
        """Complete the snapshot: sync it and rename it to its final name. Runs on any thread. Raises OSError."""
        self._files.fsync(self._fd)
        self._files.close(self._fd)
        self._files.rename(self._partial, self._path)
        self._files.sync_dir(self._path.parent)

    def drop(self) -> None:
        """Discard the incomplete snapshot, and remove its file. Raises OSError."""
        self._files.close(self._fd)
        self._files.remove(self._partial)
