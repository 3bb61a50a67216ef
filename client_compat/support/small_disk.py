"""A separate disk for one directory, for tests of a full disk. It is a tmpfs; to fill it, its size is reduced to the bytes in use.

When the disk is unmounted, its files remain at the same paths.
"""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

SIZE_BYTES = 2 << 30
"""The disk's size in bytes while it is not filled. The disk is a tmpfs, so only the written bytes take memory."""
TRIES_MAX = 100


class NoSmallDisk(Exception):
    """Raised when no disk can be mounted here; the text says why."""


@dataclass(frozen=True, slots=True)
class SmallDisk:
    """A mounted disk of limited size at `path`."""

    path: Path

    def fill(self) -> None:
        """Fill the disk, so that later writes fail, except to partly used pages. Raises `NoSmallDisk` if the disk cannot be resized."""
        for _ in range(TRIES_MAX):  # the used size may grow before the new size is set
            found = os.statvfs(self.path)
            if self._mount(f"remount,size={(found.f_blocks - found.f_bfree) * found.f_frsize}") is None:
                return
        raise NoSmallDisk(f"{self.path} could not be filled")

    def free(self) -> None:
        """Give the filled disk its normal size again, so that it has free space. Raises `NoSmallDisk` if the disk cannot be resized."""
        if (why := self._mount(f"remount,size={SIZE_BYTES}")) is not None:
            raise NoSmallDisk(why)

    def _mount(self, options: str) -> str | None:
        """Run `mount` with these options on the disk; return its error message if it fails, else None."""
        done = subprocess.run(["mount", "-t", "tmpfs", "-o", options, "ottla", str(self.path)], capture_output=True, text=True, check=False)
        return (done.stderr.strip() or f"mount ended with {done.returncode}") if done.returncode else None

    def _unmount(self) -> None:
        subprocess.run(["umount", str(self.path)], check=True)


@contextmanager
def small_disk(path: Path) -> Iterator[SmallDisk]:
    """Mount a disk at `path`, an empty or new directory; at the end, leave a plain directory with its files. Raises `NoSmallDisk` if
    mounting fails."""
    disk = SmallDisk(path)
    if (why := missing()) is not None:
        raise NoSmallDisk(why)
    path.mkdir(parents=True, exist_ok=True)
    if (why := disk._mount(f"size={SIZE_BYTES},mode=0755")) is not None:
        raise NoSmallDisk(why)
    try:
        yield disk
    finally:
        kept = path.with_name(f"{path.name}.kept")
        subprocess.run(["cp", "-a", "--sparse=always", str(path), str(kept)], check=True)
        disk._unmount()
        path.rmdir()
        kept.rename(path)


def missing() -> str | None:
    """Return why no disk can be mounted here, or None if it can."""
    if not sys.platform.startswith("linux"):
        return "a disk that can be full is a tmpfs of Linux"
    if os.geteuid() != 0:
        return "only root may mount a disk that can be full"
    with tempfile.TemporaryDirectory() as name:
        disk = SmallDisk(Path(name))
        if (why := disk._mount("size=4096")) is None:
            disk._unmount()
    return why
