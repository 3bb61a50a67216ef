from __future__ import annotations

from pathlib import Path

import pytest

from client_compat.release.pythons import find


def program(path: Path, answer: str, code: int = 0) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(f"#!/bin/sh\necho {answer}\nexit {code}\n")
    path.chmod(0o755)


def test_python_on_path_is_preferred_to_the_newest_of_pyenv(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", f"{tmp_path}/bin:/bin:/usr/bin")
    monkeypatch.setenv("PYENV_ROOT", str(tmp_path / "pyenv"))
    program(tmp_path / "bin" / "python3.97", "cpython 3 97 4 0")
    program(tmp_path / "bin" / "python3.98", "not installed", code=127)  # a shim without its version
    program(tmp_path / "bin" / "python3.99", "cpython 3 99 1 1")  # a virtual environment's
    for version in ("3.97.5", "3.98.9", "3.98.10"):
        program(
            tmp_path / "pyenv" / "versions" / version / "bin" / f"python{version.rpartition('.')[0]}",
            f"cpython {version.replace('.', ' ')} 0",
        )
    found = find(["3.97", "3.98", "3.99"])
    assert {version: python.exact for version, python in found.items()} == {"3.97": "3.97.4", "3.98": "3.98.10"}
