"""No option of the audit's command is ignored, with --follow or without it."""

from __future__ import annotations

from pathlib import Path

import pytest
import typer
from typer.testing import CliRunner

from ottla.spark_jobs.audit import audit_command


@pytest.mark.parametrize(
    ("options", "reason"),
    [
        (["--follow"], "needs --checkpoint"),
        (["--follow", "--checkpoint", "c", "--resume", "r"], "--resume cannot be combined with --follow"),
        (["--follow", "--checkpoint", "c", "--no-deep"], "--deep cannot be combined with --follow"),
        (["--follow", "--checkpoint", "c", "--engine", "duckdb"], "--follow needs Spark"),
        (["--checkpoint", "c"], "--checkpoint is for --follow"),
        (["--once"], "--once is for --follow"),
    ],
)
def test_unsupported_option_is_rejected_instead_of_ignored(tmp_path: Path, options: list[str], reason: str) -> None:
    app = typer.Typer()
    app.command()(audit_command)
    result = CliRunner().invoke(app, [*options, str(tmp_path)])
    assert (result.exit_code, reason in result.stderr) == (2, True), result.output
    assert not list(tmp_path.iterdir())
