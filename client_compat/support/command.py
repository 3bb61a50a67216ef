"""Finds the command `ottla`, which is not on the shell's path if this program's virtual environment is not activated."""

from __future__ import annotations

import shutil
import sys
from pathlib import Path


def ottla_command() -> str:
    """Return `ottla` if it is on the path, else the path of the `ottla` program beside this interpreter (relative to the current directory
    if that is shorter)."""
    if shutil.which("ottla"):
        return "ottla"
    path = Path(sys.executable).with_name("ottla")
    return str(path.relative_to(Path.cwd())) if path.is_relative_to(Path.cwd()) else str(path)
