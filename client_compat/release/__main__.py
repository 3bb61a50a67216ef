"""`python -m client_compat.release`: build the sdist and a wheel for each installed CPython in `dist`, and check, install and test each.

With a container engine, cibuildwheel builds the wheels in its manylinux images. Without one, each interpreter builds its own wheel, and
auditwheel determines which C library symbols the wheel needs, and names the wheel after the oldest C library version that has them. Every
wheel and the sdist are then installed into a separate environment with the pinned dependencies and tested there (smoke.py). The exit code
is 0 if all passed.
"""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import tempfile
import tomllib
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import typer
from rich.console import Console
from rich.table import Table

from client_compat.release.pythons import VERSIONS, Python, find
from client_compat.support.program import new_console, or_exit, run
from client_compat.support.wheel import ROOT, build_sdist, build_wheel, copy_sources

DIST = ROOT / "dist"
CONSTRAINTS = ("-c", str(ROOT / "constraints.txt"))
PIP = ("-m", "pip", "--disable-pip-version-check")
BUILDERS = ("setuptools", "wheel", "cython")
SMOKE = Path(__file__).with_name("smoke.py")
NOT_HERE = "not on this machine"


@dataclass(slots=True)
class ReleaseCheck:
    """The result of installing and testing one release file. `compiled`: the names of the file's modules that are compiled C extensions.
    `why`: the error output if the check failed."""

    installed: bool = False
    passed: bool = False
    compiled: tuple[str, ...] = ()
    why: str = ""


def main() -> None:
    """Build the sdist and the wheels, and install and test each in a clean environment."""
    console = new_console(highlight=False)
    pythons = find()
    shutil.rmtree(DIST, ignore_errors=True)
    DIST.mkdir()
    table = Table("Python", "file", "KiB", "installed", "smoke passed", "compiled", title="Ottla to be installed")
    ok = True
    failed = or_exit(console, "It could not be built", subprocess.CalledProcessError)
    with failed, tempfile.TemporaryDirectory(prefix="ottla-dist-") as work_dir:
        work = Path(work_dir)
        sdist = build_sdist(copy_sources(work / "sources"), DIST)
        wheels = _of_containers(console, sdist, work) or _of_this_machine(console, sdist, pythons, work)
        subprocess.run([sys.executable, "-m", "twine", "check", "--strict", sdist, *wheels.values()], check=True)
        for version in VERSIONS:
            if version not in wheels or version not in pythons:
                table.add_row(version, wheels[version].name if version in wheels else "–", "", NOT_HERE, "", "")
                continue
            for file in (wheels[version], sdist) if version == min(pythons) else (wheels[version],):
                console.print(f"Trying {file.name} on {pythons[version].exact}")
                check = _install_and_check(pythons[version], file, Path(tempfile.mkdtemp(dir=work)))
                ok = ok and check.passed and bool(check.compiled)
                table.add_row(*_row(pythons[version].exact, file, check))
                console.print(check.why or f"It passed; compiled: {' '.join(check.compiled) or 'nothing'}", markup=False)
    console.print(table)
    raise typer.Exit(0 if ok else 1)


def _row(python: str, file: Path, check: ReleaseCheck) -> Iterator[str]:
    yield from (python, file.name, f"{file.stat().st_size / 1024:.0f}")
    yield from ("yes" if done else "NO" for done in (check.installed, check.passed))
    yield " ".join(check.compiled) or "NO"


def _of_containers(console: Console, sdist: Path, work: Path) -> dict[str, Path]:
    """Let cibuildwheel build the wheels in containers, and copy them to `dist`. Return them by Python version; an empty dict if there is no
    container engine, or cibuildwheel fails."""
    if subprocess.run(["docker", "info"], capture_output=True, check=False).returncode if shutil.which("docker") else True:
        console.print("No container engine answers: each Python here builds its own wheel")
        return {}
    built = subprocess.run([sys.executable, "-m", "cibuildwheel", "--output-dir", str(work / "wheels"), str(sdist)], check=False)
    if built.returncode:
        console.print("cibuildwheel could not build in containers (above): each Python here builds its own wheel")
        return {}
    wheels = [Path(shutil.copy2(wheel, DIST)) for wheel in (work / "wheels").glob("*.whl")]
    return {version: wheel for version in VERSIONS for wheel in wheels if f"-cp{version.replace('.', '')}-" in wheel.name}


def _of_this_machine(console: Console, sdist: Path, pythons: dict[str, Python], work: Path) -> dict[str, Path]:
    """Build a wheel with each installed interpreter, put it into `dist`, and return the wheels by Python version."""
    wheels = {}
    for version, python in pythons.items():
        console.print(f"Building for {python.exact}")
        environment = _environment(python, work / f"build-{version}")
        subprocess.run([environment, *PIP, "install", "--quiet", *CONSTRAINTS, *BUILDERS], check=True)
        wheels[version] = _repaired(build_wheel(sdist, work / f"wheel-{version}", str(environment)))
    return wheels


def _repaired(wheel: Path) -> Path:
    """Put the wheel into `dist` and return its new path. auditwheel names the wheel after the oldest C library version that it runs with; a
    wheel without compiled code is only copied."""
    if wheel.name.endswith("-any.whl"):
        return Path(shutil.copy2(wheel, DIST))
    before = {*DIST.iterdir()}
    with_patchelf = {**os.environ, "PATH": os.pathsep.join([str(Path(sys.executable).parent), os.environ["PATH"]])}
    subprocess.run([sys.executable, "-m", "auditwheel", "repair", "--wheel-dir", DIST, wheel], check=True, env=with_patchelf)
    (made,) = {*DIST.iterdir()} - before
    return made


def _environment(python: Python, home: Path) -> Path:
    """Create a virtual environment in `home` that has only pip, and return the path of its interpreter."""
    subprocess.run([python.path, "-m", "venv", home], check=True)
    return home / "bin" / "python"


def _install_and_check(python: Python, file: Path, home: Path) -> ReleaseCheck:
    """Install `file`, a wheel or the sdist, into a new virtual environment in `home`, and run the smoke test there. pip builds the sdist
    when it installs it."""
    environment = _environment(python, home / "environment")
    installed = subprocess.run(
        [environment, *PIP, "install", "--quiet", *CONSTRAINTS, file], capture_output=True, text=True, check=False, cwd=home
    )
    if installed.returncode:
        return ReleaseCheck(why=installed.stderr)
    smoke = subprocess.run([environment, "-I", SMOKE], capture_output=True, text=True, check=False, cwd=home)
    if smoke.returncode:
        return ReleaseCheck(installed=True, why=smoke.stderr)
    found = json.loads(smoke.stdout.splitlines()[-1])
    expected = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["version"]
    return ReleaseCheck(True, found["version"] == expected, tuple(found["compiled"]))


if __name__ == "__main__":
    run(main)
