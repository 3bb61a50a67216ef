from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from ottla.broker.admin.tokens import TOKEN_ENV, find_token, is_loopback, new_token, stored_token


@pytest.fixture(autouse=True)
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.delenv(TOKEN_ENV, raising=False)
    monkeypatch.setenv("XDG_RUNTIME_DIR", str(tmp_path))
    return tmp_path / "ottla"


def test_every_start_generates_another_token() -> None:
    assert new_token() != new_token()
    assert len(new_token()) >= 43, "256 bits"


def test_token_file_is_private_and_exists_only_while_the_port_is_served(home: Path) -> None:
    with stored_token("one", 9):
        (file,) = home.iterdir()
        assert (file.stat().st_mode & 0o777, home.stat().st_mode & 0o777) == (0o600, 0o700)
        assert (find_token("127.0.0.1", 9), find_token("localhost", 9)) == ("one", "one")
        assert (find_token("127.0.0.1", 8), find_token("10.0.0.1", 9)) == (None, None)
    assert find_token("127.0.0.1", 9) is None


def test_token_file_of_a_killed_broker_is_replaced_and_a_later_brokers_is_kept(home: Path) -> None:
    home.mkdir()
    (home / "admin-9.token").write_text("left")
    (home / "admin-9.token").chmod(0o644)
    with stored_token("one", 9):
        assert (home / "admin-9.token").stat().st_mode & 0o777 == 0o600
        (home / "admin-9.token").write_text("two")
    assert find_token("::1", 9) == "two"


def test_start_removes_only_token_files_of_killed_processes(home: Path) -> None:
    kill_itself = (
        "import os; from ottla.broker.admin.tokens import stored_token; "
        "held = stored_token('dead', 8); held.__enter__(); os.kill(os.getpid(), 9)"
    )
    assert subprocess.run([sys.executable, "-c", kill_itself], check=False).returncode == -9
    assert find_token("127.0.0.1", 8) == "dead"
    with stored_token("one", 9):
        assert find_token("127.0.0.1", 8) is None
        with stored_token("two", 10):
            assert (find_token("127.0.0.1", 9), find_token("127.0.0.1", 10)) == ("one", "two")
    assert list(home.iterdir()) == []


def test_token_of_the_environment_takes_precedence_and_applies_to_any_host(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(TOKEN_ENV, "given")
    with stored_token("one", 9):
        assert (find_token("127.0.0.1", 9), find_token("10.0.0.1", 9)) == ("given", "given")


def test_port_is_served_even_if_no_token_file_can_be_written(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "a file").write_text("")
    monkeypatch.setenv("XDG_RUNTIME_DIR", str(tmp_path / "a file"))
    with stored_token("one", 9):
        assert find_token("127.0.0.1", 9) is None


@pytest.mark.parametrize(
    ("host", "expected"), [("localhost", True), ("127.1.2.3", True), ("::1", True), ("localhost.", False), ("", False)]
)
def test_only_loopback_addresses_are_local(host: str, expected: bool) -> None:
    assert is_loopback(host) is expected
