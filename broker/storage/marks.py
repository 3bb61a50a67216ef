"""Marks: saved states to which a broker can be rewound. Each is a copy of the broker's data directory, made by
`ottla.broker.storage.fork` and stored beside it.

Invariants:
- A mark is never used as a data directory. A broker gets a copy of the mark, which a thread makes and opens in advance. So a rewind is
  one rename and a broker's start that need not open the logs.
- The data directory and the copy are exchanged in one step, so a killed process leaves either the old or the new state. Where the system
  cannot exchange names, three renames do it.
- The process locks the directory with its marks. If the lock is free, the process was killed, and another one may remove them.
"""

from __future__ import annotations

import asyncio
import ctypes
import os
import shutil
import sys
import tempfile
import weakref
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Final, Generic, TypeVar

from ottla.broker.storage.dir_lock import DirLock
from ottla.broker.storage.errors import LogDirLocked, LogDirRefused
from ottla.broker.storage.fork import fork

_AT_FDCWD: Final = -100
_RENAME_EXCHANGE: Final = 2
OPENED_MAX: Final = 8
"""The maximum number of copies whose logs are opened in advance: those of the newest marks (saved states). Each takes 6 KB of memory per
partition; a rewind to any other mark opens its logs first."""

T = TypeVar("T")


@dataclass(frozen=True, slots=True, eq=False)
class Mark:
    """A saved state of the broker's data directory, to which the broker can be rewound. `now_ms` is the broker's clock when the mark was
    made."""

    directory: Path
    now_ms: int
    histories: Sequence[tuple[int, int, int, int]]
    """For each broker, how much of what its clients did had been recorded at the mark (`testing.history.History.length`). A rewind
    drops what was recorded later. Empty if no history is recorded."""
    incarnations: Mapping[int, bytes]
    """The incarnation id of each cluster broker, by node id."""


class Marks(Generic[T]):
    """The marks (saved states) of the broker that uses `data_dir`. They are removed by `discard`, or at the end of the process.

    `preopen(copy, now_ms)` runs on a thread and opens the copy of a mark that will be the next data directory; `now_ms` is the time of the
    mark. It must leave no file open, and may raise LogDirRefused or OSError.
    """

    def __init__(self, data_dir: Path, preopen: Callable[[Path, int], T] | None = None) -> None:
        self._data_dir, self._preopen = data_dir, preopen
        self._root = Path(tempfile.mkdtemp(prefix=_prefix(data_dir), dir=data_dir.parent))
        self._lock = DirLock(self._root)
        self._copies: dict[Mark, Future[Path]] = {}
        self._discarded: dict[Mark, Path] = {}
        """By mark, the former data directory, which `restore` has replaced by the mark's copy. `copy_again` removes this directory and
        makes the mark's next copy."""
        self._opened: dict[Mark, T] = {}
        self._made = 0
        self._pool = ThreadPoolExecutor(1, "ottla-marks")
        self._pool.submit(remove_left, data_dir)
        self._remove = weakref.finalize(self, shutil.rmtree, self._root, ignore_errors=True)

    def __contains__(self, mark: Mark) -> bool:
        return mark in self._copies

    def add(
        self,
        now_ms: int,
        mark_as_clean: Callable[[Path], object],
        histories: Sequence[tuple[int, int, int, int]] = (),
        incarnations: Mapping[int, bytes] | None = None,
    ) -> Mark:
        """Make a mark (a saved state): fork the data directory, which must be saved (`LogDir.save`) and must not change meanwhile. Return
        the mark. Raises ForkRefused if the directory cannot be copied.

        `mark_as_clean` is called with the finished fork, to write the clean-shutdown marker there. `histories` and `incarnations` are
        stored in the mark.
        """
        self._made += 1
        mark = Mark(self._root / f"{self._made}", now_ms, histories, incarnations or {})
        fork(self._data_dir, mark.directory, finish=mark_as_clean)
        self._copies[mark] = self._pool.submit(self._copied, mark)
        return mark

    async def prepared(self, mark: Mark) -> None:
        """Wait until a thread has made the copy of the mark (a saved state) that `restore` uses, so that `restore` does not block. Raises
        ForkRefused or OSError if the copy cannot be made."""
        self.copy_again()
        await asyncio.wrap_future(self._copies[mark])

    def remove(self, mark: Mark) -> None:
        """Remove a mark (a saved state) and its files. The thread that makes the copies deletes the files."""
        self.copy_again()
        copy = self._copies.pop(mark)

        def clear() -> None:
            self._opened.pop(mark, None)
            for directory in (mark.directory, *(() if copy.cancelled() or copy.exception() else (copy.result(),))):
                shutil.rmtree(directory, ignore_errors=True)

        self._pool.submit(clear)  # on the thread that makes the copy, after it

    def restore(self, mark: Mark) -> T | None:
        """Replace the data directory, which no broker may be using, by a copy of the mark (a saved state). Return the result of `preopen`
        for that copy, or None if the copy was not opened in advance. Call `copy_again` once the broker has started. Raises ForkRefused or
        OSError if the copy cannot be made or renamed."""
        self.copy_again()
        copy = self._copies[mark].result()
        opened = self._opened.pop(mark, None)
        exchange(copy, self._data_dir)
        self._discarded[mark] = copy
        return opened

    def copy_again(self) -> None:
        """Let the thread make new copies of the marks (saved states) whose copies `restore` has used.

        Call this after the broker's start, because copying slows down a start in the same process. If it is not called after `restore`,
        because the start failed, the next `prepared`, `remove` or `restore` calls it.
        """
        while self._discarded:
            mark, discarded = self._discarded.popitem()
            self._copies[mark] = self._pool.submit(self._copied, mark, discarded)

    def _copied(self, mark: Mark, discarded: Path | None = None) -> Path:
        if discarded is not None:
            shutil.rmtree(discarded)
        target = mark.directory.with_name(f"{mark.directory.name}-copy")
        fork(mark.directory, target)
        if self._preopen is not None:
            for other in list(self._opened)[: max(0, len(self._opened) + 1 - OPENED_MAX)]:
                self._opened.pop(other, None)
            with suppress(LogDirRefused, OSError):  # the broker's start finds the same and reports it
                self._opened[mark] = self._preopen(target, mark.now_ms)
        return target

    def discard(self) -> None:
        """Remove all marks (saved states) with their files, and release the lock of the directory that has them."""
        self._copies.clear()
        self._discarded.clear()
        self._opened.clear()
        self._pool.shutdown(cancel_futures=True)
        self._lock.release()
        self._remove()


def remove_left(data_dir: Path) -> None:
    """Remove the marks (saved states) that killed processes left behind beside a data directory: those whose lock is free."""
    for entry in data_dir.parent.iterdir():
        if entry.name.startswith(_prefix(data_dir)) and entry.is_dir() and not entry.is_symlink():
            with suppress(LogDirLocked, LogDirRefused, OSError):
                DirLock(entry).release()  # it stays free: a new process makes a new directory
                shutil.rmtree(entry)


def _prefix(data_dir: Path) -> str:
    return f".{data_dir.name}-marks-"


def exchange(one: Path, other: Path) -> None:
    """Exchange the names of two directories of one file system, in one step where the system can do that. Raises `OSError`."""
    if sys.platform == "linux" and _renameat2(one, other):
        return
    aside = one.with_name(f"{one.name}-aside")
    other.rename(aside)
    one.rename(other)
    aside.rename(one)


def _renameat2(one: Path, other: Path) -> bool:
    """Exchange the names of two directories by the system call renameat2. Return False if that fails, for example because the kernel, the C
    library or the file system does not support it."""
    call = getattr(ctypes.CDLL(None, use_errno=True), "renameat2", None)
    return call is not None and not call(_AT_FDCWD, os.fsencode(one), _AT_FDCWD, os.fsencode(other), _RENAME_EXCHANGE)
