"""Writes files so that a crash leaves either the old content or the new one, never a part."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path
from typing import BinaryIO


def write_atomically(file: Path, write: Callable[[BinaryIO], object]) -> None:
    """Replace the content of `file`, so that after a crash it has either the old content or the whole new one. `write` is called with an
    open temporary file, to which it writes the content. Raises OSError if writing fails."""
    partial = file.with_suffix(".partial")
    with partial.open("wb") as out:
        write(out)
        out.flush()
        os.fsync(out.fileno())
    partial.replace(file)
    sync_directory(file.parent)


def sync_directory(directory: Path) -> None:
    """Sync a directory to disk (fsync), so that created and renamed files in it survive a crash. Raises OSError if that fails."""
    opened = os.open(directory, os.O_RDONLY)
    try:
        os.fsync(opened)
    finally:
        os.close(opened)
