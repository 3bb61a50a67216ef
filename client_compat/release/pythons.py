"""Find the CPython versions on this machine that Ottla supports."""

from __future__ import annotations

import os
import shutil
import subprocess
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

VERSIONS = ("3.11", "3.12", "3.13", "3.14")
"""The Python versions to look for. pyproject.toml's classifiers list only those on which the tests have run."""
_ASK = "import sys; print(sys.implementation.name, *sys.version_info[:3], int(sys.prefix != sys.base_prefix))"


@dataclass(frozen=True, slots=True)
class Python:
    """One installed interpreter. `version` is like `3.12`, `exact` like `3.12.1`."""

    version: str
    exact: str
    path: Path


def find(versions: Iterable[str] = VERSIONS) -> dict[str, Python]:
    """Find an interpreter of each version: the one in PATH, or else pyenv's newest. Return them by version; versions that are not installed
    are left out."""
    found: dict[str, Python] = {}
    for version in versions:
        for candidate in _candidates(version):
            python = _inspected(candidate)
            if python is not None and python.version == version:
                found[version] = python
                break
    return found


def _candidates(version: str) -> list[Path]:
    on_path = shutil.which(f"python{version}")
    root = Path(os.environ.get("PYENV_ROOT") or Path.home() / ".pyenv") / "versions"
    of_pyenv = sorted(root.glob(f"{version}.*/bin/python{version}"), key=lambda path: _numbers(path.parts[-3]), reverse=True)
    return [*([Path(on_path)] if on_path else []), *of_pyenv]


def _numbers(text: str) -> list[int]:
    return [int(part) for part in text.split(".") if part.isdecimal()]


def _inspected(path: Path) -> Python | None:
    """Return the interpreter's version; None if it does not start (a shim), is not CPython, or belongs to a virtual environment."""
    try:
        done = subprocess.run([path, "-I", "-c", _ASK], capture_output=True, text=True, timeout=30, check=True)
    except (OSError, subprocess.SubprocessError):
        return None
    name, major, minor, micro, virtual = done.stdout.split()
    return Python(f"{major}.{minor}", f"{major}.{minor}.{micro}", path) if (name, virtual) == ("cpython", "0") else None
