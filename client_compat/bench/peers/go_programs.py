"""Builds the Go programs of the benchmark (kfake, a broker, and toxiproxy). Each program is a Go module in a folder beside this file. On a
machine without Go, the programs are left out."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path

BUILD_TIMEOUT_S = 300
_HERE = Path(__file__).parent


def program(name: str) -> Path:
    """Return the path of the built Go program `name`."""
    return Path(__file__).parents[3] / ".bench" / "bin" / name


def build(name: str, package: str = ".") -> str | None:
    """Build a package of the Go module in the folder `name` (Go caches the build); return why that is not possible here, None if it is
    built."""
    if shutil.which("go") is None:
        return "there is no Go to build it with (go.dev)"
    argv = ["go", "build", "-o", str(program(name)), package]
    try:
        done = subprocess.run(argv, cwd=_HERE / name, capture_output=True, text=True, timeout=BUILD_TIMEOUT_S, check=False)
    except subprocess.TimeoutExpired:
        return f"Go did not build it within {BUILD_TIMEOUT_S} s"
    return None if done.returncode == 0 else f"Go does not build it: {done.stderr.strip()[-300:]}"
