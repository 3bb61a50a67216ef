from __future__ import annotations

import io
from pathlib import Path

import pytest
import typer
from rich.console import Console

from client_compat.support.brokers import BrokerFailed
from client_compat.support.program import or_exit, replace
from client_compat.support.workers import RunFailed

MARKER = "broker.log"


def quiet() -> Console:
    return Console(file=io.StringIO(), width=200)


def printed(console: Console) -> str:
    assert isinstance(console.file, io.StringIO)
    return console.file.getvalue()


def test_an_earlier_runs_directory_is_emptied(tmp_path: Path) -> None:
    (tmp_path / MARKER).touch()
    (tmp_path / "log").mkdir()
    replace(quiet(), tmp_path, MARKER)
    assert list(tmp_path.iterdir()) == []


def test_missing_or_empty_directory_is_created(tmp_path: Path) -> None:
    replace(quiet(), tmp_path / "new" / "one", MARKER)
    replace(quiet(), tmp_path / "new" / "one", MARKER)
    assert (tmp_path / "new" / "one").is_dir()


def test_foreign_directory_is_kept_and_ends_the_program(tmp_path: Path) -> None:
    (tmp_path / "thesis.txt").touch()
    with pytest.raises(typer.Exit) as ended:
        replace(quiet(), tmp_path, MARKER)
    assert ended.value.exit_code == 2
    assert (tmp_path / "thesis.txt").exists()


def test_file_in_place_of_a_directory_ends_the_program(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    with pytest.raises(typer.Exit) as ended:
        replace(quiet(), tmp_path / "file", MARKER)
    assert ended.value.exit_code == 2


def test_directory_that_is_a_mount_point_is_emptied(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A directory that is a mount point cannot be removed."""
    (tmp_path / MARKER).touch()
    monkeypatch.setattr("os.rmdir", lambda *_, **__: (_ for _ in ()).throw(OSError("busy")))
    replace(quiet(), tmp_path, MARKER)
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("failure", [BrokerFailed("[port] taken"), RunFailed("[port] taken"), KeyError("[port] taken")])
def test_expected_failure_ends_the_program_with_one_line(failure: Exception) -> None:
    console = quiet()
    with pytest.raises(typer.Exit) as ended, or_exit(console, "Not run", KeyError, code=2):
        raise failure
    assert ended.value.exit_code == 2
    assert printed(console) == f"Not run: {failure}\n"


def test_unexpected_exception_is_not_reported_as_a_failed_run() -> None:
    with pytest.raises(ValueError, match="a bug"), or_exit(quiet(), "Not run"):
        raise ValueError("a bug")
