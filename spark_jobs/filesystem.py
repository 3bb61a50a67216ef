"""Opens directories and files of any file system: local paths, and URLs for pyarrow.fs (`s3://`, `hdfs://`, `gs://`, `file://`) or fsspec.

Invariants:
- Nothing is written here; `sinks` writes tables through `Location.system`.
- Credentials come from the environment, where each file system's client looks for them. A URL's options after `?` (`endpoint_override`,
  `region`, `scheme`) go to the client and are not part of file names.
- Large files are read a range of bytes at a time, into a buffer of the caller, so memory does not grow with the file.
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

from ottla.spark_jobs.paths import SCHEME_END

NO_REGULAR_FILE: Final = "not a regular file"
SMALL_FILE_BYTES: Final = 16 << 20
"""The maximum size, in bytes, of a small file, which is read whole. An offset checkpoint of 200,000 partitions has about this size."""
SNAPSHOT_BYTES_MAX: Final = 256 << 20
"""The maximum size, in bytes, of a producer snapshot, which is read whole. A snapshot of 6,000,000 producers has about this size."""


@dataclass(frozen=True, slots=True)
class Entry:
    """An entry of a directory. `path` is an argument for `Location.open`. A broken symbolic link counts as a directory, so that listing it
    fails and is reported.

    `is_file` is False for a FIFO, a device or a socket, and for links to them: reading them may block or never end. `modified_ns`: the
    modification time, 0 if the file system has none.
    """

    name: str
    path: str
    is_dir: bool
    size_bytes: int
    is_file: bool = True
    modified_ns: int = 0


@dataclass(frozen=True)
class Location:
    """A directory on a file system. `url` is the user's path or URL; `path` is the directory's name without the URL's options, as findings
    show it."""

    url: str
    path: str
    _system: Any
    _prefix: str
    """The URL's scheme if the paths of this class include it but the file system's own paths do not; otherwise empty."""

    @property
    def is_local(self) -> bool:
        """Whether the files are on this machine. Many small reads are cheap there; on a remote file system each one is a round trip."""
        return isinstance(self._system, arrow_fs.LocalFileSystem)

    @property
    def system(self) -> Any:
        """The file system of the directory, as an object of pyarrow.fs."""
        return self._system

    @property
    def inside(self) -> str:
        """The directory's path within its file system (`system`), without the URL's scheme."""
        return self._inside(self.path)

    @property
    def name(self) -> str:
        """The last component of the directory's path."""
        return self.path.rsplit("/", 1)[-1]

    @property
    def parent(self) -> str:
        """The path of the directory that contains this one."""
        return self.path.rsplit("/", 1)[0] or "/"

    def is_dir(self, path: str) -> bool:
        """Return whether `path` exists and is a directory. Raises OSError if the file system cannot tell."""
        return bool(self._system.get_file_info(self._inside(path)).type == arrow_fs.FileType.Directory)

    def is_file(self, path: str) -> bool:
        """Return whether `path` exists and is a regular file. Raises OSError if the file system cannot tell."""
        return bool(self._system.get_file_info(self._inside(path)).type == arrow_fs.FileType.File)

    def entries(self, path: str) -> list[Entry]:
        """Return the files and subdirectories of a directory, sorted by name. Raises FileNotFoundError if `path` is not a directory,
        another OSError if it cannot be listed."""
        found = [
            Entry(
                each.base_name,
                f"{path}/{each.base_name}",
                each.type == arrow_fs.FileType.Directory,
                each.size or 0,
                each.type == arrow_fs.FileType.File,
                each.mtime_ns or 0,
            )
            for each in self._system.get_file_info(arrow_fs.FileSelector(self._inside(path)))
            if each.type != arrow_fs.FileType.NotFound
        ]
        if self.is_local:  # Arrow omits broken symbolic links
            with os.scandir(path) as there:
                lost = [each for each in there if each.is_symlink() and not Path(each).exists()]
            found += [Entry(each.name, each.path, True, 0, is_file=False) for each in lost]
        return sorted(found, key=lambda entry: entry.name)

    def readable(self, path: str) -> bool:
        """Return False if the process has no permission to read the file. For a remote file system, always return True: it reports a lack
        of permission only when the file is read."""
        return not self.is_local or os.access(path, os.R_OK)

    def open(self, path: str) -> RandomAccess:
        """Open a file for reading at any position. Raises OSError if it cannot be opened, or is not a regular file."""
        if not self.is_local:
            return RandomAccess(self._system.open_input_file(self._inside(path)))
        opened = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)  # without O_NONBLOCK the open blocks on a FIFO without a writer
        if not stat.S_ISREG(os.fstat(opened).st_mode):
            os.close(opened)
            raise OSError(errno.EINVAL, NO_REGULAR_FILE, path)
        return RandomAccess(os.fdopen(opened, "rb"))

    def read(self, path: str, max_bytes: int = SMALL_FILE_BYTES) -> bytes:
        """Return the whole content of a small file. Raises OSError if it cannot be read, or has more than `max_bytes` bytes."""
        with self.open(path) as file:
            try:
                content = file.read_at(0, max_bytes + 1)
            except OSError as e:
                raise OSError(e.errno, e.strerror or str(e), path) from e  # add the file's name, which a read error lacks
        if len(content) > max_bytes:
            raise OSError(errno.EFBIG, f"larger than {max_bytes >> 20} MiB", path)
        return content

    def _inside(self, path: str) -> str:
        return path.removeprefix(self._prefix)


class RandomAccess:
    """A file that is open for reading at any position. Use it as a context manager."""

    def __init__(self, file: Any) -> None:
        self._file = file

    def __enter__(self) -> RandomAccess:
        return self

    def __exit__(self, *_: object) -> None:
        self._file.close()

    def read_at(self, position: int, size: int) -> bytes:
        """Return `size` bytes from `position` on, or fewer if the file ends before. Raises OSError if the file cannot be read."""
        self._file.seek(position)
        content: bytes | None = self._file.read(size)  # None: a file in /proc that would block
        return content or b""

    def read_into(self, position: int, buffer: memoryview) -> int:
        """Fill `buffer` with the bytes from `position` on. Return the number of bytes read, which is smaller than the buffer only if the
        file ends before. Raises OSError if the file cannot be read."""
        self._file.seek(position)
        done = 0
        while done < len(buffer):
            count = self._file.readinto(buffer[done:])
            if not count:
                break
            done += count
        return done


@lru_cache(maxsize=64)
def place(url: str) -> Location:
    """Return the `Location` (a directory and its file system) that a path or URL names. Raises ValueError on a URL with an unknown file
    system, OSError when access is refused."""
    if SCHEME_END not in url:
        path = url.rstrip("/") or "/"
        return Location(url, path, arrow_fs.LocalFileSystem(), "")
    try:
        system, inside = arrow_fs.FileSystem.from_uri(url)
    except pa.ArrowInvalid:
        system, inside = _through_fsspec(url)
    if isinstance(system, arrow_fs.LocalFileSystem):
        return Location(url, inside.rstrip("/") or "/", system, "")
    prefix = url.split(SCHEME_END, 1)[0] + SCHEME_END
    inside = inside.rstrip("/")
    return Location(url, prefix + inside, system, prefix)


def _through_fsspec(url: str) -> tuple[Any, str]:
    try:
        from fsspec.core import url_to_fs  # noqa: PLC0415 # only for URLs that pyarrow cannot open
    except ModuleNotFoundError as e:
        raise ValueError(f"pyarrow has no file system for {url}, and fsspec is not installed") from e
    try:
        system, inside = url_to_fs(url)
    except (ImportError, ValueError) as e:
        raise ValueError(f"no file system for {url}: {e}") from e
    return arrow_fs.PyFileSystem(arrow_fs.FSSpecHandler(system)), inside
