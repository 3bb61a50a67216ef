"""Each module is imported under one name, `ottla.…`, although a checkout's root also offers it without the prefix."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
LINKS = ("broker", "protocol", "spark_jobs")
IMPORT_ALL = """
import importlib, pkgutil, sys
for package in sys.argv[1:]:
    for found in pkgutil.walk_packages(importlib.import_module(package).__path__, f"{package}."):
        if not found.name.endswith("__main__"):
            try:
                importlib.import_module(found.name)
            except ModuleNotFoundError as missing:
                if missing.name not in {"gssapi"}:  # an extra that is built where it is installed, and in no other
                    raise
print(*(name for name in sys.modules if name.partition(".")[0] in {"broker", "protocol", "spark_jobs"}), sep="\\n")
"""


@pytest.mark.parametrize("package", ["ottla", "client_compat"])
def test_importing_every_module_loads_none_under_its_folders_top_level_name(package: str) -> None:
    done = subprocess.run([sys.executable, "-c", IMPORT_ALL, package], cwd=ROOT, capture_output=True, text=True, timeout=300, check=False)
    assert (done.stdout.split(), done.stderr, done.returncode) == ([], "", 0)


def test_no_source_file_is_imported_under_two_module_names() -> None:
    names: dict[Path, list[str]] = {}
    for name, module in list(sys.modules.items()):
        file = Path(getattr(module, "__file__", None) or "/").resolve()
        if any(file.is_relative_to(ROOT / each) for each in ("ottla", "client_compat", *LINKS)) and not name.startswith("interpreted_"):
            names.setdefault(file, []).append(name)
    assert [each for each in names.values() if len(each) > 1] == []


def test_ruff_rejects_imports_of_the_symlinked_folders() -> None:
    source = "".join(f"import {name}.x\nfrom {name} import y\nfrom {name}.x import z\n" for name in LINKS)
    command = [sys.executable, "-m", "ruff", "check", "--select", "TID251", "--output-format", "concise", "--stdin-filename", "x.py", "-"]
    done = subprocess.run(command, input=source, cwd=ROOT, capture_output=True, text=True, check=False)
    assert done.stdout.count("TID251") == 3 * len(LINKS), done.stdout


@pytest.mark.parametrize("name", LINKS)
def test_symlink_in_the_package_points_to_its_folder(name: str) -> None:
    link = ROOT / "ottla" / name
    assert (link.is_symlink(), link.readlink().as_posix()) == (True, f"../{name}")
