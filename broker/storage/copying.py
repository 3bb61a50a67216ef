"""Copies one file as cheaply as the file system can: a reflink (FICLONE) where there are reflinks, otherwise only the parts that have data.

Kafka preallocates the indexes of active segments, 10 MiB each and nearly all of it a hole; a copy keeps the holes.
"""

from __future__ import annotations

import contextlib
import errno
import os
import sys
from pathlib import Path
from typing import Final

_BINARY: Final = getattr(os, "O_BINARY", 0)
_FICLONE: Final = 0x40049409
"""The request of Linux's `ioctl` that makes a reflink: the target shares the source's blocks until one of them is written (btrfs, XFS,
bcachefs, and overlays of these)."""
_CHUNK_BYTES: Final = 1 << 20
_NO_COPY_FILE_RANGE: Final = {errno.EXDEV, errno.ENOSYS, errno.EOPNOTSUPP, errno.EINVAL, errno.EPERM}


def copy_file(source: Path, target: Path, size: int | None = None) -> bool:
    """Copy the first `size` bytes of a file (all of it by default) and its modification time; `target` is replaced. Return whether the
    copy is a reflink, which takes no disk space. Nothing is synced. Raises `OSError`."""
    from_fd = os.open(source, os.O_RDONLY | _BINARY)
    try:
        to_fd = os.open(target, os.O_RDWR | os.O_CREAT | os.O_TRUNC | _BINARY, 0o644)
        try:
            found = os.fstat(from_fd)
            wanted = found.st_size if size is None else min(size, found.st_size)
            cloned = _cloned(from_fd, to_fd)
            if not cloned:
                _copy_data(from_fd, to_fd, wanted)
            os.ftruncate(to_fd, wanted)
            if os.utime in os.supports_fd:
                os.utime(to_fd, ns=(found.st_atime_ns, found.st_mtime_ns))
        finally:
            os.close(to_fd)
    finally:
        os.close(from_fd)
    return cloned


if sys.platform == "linux":
    import fcntl

    def _cloned(from_fd: int, to_fd: int) -> bool:
        try:
            fcntl.ioctl(to_fd, _FICLONE, from_fd)
        except OSError:  # another file system, or one without reflinks
            return False
        return True

else:

    def _cloned(from_fd: int, to_fd: int) -> bool:
        return False


def _copy_data(from_fd: int, to_fd: int, size: int) -> None:
    """Copy the first `size` bytes of a file to another, except the holes, which stay holes."""
    position = 0
    while position < size:
        start, end = _next_data(from_fd, position, size)
        if start < end:
            _copy_range(from_fd, to_fd, start, end)
        position = end


def _next_data(fd: int, position: int, size: int) -> tuple[int, int]:
    """Return [start, end) of the first range in [position, size) that is not a hole; (size, size) if there is none.

    Return (position, size) if the system cannot report holes.
    """
    if not hasattr(os, "SEEK_DATA"):
        return position, size
    try:
        start = os.lseek(fd, position, os.SEEK_DATA)
        return min(start, size), min(os.lseek(fd, start, os.SEEK_HOLE), size)
    except OSError as error:
        return (size, size) if error.errno == errno.ENXIO else (position, size)


def _copy_range(from_fd: int, to_fd: int, start: int, end: int) -> None:
    if hasattr(os, "copy_file_range"):
        with contextlib.suppress(_Unsupported):
            start = _in_kernel(from_fd, to_fd, start, end)
    while start < end:
        os.lseek(from_fd, start, os.SEEK_SET)
        data = os.read(from_fd, min(_CHUNK_BYTES, end - start))
        if not data:  # the file was truncated meanwhile
            return
        os.lseek(to_fd, start, os.SEEK_SET)
        view = memoryview(data)
        while view:
            written = os.write(to_fd, view)
            view = view[written:]
            start += written


class _Unsupported(Exception):
    pass


def _in_kernel(from_fd: int, to_fd: int, start: int, end: int) -> int:
    """Copy the bytes from `start` to `end` with `copy_file_range`. Return the end position: less than `end` if the file is shorter. Raises
    `_Unsupported` if the system cannot copy between these files, and `OSError`."""
    while start < end:
        try:
            copied = os.copy_file_range(from_fd, to_fd, end - start, start, start)
        except OSError as error:
            if error.errno in _NO_COPY_FILE_RANGE:
                raise _Unsupported from error
            raise
        if not copied:
            return start
        start += copied
    return start
