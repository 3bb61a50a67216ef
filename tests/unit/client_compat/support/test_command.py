from __future__ import annotations

import sys
from pathlib import Path

import pytest

from client_compat.support.command import ottla_command


def test_command_is_found_on_path_or_given_as_a_path(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.setattr(sys, "executable", str(tmp_path / "venv" / "bin" / "python"))
    assert ottla_command() == str(tmp_path / "venv" / "bin" / "ottla")
    monkeypatch.chdir(tmp_path)
    assert ottla_command() == "venv/bin/ottla"
    (tmp_path / "ottla").write_text("#!/bin/sh\n")
    (tmp_path / "ottla").chmod(0o755)
    assert ottla_command() == "ottla"
