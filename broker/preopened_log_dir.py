"""Opens a copy of a data directory and reads its metadata log while the broker still runs on the directory in use. When the broker then
returns to the state in the copy, the copy is renamed to the data directory, and the start need not read it again.

Invariants:
- The logs get the paths that they will have after the renaming. Until `activate`, every access to one of these paths goes to the copy,
  never to the directory in use, and no file stays open.
- The copy is locked only by `activate`: before, no other process knows it. If it is never activated, it can be opened again, because it
  still has its clean-shutdown marker.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

from ottla.broker.cluster.image_feed import ImageFeed
from ottla.broker.cluster.topic_names import CLUSTER_METADATA
from ottla.broker.core.rejected import Rejected
from ottla.broker.core.settings import BrokerSettings
from ottla.broker.core.settings_load import data_dir
from ottla.broker.environment import Environment
from ottla.broker.faults.disk import FillableFiles
from ottla.broker.faults.engine import Faults
from ottla.broker.runtime.quorum.sole_voter import ReadMetadata, read_metadata
from ottla.broker.storage.errors import LogDirRefused
from ottla.broker.storage.files import Files, Lock
from ottla.broker.storage.log_dir import CLEAN_SHUTDOWN, LogDir
from ottla.broker.storage.partition_log import PartitionLog
from ottla.broker.storage.raft_log import RaftLog
from ottla.protocol.errors import ProtocolError


class PreopenedLogDir:
    """A standalone node's next data directory, opened at its temporary path `copy`. `now_ms` is the wall-clock time at which the broker
    will start on the copy. `metadata` is the content of the directory's metadata log, None if there is no such log.

    The constructor can run on any thread. It raises LogDirRefused if the copy is no valid data directory, OSError if it cannot be read.
    """

    def __init__(self, settings: BrokerSettings, faults: Faults, environment: Environment, copy: Path, now_ms: int) -> None:
        self._path = path = data_dir(settings)
        self._settings, self._below = settings, environment.files
        self._moving = _RedirectedFiles(environment.files, path, copy)
        self._files = FillableFiles(faults, self._moving)
        self._log_dir = LogDir.open(
            path, settings, now_ms, files=self._files, random_bytes=environment.random.randbytes, threads=environment.threads
        )
        if self._log_dir.was_clean:
            self._log_dir.mark_as_clean(path)
        log = self._log_dir.logs.get((CLUSTER_METADATA, 0))
        self.metadata = None if log is None else _read(log, now_ms)

    def activate(self, settings: BrokerSettings, environment: Environment) -> LogDir | None:
        """Lock the directory, which the caller has renamed to its final path, and return the open LogDir. Return None if the LogDir was
        opened with settings or files other than the given ones; the caller must then open the directory again. Raises LogDirLocked if
        another process has the lock, LogDirRefused if the lock cannot be taken."""
        if settings != self._settings or environment.files is not self._below:
            return None
        self._moving.activate()
        self._files.apply_rules()
        self._files.remove(self._path / CLEAN_SHUTDOWN)
        self._files.sync_dir(self._path)
        self._log_dir.settings = settings
        return self._log_dir


def _read(log: PartitionLog, now_ms: int) -> ReadMetadata:
    try:
        return read_metadata(RaftLog(log, now_ms=now_ms), ImageFeed())
    except (ProtocolError, Rejected) as error:
        raise LogDirRefused(f"{log.directory}: {error}") from error
    finally:
        log.release()


class _RedirectedFiles(Files):
    """Access to `files` in which paths below `path` are redirected to `copy` until `activate` is called."""

    def __init__(self, files: Files, path: Path, copy: Path) -> None:
        self._path, self._copy, self._deferred_lock = path, copy, _DeferredLock(files)
        self._moved = False
        for name in vars(Files):
            if not name.startswith("_") and name != "lock":
                method = getattr(files, name)
                takes_path = any(annotation == "Path" for annotation in getattr(Files, name).__annotations__.values())
                self.__dict__[name] = self._redirect(method) if takes_path else method

    def lock(self, directory: Path) -> Lock:
        self._deferred_lock.directory = directory
        return self._deferred_lock

    def activate(self) -> None:
        """Lock the directory. From now on, paths are no longer redirected to the copy."""
        self._deferred_lock.acquire()
        self._moved = True

    def _redirect(self, method: Callable[..., Any]) -> Callable[..., Any]:
        def redirected(*args: Any, **options: Any) -> Any:
            return method(*args, **options) if self._moved else method(*map(self._in_copy, args), **options)

        return redirected

    def _in_copy(self, argument: Any) -> Any:
        return self._copy / argument.relative_to(self._path) if isinstance(argument, Path) else argument


class _DeferredLock:
    """The lock of a directory, which is taken only when `acquire` is called, not when the object is made."""

    def __init__(self, files: Files) -> None:
        self._files = files
        self._lock: Lock | None = None
        self.directory: Path

    def acquire(self) -> None:
        """Take the lock of the directory. Raises LogDirLocked if another process has it, LogDirRefused if it cannot be taken."""
        self._lock = self._files.lock(self.directory)

    def release(self) -> None:
        if self._lock is not None:
            self._lock.release()
