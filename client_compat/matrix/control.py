"""A client program as a child process. Requests and answers are lines of JSON, as specified in client_compat/clients/CONTROL.md.

Rules:
- One thread at a time sends requests to a program; several programs run in parallel.
- Every call has a time limit.
- A program is ended only through its own process id.
- Error messages contain the end of the program's standard error.
"""

from __future__ import annotations

import contextlib
import itertools
import json
import os
import queue
import subprocess
import threading
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

CALL_TIMEOUT_MS = 30_000
"""The default time limit for one call to a client program, in ms."""
GRACE_S = 15.0
"""Extra time, in seconds, that a client program gets after a call's time limit before it counts as hanging."""
READY_TIMEOUT_S = 90.0
END_TIMEOUT_S = 10.0
LOG_TAIL_BYTES = 1_500

Answer = dict[str, Any]


class Unsupported(Exception):
    """Raised when the client's public API has no such operation. The text comes from the client program."""


class ClientMissing(Exception):
    """Raised when the client program runs, but its client library or binary is not available here. The text comes from the program."""


class ProgramFailed(RuntimeError):
    """Raised when the client program ended, hangs or violates the protocol. The text ends with the program's standard error."""


class ScenarioTimedOut(ProgramFailed):
    """Raised by a call to a client program when the time limit of the whole scenario has expired."""


@dataclass(eq=False)
class ClientError(Exception):
    """An error that the client raised or returned.

    `code` is Kafka's error name or `CLIENT:…`. Each of the flags `retriable`, `fatal` and `abortable` is None if the client does not report
    it.
    """

    code: str
    message: str = ""
    retriable: bool | None = None
    fatal: bool | None = None
    abortable: bool | None = None

    def __str__(self) -> str:
        return f"{self.code}: {self.message}" if self.message else self.code

    @staticmethod
    def of(error: Mapping[str, Any]) -> ClientError:
        flags = {name: error.get(name) for name in ("retriable", "fatal", "abortable")}
        return ClientError(str(error["code"]), str(error.get("message") or ""), **flags)


@dataclass(frozen=True, slots=True)
class Ready:
    """The first line that a client program prints: the client's name, its version and its runtime."""

    client: str
    version: str
    runtime: str = ""


class Program:
    """One client program.

    `deadline` is the time, on the clock of time.monotonic, when its scenario times out; None without a limit. Use the program as a context
    manager, or call `start` and `end`.
    """

    def __init__(self, argv: Sequence[str], log: Path, *, cwd: Path | None = None, env: Mapping[str, str] | None = None) -> None:
        self.argv, self.log, self._cwd, self._env = list(argv), log, cwd, env
        self.deadline: float | None = None
        self._lines: queue.Queue[str | None] = queue.Queue()
        self._ids = itertools.count(1)
        self._handles = itertools.count(1)
        self._lock = threading.Lock()
        self._process: subprocess.Popen[str] | None = None

    def start(self) -> Ready:
        """Start the program and wait for its first line. Raises `ClientMissing` if the program reports that its client library is not
        available, or `ProgramFailed` if it does not start."""
        self.log.parent.mkdir(parents=True, exist_ok=True)
        with self.log.open("ab") as sink:
            try:
                self._process = subprocess.Popen(
                    self.argv,
                    stdin=subprocess.PIPE,
                    stdout=subprocess.PIPE,
                    stderr=sink,
                    cwd=self._cwd,
                    env={**os.environ, **(self._env or {})},
                    text=True,
                    encoding="utf-8",
                )
            except OSError as error:
                raise ProgramFailed(f"{self.argv[0]} could not be started: {error}") from error
        threading.Thread(target=self._read, name=f"reader-{self._process.pid}", daemon=True).start()
        try:
            first = self._next(READY_TIMEOUT_S, "did not say that it is ready")
            if "missing" in first:
                raise ClientMissing(str(first["missing"]))
            introduction = first.get("ready")
            if not isinstance(introduction, dict):
                raise ProgramFailed(f"its first line is not an introduction: {json.dumps(first)[:200]}{self.log_tail()}")
        except (ClientMissing, ProgramFailed):
            self.end()
            raise
        return Ready(str(introduction["client"]), str(introduction["version"]), str(introduction.get("runtime", "")))

    @property
    def alive(self) -> bool:
        return self._process is not None and self._process.poll() is None

    def new_handle(self, kind: str) -> str:
        """Return a handle for a new object of this kind, such as a producer, which is unique within this program."""
        return f"{kind}-{next(self._handles)}"

    def call(self, op: str, *, timeout_ms: int = CALL_TIMEOUT_MS, **arguments: Any) -> Answer:
        """Send the program one request and return its answer. Arguments that are None are left out of the request.

        Raises `ClientError` if the client reports an error, `Unsupported` if its API lacks the operation, or `ProgramFailed` if the program
        ends or does not answer in time.
        """
        given = {name: value for name, value in arguments.items() if value is not None}
        with self._lock:
            number = next(self._ids)
            self._write({"id": number, "op": op, "timeout_ms": timeout_ms, **given})
            answer = self._next(timeout_ms / 1000 + GRACE_S, f"did not answer {op}")
        if answer.get("id") != number:
            raise ProgramFailed(f"request {number} ({op}) was answered with {json.dumps(answer)[:200]}{self.log_tail()}")
        if "unsupported" in answer:
            raise Unsupported(str(answer["unsupported"]))
        if "error" in answer:
            raise ClientError.of(answer["error"])
        ok = answer.get("ok")
        if not isinstance(ok, dict):
            raise ProgramFailed(f"{op} was answered with neither ok nor error: {json.dumps(answer)[:200]}{self.log_tail()}")
        return ok

    def end(self) -> None:
        """Close the program's input, which makes it exit; if it does not, terminate it by its process id."""
        process = self._process
        if process is None:
            return
        assert process.stdin is not None, "it is a pipe"
        with contextlib.suppress(OSError):
            process.stdin.close()
        for stop in (process.terminate, process.kill):
            try:
                process.wait(END_TIMEOUT_S)
                break
            except subprocess.TimeoutExpired:
                stop()
        process.wait()

    def kill(self) -> None:
        """Kill the program with SIGKILL, so that it neither leaves its groups nor flushes."""
        assert self._process is not None, "it was started"
        self._process.kill()
        self.end()

    def log_tail(self) -> str:
        """Return the end of the program's standard error, on separate lines; empty if there is none."""
        if not self.log.exists():
            return ""
        with self.log.open("rb") as source:
            source.seek(max(0, source.seek(0, os.SEEK_END) - LOG_TAIL_BYTES))
            text = source.read().decode(errors="replace").strip()
        return f"\nit wrote: {text}" if text else ""

    def _write(self, request: Mapping[str, Any]) -> None:
        sink = self._process.stdin if self._process else None
        assert sink is not None, "it was started"
        try:
            sink.write(json.dumps(request) + "\n")
            sink.flush()
        except (OSError, ValueError) as error:
            raise ProgramFailed(f"the program is gone: {error}{self.log_tail()}") from error

    def _read(self) -> None:
        output = self._process.stdout if self._process else None
        assert output is not None, "the thread is started after the process"
        with output as source:
            for line in source:
                self._lines.put(line)
        self._lines.put(None)

    def _next(self, timeout_s: float, what: str) -> Answer:
        left = None if self.deadline is None else self.deadline - time.monotonic()
        try:
            line = self._lines.get(timeout=max(0.0, timeout_s if left is None else min(timeout_s, left)))
        except queue.Empty:
            late = left is not None and left < timeout_s
            kind, limit = (
                (ScenarioTimedOut, "before the scenario's time was over") if late else (ProgramFailed, f"within {timeout_s:.0f} s")
            )
            raise kind(f"the program {what} {limit}{self.log_tail()}") from None
        if line is None:
            self._lines.put(None)
            code = self._process.wait(END_TIMEOUT_S) if self._process else None
            raise ProgramFailed(f"the program {what}: it ended with {code}{self.log_tail()}")
        try:
            answer = json.loads(line)
        except ValueError:
            raise ProgramFailed(f"the program {what}, but wrote {line[:200]!r}{self.log_tail()}") from None
        if not isinstance(answer, dict):
            raise ProgramFailed(f"the program {what}, but wrote {line[:200]!r}")
        return answer

    def __enter__(self) -> Program:
        self.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.end()
