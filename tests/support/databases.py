"""Private PostgreSQL and Redis servers for tests, on unix sockets in their own directories, stopped by process id."""

from __future__ import annotations

import os
import pwd
import shutil
import signal
import subprocess
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

START_TIMEOUT_S = 60
STOP_TIMEOUT_S = 20
POLL_S = 0.02


def _postgres_bin() -> Path | None:
    """Return the directory of the server's programs; Debian keeps one for each version."""
    versions = sorted(Path("/usr/lib/postgresql").glob("*/bin/initdb"), key=lambda path: int(path.parts[4]))
    if versions:
        return versions[-1].parent
    found = shutil.which("initdb")
    return Path(found).parent if found else None


def _servers_user() -> str | None:
    """Return the user to run PostgreSQL as, because it refuses to run as root; None: the current user."""
    if os.geteuid() != 0:
        return None
    try:
        return pwd.getpwnam("postgres").pw_name
    except KeyError:
        pytest.skip("PostgreSQL does not run as root, and there is no user `postgres`")


@contextmanager
def _directory(user: str | None) -> Iterator[Path]:
    # Not pytest's tmp_path: another user needs access, and a socket's path must be short.
    directory = Path(tempfile.mkdtemp(prefix="ottla-db-"))
    try:
        if user is not None:
            shutil.chown(directory, user)
        yield directory
    finally:
        shutil.rmtree(directory, ignore_errors=True)


@contextmanager
def _running(argv: list[str], ready: Callable[[], bool], log: Path, user: str | None) -> Iterator[None]:
    with log.open("ab") as output:
        process = subprocess.Popen(argv, stdout=output, stderr=output, user=user, cwd=log.parent)
    try:
        deadline = time.monotonic() + START_TIMEOUT_S
        while not ready():
            assert process.poll() is None, log.read_text()
            assert time.monotonic() < deadline, f"not ready in time: {log.read_text()}"
            time.sleep(POLL_S)  # a foreign server gives no other sign of readiness
        yield
    finally:
        process.send_signal(signal.SIGINT)
        try:
            process.wait(STOP_TIMEOUT_S)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()


@contextmanager
def postgres() -> Iterator[str]:
    """Run a new PostgreSQL; yield its libpq connection string. Skip the test if it is not installed."""
    programs = _postgres_bin()
    if programs is None:
        pytest.skip("PostgreSQL is not installed (Debian, Ubuntu: 'sudo apt-get install postgresql', or 'make databases')")
    user = _servers_user()
    with _directory(user) as directory:
        data = directory / "data"
        init = [str(programs / "initdb"), "-D", str(data), "-U", "postgres", "--auth=trust", "--no-sync", "--locale=C", "-E", "UTF8"]
        made = subprocess.run(init, user=user, cwd=directory, capture_output=True, text=True, timeout=START_TIMEOUT_S, check=False)
        assert made.returncode == 0, made.stderr
        options = ["-D", str(data), "-k", str(directory), "-c", "listen_addresses=", "-c", "fsync=off"]
        probe = [str(programs / "pg_isready"), "-q", "-h", str(directory)]

        def ready() -> bool:
            return subprocess.run(probe, timeout=START_TIMEOUT_S, check=False).returncode == 0

        with _running([str(programs / "postgres"), *options], ready, directory / "log", user):
            yield f"host={directory} user=postgres dbname=postgres"


@contextmanager
def redis_server() -> Iterator[str]:
    """Run a new Redis; yield the path of its socket. Skip the test if it is not installed."""
    program = shutil.which("redis-server")
    if program is None:
        pytest.skip("Redis is not installed (Debian, Ubuntu: 'sudo apt-get install redis-server', or 'make databases')")
    with _directory(None) as directory:
        path = directory / "redis.sock"
        argv = [program, "--port", "0", "--unixsocket", str(path), "--save", "", "--appendonly", "no", "--dir", str(directory)]
        with _running(argv, path.exists, directory / "log", None):
            yield str(path)
