"""A sync of a log, split so that its blocking part can run on another thread.

`FlushTicket` has its own descriptors: the log may roll, be truncated or be deleted during the sync.
"""

from __future__ import annotations

import contextlib
from collections.abc import Sequence
from pathlib import Path

from ottla.broker.storage.errors import FsyncFailed
from ottla.broker.storage.files import Files


class FlushTicket:
    """A sync of a log that was begun: when the method `sync` returns, every record below `offset` is on disk.

    `generation` is the log's count of truncations at the beginning. If it differs when the sync has ended, the log was truncated meanwhile.
    """

    __slots__ = ("_directory", "_fds", "_files", "_paths", "generation", "offset")

    def __init__(
        self, files: Files, *, offset: int, generation: int, fds: Sequence[int], paths: Sequence[Path] = (), directory: Path | None = None
    ) -> None:
        self._files = files
        self.offset = offset
        self.generation = generation
        self._fds = list(fds)
        self._paths = paths
        self._directory = directory

    def sync(self) -> None:
        """Block until the log's records below `offset` are on disk. Raises `FsyncFailed`: it is then unknown which of them are."""
        try:
            for fd in self._fds:
                self._files.fsync(fd)
            for path in self._paths:
                with contextlib.suppress(FileNotFoundError):  # the segment was deleted meanwhile
                    self._files.sync_path(path)
            if self._directory is not None:
                with contextlib.suppress(FileNotFoundError):  # the partition was deleted meanwhile
                    self._files.sync_dir(self._directory)
                    self._files.sync_dir(self._directory.parent)  # the directory itself may be new and unsynced
        except OSError as e:
            raise FsyncFailed(*e.args) from e
        finally:
            self.close()

    def close(self) -> None:
        """Close the ticket's file descriptors. `sync` does so itself; call this for a ticket that will not be synced."""
        while self._fds:
            self._files.close(self._fds.pop())
