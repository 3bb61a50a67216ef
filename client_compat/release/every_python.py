"""`python -m client_compat.release.every_python [PYTEST'S ARGUMENTS]`: runs the tests on every installed CPython that Ottla supports,
except the version that runs this program.

Each CPython gets an environment of its own beside `.venv` (such as `.venv-3.12`) with every extra and the same pinned packages. It is
created once, and updated when these packages change. The exit code is 1 if tests failed on any version, else 0.
"""

from __future__ import annotations

import hashlib
import subprocess
import sys
from pathlib import Path

from client_compat.release.pythons import VERSIONS, Python, find
from client_compat.support.wheel import ROOT

PIP = ("-m", "pip", "--disable-pip-version-check", "install", "--quiet", "-c", "constraints.txt")
MADE_FROM = ("pyproject.toml", "setup.py", "constraints.txt", *(f"protocol/records/{name}" for name in ("walk.py", "batch_walk.py")))


def main(arguments: list[str]) -> int:
    """Run pytest with these arguments on each supported Python that is installed, and print the result for each, one per line. Return the
    exit code."""
    if arguments in (["-h"], ["--help"]):
        print(__doc__)
        return 0
    pythons = find()
    here = f"{sys.version_info.major}.{sys.version_info.minor}"
    came: dict[str, str] = {}
    for version in VERSIONS:
        if version == here:
            came[version] = "this environment: `make test`"
        elif version not in pythons:
            came[version] = "not on this machine"
        else:
            python = _environment(pythons[version])
            print(f"The tests on {pythons[version].exact}", flush=True)
            code = subprocess.run([python, "-m", "pytest", "-n", "3", "--dist", "loadfile", *arguments], cwd=ROOT, check=False).returncode
            came[version] = "passed" if code == 0 else f"FAILED ({code})"
    print(*(f"{version}  {what}" for version, what in came.items()), sep="\n")
    return int(any(what.startswith("FAILED") for what in came.values()))


def _environment(python: Python) -> Path:
    """Return the interpreter of the virtual environment `.venv-VERSION` for this Python. The environment is created if it does not exist or
    its pinned packages have changed."""
    home = ROOT / f".venv-{python.version}"
    interpreter, stamp = home / "bin" / "python", home / ".installed"
    wanted = hashlib.sha256(b"".join((ROOT / name).read_bytes() for name in MADE_FROM)).hexdigest()
    if not stamp.exists() or stamp.read_text() != wanted:
        print(f"Making {home.name} (once)", flush=True)
        subprocess.run([python.path, "-m", "venv", home], check=True)
        subprocess.run([interpreter, *PIP, "setuptools", "wheel", "cython"], cwd=ROOT, check=True)
        subprocess.run([interpreter, *PIP, "--no-build-isolation", "-e", ".[dev]"], cwd=ROOT, check=True)
        stamp.write_text(wanted)
    return interpreter


if __name__ == "__main__":
    raise SystemExit(main(sys.argv[1:]))
