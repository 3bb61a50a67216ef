"""Storage's only access to the file system, so that a test can substitute a disk that fills up, fails or loses power.

Invariants: `pwrite` writes everything or raises; `pread` returns fewer bytes only at the end of the file; `write_atomic` leaves either the
old or the new content under the final name, also after a power loss. Every failure is an `OSError`.

A file with several hard links is shared with a fork (`ottla.broker.storage.fork`) or a backup and is never changed in place: `open` returns
a descriptor that cannot write, and `break_hard_links` replaces the directory entry by a copy, which can then be written.
"""

from __future__ import annotations

import contextlib
import os
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Final, NamedTuple, Protocol

from ottla.broker.storage.copying import copy_file
from ottla.broker.storage.dir_lock import DirLock
from ottla.protocol.wire import Buffer

_BINARY: Final = getattr(os, "O_BINARY", 0)  # Windows translates line ends without it
_PARTIAL_MAX: Final = 1 << 20  # a short write is repeated from a copy; this bounds the copy


class FileEntry(NamedTuple):
    name: str
    size: int
    is_dir: bool


class Lock(Protocol):
    """A broker's lock of its data directory."""

    def release(self) -> None:
        """Release the lock of the directory. A second call does nothing."""
        ...


class Files:
    """Access to the operating system's files. Tests replace it. Every failure is raised as an `OSError`."""

    def lock(self, directory: Path) -> Lock:
        """Lock an existing data directory for one broker, and return the lock. Raises `LogDirLocked` if another broker has locked it,
        `LogDirRefused` if the lock file cannot be written."""
        return DirLock(directory)

    def open(self, path: Path) -> int:
        """Open a file for reading and writing, and create it if it does not exist; return its descriptor. A file with several hard links is
        opened only for reading, because `break_hard_links` must copy it before a write."""
        fd = os.open(path, os.O_RDWR | os.O_CREAT | _BINARY, 0o644)
        if os.fstat(fd).st_nlink <= 1:
            return fd
        os.close(fd)
        return self.open_read(path)

    def break_hard_links(self, path: Path) -> None:
        """Replace a file that has several hard links by a synced copy, so that it can be changed; leave any other file alone.

        Descriptors that are open already still refer to the old file. Blocks for as long as the copy takes.
        """
        if links_of(path) <= 1:
            return
        copy = path.with_name(path.name + ".tmp")
        copy_file(path, copy)
        self.sync_path(copy)
        self.rename(copy, path)
        self.sync_dir(path.parent)

    def open_read(self, path: Path) -> int:
        return os.open(path, os.O_RDONLY | _BINARY)

    def close(self, fd: int) -> None:
        os.close(fd)

    def dup(self, fd: int) -> int:
        return os.dup(fd)

    def pread(self, fd: int, size: int, position: int) -> bytes:
        """Return `size` bytes of the file from `position`, fewer only at the end of the file."""
        data = read_some(fd, size, position)
        if len(data) == size or not data:
            return data
        parts = [data]
        got = len(data)
        while got < size:
            data = read_some(fd, size - got, position + got)
            if not data:
                break
            parts.append(data)
            got += len(data)
        return b"".join(parts)

    def pwrite(self, fd: int, buffers: Sequence[Buffer], position: int) -> None:
        """Write all `buffers` at `position`, one after the other; after an `OSError` the file may have any prefix of them."""
        left = written = write_some(fd, buffers, position)
        for buffer in buffers:  # takes half as long as `sum`
            left -= len(buffer)
        if left:
            self._pwrite_rest(fd, buffers, position, written)

    def _pwrite_rest(self, fd: int, buffers: Sequence[Buffer], position: int, written: int) -> None:
        start = 0
        for buffer in buffers:
            view = memoryview(buffer)
            at = max(written - start, 0)
            while at < len(view):
                at += write_some(fd, [view[at : at + _PARTIAL_MAX]], position + start + at)
            start += len(view)

    def truncate(self, fd: int, size: int) -> None:
        os.ftruncate(fd, size)

    def fsync(self, fd: int) -> None:
        os.fsync(fd)

    def sync_path(self, path: Path) -> None:
        """Write the content of a file, given by name, to disk (fsync)."""
        fd = os.open(path, os.O_RDWR | _BINARY)
        try:
            self.fsync(fd)
        finally:
            os.close(fd)

    def sync_dir(self, path: Path) -> None:
        """Make created, renamed and removed names of a directory durable. Windows has no such call and needs none."""
        if sys.platform == "win32":
            return
        fd = os.open(path, os.O_RDONLY)
        try:
            self.fsync(fd)
        finally:
            os.close(fd)

    def size(self, fd: int) -> int:
        return os.fstat(fd).st_size

    def mtime_ms(self, path: Path) -> int:
        return path.stat().st_mtime_ns // 1_000_000

    def set_mtime_ms(self, path: Path, mtime_ms: int) -> None:
        os.utime(path, (mtime_ms / 1000, mtime_ms / 1000))

    def exists(self, path: Path) -> bool:
        return path.exists()

    def read_bytes(self, path: Path) -> bytes:
        fd = self.open_read(path)  # a third of the time of Path.read_bytes, and a start reads five files of each partition
        try:
            return self.pread(fd, self.size(fd), 0)
        finally:
            self.close(fd)

    def write(self, path: Path, data: Buffer, *, sync: bool) -> None:
        """Replace a file's content in place, and sync it if `sync`. This is not atomic: it is only for files with a checksum, which readers
        reject if they were partly written."""
        if links_of(path) > 1:
            self.remove(path)
        fd = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | _BINARY, 0o644)
        try:
            self.pwrite(fd, [data], 0)
            if sync:
                self.fsync(fd)
        finally:
            os.close(fd)

    def write_atomic(self, path: Path, data: Buffer, *, sync: bool = True) -> None:
        """Replace a file atomically: write a temporary file, sync it, rename it and sync the directory, as Kafka does for checkpoints
        (CheckpointFile).

        Without `sync` a process crash still leaves the old or the new content; a power loss may leave an empty file until it is synced.
        """
        temporary = path.with_name(path.name + ".tmp")
        self.write(temporary, data, sync=sync)
        self.rename(temporary, path)
        if sync:
            self.sync_dir(path.parent)

    def rename(self, old: Path, new: Path) -> None:
        old.replace(new)

    def remove(self, path: Path) -> None:
        """Remove a file, if it exists."""
        path.unlink(missing_ok=True)

    def scan(self, path: Path) -> list[FileEntry]:
        with os.scandir(path) as entries:
            return sorted(_entry(entry) for entry in entries)

    def make_dir(self, path: Path) -> None:
        path.mkdir(parents=True, exist_ok=True)

    def remove_tree(self, path: Path) -> None:
        """Remove a directory with its contents, if it exists."""
        import shutil  # noqa: PLC0415 # it imports two compressors, and few starts remove anything

        with contextlib.suppress(FileNotFoundError):
            shutil.rmtree(path)


def links_of(path: Path) -> int:
    """Return the number of a file's hard links, 0 if it does not exist."""
    try:
        return path.stat().st_nlink
    except FileNotFoundError:
        return 0


def _entry(entry: os.DirEntry[str]) -> FileEntry:
    if entry.is_dir(follow_symlinks=False):
        return FileEntry(entry.name, 0, True)
    return FileEntry(entry.name, entry.stat().st_size, False)


if sys.platform == "win32":

    def read_some(fd: int, size: int, position: int) -> bytes:
        os.lseek(fd, position, os.SEEK_SET)
        return os.read(fd, size)

    def write_some(fd: int, buffers: Sequence[Buffer], position: int) -> int:
        os.lseek(fd, position, os.SEEK_SET)
        return os.write(fd, b"".join(buffers))

else:
    read_some = os.pread
    write_some = os.pwritev


FILES: Final = Files()
