"""A simulated disk in memory, which can fill up, fail, become read-only, and lose power. It passes the same test suite as real files
(test_files.py).

After a power loss, a file has the contents that it had at its last fsync, and a directory has the file names that it had at its last fsync.
"""

from __future__ import annotations

import errno
import os
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from random import Random

from ottla.broker.storage.errors import LogDirLocked
from ottla.broker.storage.files import FileEntry, Files
from ottla.protocol.wire import Buffer


@dataclass
class FileNode:
    data: bytearray = field(default_factory=bytearray)
    synced: bytes = b""
    mtime_ms: int = 0


@dataclass
class MemoryLock:
    locked: set[Path]
    directory: Path

    def release(self) -> None:
        self.locked.discard(self.directory)


class MemoryFiles(Files):
    """A simulated disk: files in memory. `room` is the number of bytes that can still be written before ENOSPC; None: no limit.
    `on_call(operation, path)` is called before each operation; it may raise an error to make the operation fail."""

    def __init__(self) -> None:
        self.nodes: dict[Path, FileNode] = {}
        self.dirs: set[Path] = {Path("/")}
        self.durable: dict[Path, FileNode] = {}
        self.locked: set[Path] = set()
        self.fds: dict[int, tuple[FileNode, Path]] = {}
        self.renamed_dirs: list[tuple[Path, Path]] = []
        """Renamed directories whose parent directory has not been synced since, as (old path, new path). A power loss undoes these
        renames."""
        self.room: int | None = None
        self.on_call: Callable[[str, Path], None] = lambda operation, path: None
        self._next_fd = 1000

    # --- faults ----------------------------------------------------------------------------------------------------------------

    def make_read_only(self) -> None:
        def refuse(operation: str, path: Path) -> None:
            if operation not in {"read", "fsync"}:
                raise OSError(errno.EROFS, os.strerror(errno.EROFS), str(path))

        self.on_call = refuse

    def heal(self) -> None:
        self.room = None
        self.on_call = lambda operation, path: None

    def process_died(self) -> None:
        """The process that used this disk was killed: close its file descriptors and release its locks. All written data stays, synced or
        not."""
        self.fds.clear()
        self.locked.clear()

    def power_loss(self, random: Random | None = None) -> None:
        """Lose everything that was not synced, as in a power failure; also close the process's file descriptors and release its locks. With
        `random`, some unsynced data survives, as on a real disk: a prefix of the appended bytes, the old or the new content of a rewritten
        file, and all or none of a directory's changes."""
        self.process_died()
        for old, new in reversed(self.renamed_dirs):
            self.dirs = (self.dirs - {new}) | {old}
        renamed = {path for pair in self.renamed_dirs for path in pair}
        self.renamed_dirs.clear()
        names = self.durable
        if random is not None:
            kept = {parent for parent in sorted({path.parent for path in self.nodes} - renamed) if random.random() < 0.5}
            names = {path: node for path, node in names.items() if path.parent not in kept}
            names |= {path: node for path, node in self.nodes.items() if path.parent in kept}
        self.nodes, self.durable = dict(names), dict(names)
        for node in names.values():
            node.synced = _survived(node, random)
            node.data = bytearray(node.synced)

    # --- the interface of Files --------------------------------------------------------------------------------------------------

    def _new_fd(self, node: FileNode, path: Path) -> int:
        self._next_fd += 1
        self.fds[self._next_fd] = (node, path)
        return self._next_fd

    def _at(self, fd: int) -> tuple[FileNode, Path]:
        if fd not in self.fds:
            raise OSError(errno.EBADF, os.strerror(errno.EBADF))
        return self.fds[fd]

    def _node(self, path: Path) -> FileNode:
        if path not in self.nodes:
            raise FileNotFoundError(errno.ENOENT, os.strerror(errno.ENOENT), str(path))
        return self.nodes[path]

    def lock(self, directory: Path) -> MemoryLock:
        if directory in self.locked:
            raise LogDirLocked(f"{directory} is in use by another broker")
        self.locked.add(directory)
        return MemoryLock(self.locked, directory)

    def open(self, path: Path) -> int:
        if path not in self.nodes:
            if path.parent not in self.dirs:
                raise FileNotFoundError(errno.ENOENT, os.strerror(errno.ENOENT), str(path))
            self.on_call("create", path)
            self.nodes[path] = FileNode()
        self.on_call("open", path)
        return self._new_fd(self.nodes[path], path)

    def break_hard_links(self, path: Path) -> None:
        """Do nothing: these files have no hard links."""

    def open_read(self, path: Path) -> int:
        self.on_call("read", path)
        return self._new_fd(self._node(path), path)

    def close(self, fd: int) -> None:
        self._at(fd)
        del self.fds[fd]

    def dup(self, fd: int) -> int:
        return self._new_fd(*self._at(fd))

    def pread(self, fd: int, size: int, position: int) -> bytes:
        node, path = self._at(fd)
        self.on_call("read", path)
        return bytes(node.data[position : position + size])

    def pwrite(self, fd: int, buffers: Sequence[Buffer], position: int) -> None:
        node, path = self._at(fd)
        self.on_call("write", path)
        data = b"".join(buffers)
        fits = len(data) if self.room is None else min(self.room, len(data))
        node.data.extend(bytes(max(position - len(node.data), 0)))
        node.data[position : position + fits] = data[:fits]
        if self.room is not None:
            self.room -= fits
        if fits < len(data):
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC), str(path))

    def truncate(self, fd: int, size: int) -> None:
        node, path = self._at(fd)
        self.on_call("truncate", path)
        del node.data[size:]
        node.data.extend(bytes(size - len(node.data)))

    def fsync(self, fd: int) -> None:
        node, path = self._at(fd)
        self.on_call("fsync", path)
        node.synced = bytes(node.data)

    def sync_path(self, path: Path) -> None:
        node = self._node(path)
        self.on_call("fsync", path)
        node.synced = bytes(node.data)

    def sync_dir(self, path: Path) -> None:
        self.on_call("fsync", path)
        for old, new in [pair for pair in self.renamed_dirs if pair[1].parent == path]:
            self.durable = {_moved(p, old, new): n for p, n in self.durable.items()}
            self.renamed_dirs.remove((old, new))
        for gone in [p for p in self.durable if p.parent == path and p not in self.nodes]:
            del self.durable[gone]
        self.durable.update({p: n for p, n in self.nodes.items() if p.parent == path})

    def size(self, fd: int) -> int:
        return len(self._at(fd)[0].data)

    def mtime_ms(self, path: Path) -> int:
        return self._node(path).mtime_ms

    def set_mtime_ms(self, path: Path, mtime_ms: int) -> None:
        self._node(path).mtime_ms = mtime_ms

    def exists(self, path: Path) -> bool:
        return path in self.nodes or path in self.dirs

    def read_bytes(self, path: Path) -> bytes:
        self.on_call("read", path)
        return bytes(self._node(path).data)

    def write(self, path: Path, data: Buffer, *, sync: bool) -> None:
        fd = self.open(path)
        try:
            self.truncate(fd, 0)
            self.pwrite(fd, [data], 0)
            if sync:
                self.fsync(fd)
        finally:
            self.close(fd)

    def rename(self, old: Path, new: Path) -> None:
        self.on_call("rename", old)
        if old in self.dirs:
            self.dirs = {new if d == old else d for d in self.dirs}
            self.nodes = {_moved(p, old, new): n for p, n in self.nodes.items()}
            self.renamed_dirs.append((old, new))
        else:
            self.nodes[new] = self._node(old)
            del self.nodes[old]

    def remove(self, path: Path) -> None:
        self.on_call("remove", path)
        self.nodes.pop(path, None)

    def scan(self, path: Path) -> list[FileEntry]:
        if path not in self.dirs:
            raise FileNotFoundError(errno.ENOENT, os.strerror(errno.ENOENT), str(path))
        found = [FileEntry(p.name, len(n.data), False) for p, n in self.nodes.items() if p.parent == path]
        return sorted(found + [FileEntry(d.name, 0, True) for d in self.dirs if d.parent == path and d != path])

    def make_dir(self, path: Path) -> None:
        self.on_call("create", path)
        self.dirs |= {path, *path.parents}

    def remove_tree(self, path: Path) -> None:
        self.on_call("remove", path)
        self.dirs.discard(path)
        self.nodes = {p: n for p, n in self.nodes.items() if p.parent != path}


def _moved(path: Path, old: Path, new: Path) -> Path:
    return new / path.name if path.parent == old else path


def _survived(node: FileNode, random: Random | None) -> bytes:
    data, synced = bytes(node.data), node.synced
    if random is None or data == synced:
        return synced
    if not data.startswith(synced):
        return random.choice([data, synced])
    kept = random.choice([len(synced), random.randint(len(synced), len(data)), len(data)])
    return data[:kept] + bytes(random.choice([0, len(data) - kept]))  # a file's size may reach the disk before its bytes
