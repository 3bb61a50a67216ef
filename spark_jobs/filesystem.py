"""Directories and files on any file system: local paths, and URLs that pyarrow.fs opens (`s3://`, `hdfs://`, `gs://`, `file://`) or fsspec.

Rules that hold here: nothing is ever written. Credentials belong in the environment, where every file system's own client looks for
them; what a URL says after `?` (`endpoint_override`, `region`, `scheme`) is passed on and is no part of a file's name. Reading fills the
caller's buffer, so that a gigabyte is read in the memory of one window.
"""

from __future__ import annotations

import errno
import os
import stat
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import Any, Final

import pyarrow as pa
from pyarrow import fs as arrow_fs

SCHEME_END: Final = "://"
CLUSTER: Final = "kafka://"
"""What is read over the network, from brokers, and is no file system (see `wire`)."""


NO_REGULAR_FILE: Final = "not a regular file"
SMALL_FILE_BYTES: Final = 16 << 20
"""The most that is read of a file as a whole: a checkpoint of 200,000 partitions, and their offsets."""
SNAPSHOT_BYTES_MAX: Final = 256 << 20
"""The same of a producer snapshot: 6,000,000 producers."""


def absolute(path: str | Path) -> str:
    """A local path from the root of the file system; a URL as it is."""
    return str(path) if SCHEME_END in str(path) else str(Path(path).absolute())


def is_cluster(path: object) -> bool:
    """Whether a path names brokers."""
    return str(path).startswith(CLUSTER)


@dataclass(frozen=True, slots=True)
class Entry:
    """A name in a directory. `path` is as `Place.open` takes it. A link that leads nowhere counts as a directory: listing it fails.

    `is_file` is false for a FIFO, a device or a socket, and for a link to one: reading it may block, or never end.
    """

    name: str
    path: str
    is_dir: bool
    size_bytes: int
    is_file: bool = True


@dataclass(frozen=True)
class Place:
    """A directory on a file system: `url` is what the user gave, `path` its name without options, as findings show it."""

    url: str
    path: str
    _system: Any
    _prefix: str
    """What a path has in front that the file system does not want."""

    @property
    def is_local(self) -> bool:
        """Whether files are this machine's, and small reads cost next to nothing."""
        return isinstance(self._system, arrow_fs.LocalFileSystem)

    @property
    def name(self) -> str:
        """The last part of the path."""
        return self.path.rsplit("/", 1)[-1]

    @property
    def parent(self) -> str:
        """The path of the directory that this one is in."""
        return self.path.rsplit("/", 1)[0] or "/"

    def is_dir(self, path: str) -> bool:
        """Whether there is such a directory. Raises OSError."""
        return bool(self._system.get_file_info(self._inside(path)).type == arrow_fs.FileType.Directory)

    def is_file(self, path: str) -> bool:
        """Whether there is such a file. Raises OSError."""
        return bool(self._system.get_file_info(self._inside(path)).type == arrow_fs.FileType.File)

    def entries(self, path: str) -> list[Entry]:
        """What is in a directory, by name. Raises OSError, FileNotFoundError where it is none."""
        found = [
            Entry(
                each.base_name,
                f"{path}/{each.base_name}",
                each.type == arrow_fs.FileType.Directory,
                each.size or 0,
                each.type == arrow_fs.FileType.File,
            )
            for each in self._system.get_file_info(arrow_fs.FileSelector(self._inside(path)))
            if each.type != arrow_fs.FileType.NotFound
        ]
        if self.is_local:  # Arrow passes over links that lead nowhere
            with os.scandir(path) as there:
                lost = [each for each in there if each.is_symlink() and not Path(each).exists()]
            found += [Entry(each.name, each.path, True, 0, is_file=False) for each in lost]
        return sorted(found, key=lambda entry: entry.name)

    def readable(self, path: str) -> bool:
        """Whether the file may be read; on other than local file systems that shows only in reading."""
        return not self.is_local or os.access(path, os.R_OK)

    def open(self, path: str) -> RandomAccess:
        """Open a file for reading in any order. Raises OSError, also for what is no regular file."""
        if not self.is_local:
            return RandomAccess(self._system.open_input_file(self._inside(path)))
        opened = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)  # without O_NONBLOCK a FIFO waits for its writer
        if not stat.S_ISREG(os.fstat(opened).st_mode):
            os.close(opened)
            raise OSError(errno.EINVAL, NO_REGULAR_FILE, path)
        return RandomAccess(os.fdopen(opened, "rb"))

    def read(self, path: str, most_bytes: int = SMALL_FILE_BYTES) -> bytes:
        """Read a small file. Raises OSError, also where it has more than `most_bytes`."""
        with self.open(path) as file:
            try:
                content = file.read_at(0, most_bytes + 1)
            except OSError as e:
                raise OSError(e.errno, e.strerror or str(e), path) from e  # which file it was, reading does not say
        if len(content) > most_bytes:
            raise OSError(errno.EFBIG, f"larger than {most_bytes >> 20} MiB", path)
        return content

    def _inside(self, path: str) -> str:
        return path.removeprefix(self._prefix)


class RandomAccess:
    """One open file."""

    def __init__(self, file: Any) -> None:
        self._file = file

    def __enter__(self) -> RandomAccess:
        return self

    def __exit__(self, *_: object) -> None:
        self._file.close()

    def read_at(self, position: int, size: int) -> bytes:
        """Up to `size` bytes; fewer only at the end of the file. Raises OSError."""
        self._file.seek(position)
        content: bytes | None = self._file.read(size)  # None: a file of /proc that would block
        return content or b""

    def read_into(self, position: int, room: memoryview) -> int:
        """Fill `room`; how many bytes there were. Raises OSError."""
        self._file.seek(position)
        done = 0
        while done < len(room):
            count = self._file.readinto(room[done:])
            if not count:
                break
            done += count
        return done


@lru_cache(maxsize=64)
def place(url: str) -> Place:
    """The directory that a path or URL names. Raises ValueError on a URL whose file system is not known, OSError when it is refused."""
    if SCHEME_END not in url:
        path = url.rstrip("/") or "/"
        return Place(url, path, arrow_fs.LocalFileSystem(), "")
    try:
        system, inside = arrow_fs.FileSystem.from_uri(url)
    except pa.ArrowInvalid:
        system, inside = _through_fsspec(url)
    if isinstance(system, arrow_fs.LocalFileSystem):
        return Place(url, inside.rstrip("/") or "/", system, "")
    prefix = url.split(SCHEME_END, 1)[0] + SCHEME_END
    inside = inside.rstrip("/")
    return Place(url, prefix + inside, system, prefix)


def _through_fsspec(url: str) -> tuple[Any, str]:
    try:
        from fsspec.core import url_to_fs  # noqa: PLC0415 # only where it is needed
    except ModuleNotFoundError as e:
        raise ValueError(f"pyarrow has no file system for {url}, and fsspec is not installed") from e
    try:
        system, inside = url_to_fs(url)
    except (ImportError, ValueError) as e:
        raise ValueError(f"no file system for {url}: {e}") from e
    return arrow_fs.PyFileSystem(arrow_fs.FSSpecHandler(system)), inside
