from __future__ import annotations

import json
import signal
import urllib.request
from pathlib import Path

import pytest

from client_compat.support.ports import free_port
from tests.support.loopback import needs_ipv6
from tests.support.running_broker import ServeProcess


def test_admin_port_serves_while_the_broker_runs(tmp_path: Path) -> None:
    port = free_port()
    with ServeProcess(tmp_path / "data", f"--admin-port={port}", "--console") as running:
        with urllib.request.urlopen(f"http://127.0.0.1:{port}/health", timeout=20) as answer:
            assert json.load(answer)["status"] == "ok"
        with urllib.request.urlopen(f"http://127.0.0.1:{port}/", timeout=20) as answer:
            assert (answer.url, b"Ottla console" in answer.read()) == (f"http://127.0.0.1:{port}/console", True)
        assert f"The console is http://127.0.0.1:{port}/console" in running.log_text()
        running.signal(signal.SIGTERM)
        assert running.wait() == 0


@needs_ipv6
def test_admin_port_serves_at_an_ipv6_address(tmp_path: Path) -> None:
    port = free_port()
    with ServeProcess(tmp_path / "data", f"--admin-port={port}", "--admin-host=::1") as running:
        with urllib.request.urlopen(f"http://[::1]:{port}/health", timeout=20) as answer:
            assert json.load(answer)["status"] == "ok"
        assert f"The admin port is http://[::1]:{port}" in running.log_text()


def test_admin_token_is_printed_and_never_logged(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_RUNTIME_DIR", str(tmp_path / "run"))
    port = free_port()
    with ServeProcess(tmp_path / "data", f"--admin-port={port}") as running:
        assert running.process.stdout is not None
        token = running.process.stdout.readline().decode().rpartition(": ")[2].strip()
        (kept,) = (tmp_path / "run" / "ottla").iterdir()
        assert (kept.name, kept.read_text()) == (f"admin-{port}.token", token)
        headers = {"Authorization": f"Bearer {token}", "Content-Type": "application/json"}
        advance = urllib.request.Request(f"http://127.0.0.1:{port}/clock/advance", b'{"ms": 1}', headers)
        with urllib.request.urlopen(advance, timeout=20) as answer:
            assert json.load(answer)["ahead_ms"] == 1
        running.signal(signal.SIGTERM)
        assert running.wait() == 0
        assert token not in running.log_text()
    assert not kept.exists()


def test_unresolvable_admin_host_is_named(tmp_path: Path) -> None:
    with pytest.raises(RuntimeError, match=r"no\.such\.invalid:1, the admin port: (?!Unknown)"):
        ServeProcess(tmp_path / "data", "--admin-port=1", "--admin-host=no.such.invalid").start()


def test_admin_port_in_use_stops_the_start(tmp_path: Path) -> None:
    with ServeProcess(tmp_path / "one", f"--admin-port={free_port()}") as first, pytest.raises(RuntimeError, match="ended with 1"):
        ServeProcess(tmp_path / "two", f"--admin-port={first.port}").start()
