"""How somebody types the command `ottla` here: the environment that runs this need not be the shell's."""

from __future__ import annotations

import shutil
import sys
from pathlib import Path


def ottla_command() -> str:
    """`ottla` where the shell finds it, else the path of the one beside this interpreter, relative where that is shorter."""
    if shutil.which("ottla"):
        return "ottla"
    path = Path(sys.executable).with_name("ottla")
    return str(path.relative_to(Path.cwd())) if path.is_relative_to(Path.cwd()) else str(path)
