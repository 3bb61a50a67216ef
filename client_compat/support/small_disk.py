"""A disk of its own for one directory, which can be full: a tmpfs, whose size is what is used while it is full.

Rule: what is on it outlives it, in the same place.
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
"""Memory is taken for what is written alone."""
TRIES_MAX = 100


class NoSmallDisk(Exception):
    """None can be had here; the text says why."""


@dataclass(frozen=True, slots=True)
class SmallDisk:
    """Mounted at `path`."""

    path: Path

    def fill(self) -> None:
        """Nothing more can be written, but what is left of pages that are in use. Raises `NoSmallDisk`."""
        for _ in range(TRIES_MAX):  # more may be in use by the time that the size is set
            found = os.statvfs(self.path)
            if self._mount(f"remount,size={(found.f_blocks - found.f_bfree) * found.f_frsize}") is None:
                return
        raise NoSmallDisk(f"{self.path} could not be filled")

    def free(self) -> None:
        """There is space again."""
        if (why := self._mount(f"remount,size={SIZE_BYTES}")) is not None:
            raise NoSmallDisk(why)

    def _mount(self, options: str) -> str | None:
        """What `mount` said, if it refused."""
        done = subprocess.run(["mount", "-t", "tmpfs", "-o", options, "ottla", str(self.path)], capture_output=True, text=True, check=False)
        return (done.stderr.strip() or f"mount ended with {done.returncode}") if done.returncode else None

    def _unmount(self) -> None:
        subprocess.run(["umount", str(self.path)], check=True)


@contextmanager
def small_disk(path: Path) -> Iterator[SmallDisk]:
    """One at `path`, an empty directory or none yet; at the end a plain directory with the same content. Raises `NoSmallDisk`."""
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
    """Why no disk can be mounted here; None where it can."""
    if not sys.platform.startswith("linux"):
        return "a disk that can be full is a tmpfs of Linux"
    if os.geteuid() != 0:
        return "only root may mount a disk that can be full"
    with tempfile.TemporaryDirectory() as name:
        disk = SmallDisk(Path(name))
        if (why := disk._mount("size=4096")) is None:
            disk._unmount()
    return why
