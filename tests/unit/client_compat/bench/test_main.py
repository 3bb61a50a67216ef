"""The benchmark command: a quick run of one case against Ottla writes tables, charts and measurements, and can render them again."""

from __future__ import annotations

import os
from pathlib import Path

import pytest
import typer
from typer.testing import CliRunner

from client_compat.bench import builds
from client_compat.bench.__main__ import main

app = typer.Typer()
app.command()(main)
CASE = "one-record batches"


def test_a_quick_run_is_written_down_and_can_be_rendered_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PYTHONDONTWRITEBYTECODE", "1")
    arguments = ["--quick", "--peer", "ottla", "--only", CASE, "--dir", str(tmp_path)]
    done = CliRunner().invoke(app, arguments)
    assert done.exit_code == 0, done.output
    assert CASE in done.output
    page = tmp_path / "report" / "performance-figures.md"
    written = page.read_text()
    assert "1 interleaved run " in written
    assert builds.ottla() in written
    assert "PYTHONDONTWRITEBYTECODE" not in os.environ, "the brokers compiled themselves at each start"
    page.unlink()
    again = CliRunner().invoke(app, ["--render", "--dir", str(tmp_path)])
    assert again.exit_code == 0, again.output
    assert page.read_text() == written


@pytest.mark.parametrize("arguments", [["--only", "no such case"], ["--peer", "no such broker"], ["--peer", "kafka=."]])
def test_unknown_name_is_rejected_with_the_known_ones(arguments: list[str], tmp_path: Path) -> None:
    done = CliRunner().invoke(app, [*arguments, "--dir", str(tmp_path)])
    assert done.exit_code == 2
    assert "There are: " in done.output
