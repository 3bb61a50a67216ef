"""Writes files so that a crash leaves either the old content or the new one, never a part."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path
from typing import BinaryIO


def write_atomically(file: Path, write: Callable[[BinaryIO], object]) -> None:
    """Write a file under a temporary name, sync it to disk, and rename it to `file`. Raises OSError."""
    partial = file.with_suffix(".partial")
    with partial.open("wb") as out:
        write(out)
        out.flush()
        os.fsync(out.fileno())
    partial.replace(file)
    sync_directory(file.parent)


def sync_directory(directory: Path) -> None:
    """Sync a directory, so that created and renamed entries survive a crash. Raises OSError."""
    opened = os.open(directory, os.O_RDONLY)
    try:
        os.fsync(opened)
    finally:
        os.close(opened)
