"""Information about the Python and Ottla builds, for the report."""

from __future__ import annotations

import platform
import subprocess
import sysconfig
from importlib.metadata import version
from pathlib import Path

from ottla.protocol.records import walk

_ROOT = Path(__file__).parents[2]
_OPTIMIZED = {"--enable-optimizations": "profile-guided", "--with-lto": "link-time optimized"}


def python() -> str:
    """Return a text about this Python build: implementation, version, compiler, and optimizations."""
    options = sysconfig.get_config_var("CONFIG_ARGS") or ""
    made = [text for option, text in _OPTIMIZED.items() if option in options] or ["not optimized as far as it says"]
    return f"{platform.python_implementation()} {platform.python_version()} ({platform.python_compiler()}, {', '.join(made)})"


def ottla() -> str:
    """Return Ottla's version, its git commit, and whether the modules that parse record batches are compiled or interpreted Python."""
    compiled = "interpreted" if (walk.__file__ or "").endswith(".py") else "compiled"
    return f"{version('ottla')} at {_commit()}, record walkers {compiled}"


def _commit() -> str:
    try:
        described = subprocess.run(["git", "-C", str(_ROOT), "describe", "--always", "--dirty"], capture_output=True, text=True, check=True)
    except (OSError, subprocess.CalledProcessError):
        return "no commit"
    return described.stdout.strip()
