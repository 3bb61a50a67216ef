from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from ottla.broker.admin.tokens import TOKEN_ENV, found, is_loopback, kept, new_token


@pytest.fixture(autouse=True)
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.delenv(TOKEN_ENV, raising=False)
    monkeypatch.setenv("XDG_RUNTIME_DIR", str(tmp_path))
    return tmp_path / "ottla"


def test_no_two_starts_have_the_same() -> None:
    assert new_token() != new_token()
    assert len(new_token()) >= 43, "256 bits"


def test_it_is_kept_for_this_user_while_the_port_is_served(home: Path) -> None:
    with kept("one", 9):
        (file,) = home.iterdir()
        assert (file.stat().st_mode & 0o777, home.stat().st_mode & 0o777) == (0o600, 0o700)
        assert (found("127.0.0.1", 9), found("localhost", 9), found("127.0.0.1", 8), found("10.0.0.1", 9)) == ("one", "one", None, None)
    assert found("127.0.0.1", 9) is None


def test_a_file_that_a_killed_broker_left_is_replaced_and_a_later_brokers_is_not_taken_away(home: Path) -> None:
    home.mkdir()
    (home / "admin-9.token").write_text("left")
    (home / "admin-9.token").chmod(0o644)
    with kept("one", 9):
        assert (home / "admin-9.token").stat().st_mode & 0o777 == 0o600
        (home / "admin-9.token").write_text("two")
    assert found("::1", 9) == "two"


def test_a_start_removes_the_files_of_killed_processes_and_no_others(home: Path) -> None:
    kill_itself = "import os; from ottla.broker.admin.tokens import kept; held = kept('dead', 8); held.__enter__(); os.kill(os.getpid(), 9)"
    assert subprocess.run([sys.executable, "-c", kill_itself], check=False).returncode == -9
    assert found("127.0.0.1", 8) == "dead"
    with kept("one", 9):
        assert found("127.0.0.1", 8) is None
        with kept("two", 10):
            assert (found("127.0.0.1", 9), found("127.0.0.1", 10)) == ("one", "two")
    assert list(home.iterdir()) == []


def test_the_environments_comes_first_and_goes_to_any_host(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(TOKEN_ENV, "given")
    with kept("one", 9):
        assert (found("127.0.0.1", 9), found("10.0.0.1", 9)) == ("given", "given")


def test_a_machine_without_a_place_for_it_serves_all_the_same(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "a file").write_text("")
    monkeypatch.setenv("XDG_RUNTIME_DIR", str(tmp_path / "a file"))
    with kept("one", 9):
        assert found("127.0.0.1", 9) is None


@pytest.mark.parametrize(
    ("host", "expected"), [("localhost", True), ("127.1.2.3", True), ("::1", True), ("localhost.", False), ("", False)]
)
def test_only_this_machine_is_loopback(host: str, expected: bool) -> None:
    assert is_loopback(host) is expected
