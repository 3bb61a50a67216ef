"""A broker from another checkout as a peer of the benchmark."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest
import typer
from typer.testing import CliRunner

from client_compat.bench.__main__ import main
from client_compat.bench.peers import checkout

ROOT = Path(checkout.__file__).parents[3]
NAMED = "Ottla of another day is listening on"


@pytest.fixture
def other(tmp_path: Path) -> Path:
    """Return a copy of this checkout whose start line differs."""
    source = tmp_path / "other"
    for package in ("ottla", "broker", "protocol"):
        shutil.copytree(ROOT / package, source / package, symlinks=True, ignore=shutil.ignore_patterns("__pycache__"))
    app = source / "broker" / "app.py"
    app.write_text(app.read_text().replace("Ottla is listening on", NAMED))
    return source


def test_other_checkout_is_served_from_its_source_and_compared_in_the_report(other: Path, tmp_path: Path) -> None:
    app = typer.Typer()
    app.command()(main)
    where = ["--dir", str(tmp_path / "bench")]
    arguments = ["--quick", "--peer", "ottla", "--peer", f"before={other}", "--only", "one-record batches", *where]
    done = CliRunner().invoke(app, arguments)
    assert done.exit_code == 0, done.output
    assert "÷ before" in done.output
    assert NAMED in (tmp_path / "bench" / "brokers" / "before" / "broker.log").read_text()
    again = CliRunner().invoke(app, ["--render", *where])
    assert "÷ before" in again.output


def test_incomparable_checkout_is_rejected_with_the_reason(other: Path, tmp_path: Path) -> None:
    assert checkout.why_not(other) is None
    assert "no source of Ottla" in (checkout.why_not(tmp_path) or "")
    for compiled in (other / "protocol" / "records").glob("walk.*.so"):
        compiled.unlink()
        assert "has not compiled" in (checkout.why_not(other) or "")
