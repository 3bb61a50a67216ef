"""A real broker for tests: on a thread with its own loop and a free port (`RunningBroker`), or as a process (`ServeProcess`).

`RunningBroker.kill` leaves the files as SIGKILL does, as far as one process allows: no checkpoint, no sync, no clean-shutdown marker.
"""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from types import TracebackType

from ottla.broker.core.clock import Clock
from ottla.broker.testing.in_process import HOST, SMALL, InProcessBroker, UnsyncedFiles
from ottla.protocol.client import Client

STOP_TIMEOUT_S = 20
TEST_SETTINGS = SMALL


class RunningBroker(InProcessBroker):
    """An in-process broker with the project's own blocking client. It uses the machine's clocks unless a test gives one, and syncs nothing
    to disk."""

    def __init__(
        self,
        data_dir: Path,
        settings: Mapping[str, str] | None = None,
        *,
        faults: Sequence[str] = (),
        clock: Clock | None = None,
        like: str | None = None,
    ) -> None:
        super().__init__(data_dir, settings, faults=faults, clock=clock or Clock(), like=like)
        self.files = UnsyncedFiles()

    def client(self, client_id: str | None = "test", *, port: int | None = None) -> Client:
        """Open a connection to the broker with the project's own blocking client."""
        return Client(HOST, port or self.port, client_id=client_id)

    def start(self) -> RunningBroker:
        super().start()
        return self

    def __enter__(self) -> RunningBroker:
        return self.start()


class ServeProcess:
    """`ottla serve` as a process, to test signals, start-up lines and exit codes."""

    def __init__(self, data_dir: Path, *options: str) -> None:
        self.data_dir = data_dir
        self.options = [f"--set={name}={value}" for name, value in TEST_SETTINGS.items()] + list(options)
        self.port = 0
        self.start_line = ""

    def start(self) -> ServeProcess:
        """Start the process, wait for the line with the broker's address, and return this object. Raises RuntimeError with the process's
        standard error if the process ends before."""
        argv = [sys.executable, "-m", "ottla", "serve", "--data-dir", str(self.data_dir), "--port", str(self.port), *self.options]
        self._log = self.data_dir.with_name(f"{self.data_dir.name}.log").open("ab")
        self.process = subprocess.Popen(argv, stdout=subprocess.PIPE, stderr=self._log, env={**os.environ, "PYTHONUNBUFFERED": "1"})
        assert self.process.stdout is not None
        self.start_line = self.process.stdout.readline().decode()
        if not self.start_line:
            code = self.process.wait(STOP_TIMEOUT_S)
            self._close()
            raise RuntimeError(f"ended with {code}: {self.log_text()}")
        self.port = int(self.start_line.split(" listening on ")[1].split(" ")[0].rpartition(":")[2])
        return self

    @property
    def bootstrap(self) -> str:
        return f"{HOST}:{self.port}"

    def client(self, client_id: str | None = "test") -> Client:
        return Client(HOST, self.port, client_id=client_id)

    def log_text(self) -> str:
        """Return what the process has written to standard error so far."""
        return self.data_dir.with_name(f"{self.data_dir.name}.log").read_text()

    def signal(self, number: signal.Signals) -> None:
        self.process.send_signal(number)

    def wait(self) -> int:
        """Wait until the process ends; return its exit code."""
        code = self.process.wait(STOP_TIMEOUT_S)
        self._close()
        return code

    def kill(self) -> None:
        """Send SIGKILL to the process, and wait until it ends."""
        self.signal(signal.SIGKILL)
        self.wait()

    def stop(self) -> int:
        """Send SIGTERM to the process, wait until it ends, and return its exit code."""
        self.signal(signal.SIGTERM)
        return self.wait()

    def _close(self) -> None:
        assert self.process.stdout is not None
        self.process.stdout.close()
        self._log.close()

    def __enter__(self) -> ServeProcess:
        return self.start()

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        if self.process.poll() is None:
            self.kill()
        elif not self._log.closed:
            self._close()
