"""Builds Ottla as users install it: the wheel and the sdist, from a copy of the sources, without the network."""

from __future__ import annotations

import shutil
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
_LEFT_OUT = shutil.ignore_patterns("__pycache__", "*.so", "node_modules", "target")
_SDIST = "import sys; from setuptools.build_meta import build_sdist; build_sdist(sys.argv[1])"


def copy_sources(to: Path) -> Path:
    """Copy those folders and files of this checkout that a build may read to the directory `to`, and return `to`. Symbolic links stay
    links."""
    for folder in ("ottla", "broker", "protocol", "spark_jobs", "client_compat", "tests"):
        shutil.copytree(ROOT / folder, to / folder, symlinks=True, ignore=_LEFT_OUT)
    for name in ("pyproject.toml", "setup.py", "README.md", "LICENSE"):
        shutil.copy2(ROOT / name, to / name)
    return to


def build_wheel(source: Path, to: Path, python: str = sys.executable) -> Path:
    """Build the wheel of a source directory or an sdist in the new directory `to`, and return its path. The wheel is built for the
    interpreter `python`, which must have the build tools. Raises CalledProcessError if the build fails."""
    command = [python, "-m", "pip", "wheel", "--quiet", "--no-deps", "--no-build-isolation", "--no-index", "-w", str(to)]
    subprocess.run([*command, str(source)], check=True)
    (wheel,) = to.glob("ottla-*.whl")
    return wheel


def build_sdist(source: Path, to: Path) -> Path:
    """Build the sdist of a source directory in the directory `to`, and return its path. Raises CalledProcessError if the build fails."""
    subprocess.run([sys.executable, "-c", _SDIST, str(to)], cwd=source, check=True, stdout=subprocess.DEVNULL)
    (sdist,) = to.glob("ottla-*.tar.gz")
    return sdist
