"""Reusable client programs. Without reuse, most of the time of a cell (a scenario with a client on a broker) would be the start of a JVM or
an interpreter.

Rules:
- A program belongs to one cell at a time.
- A program is reused only if its cell ended well and the broker still runs.
- All programs are ended with the pool.
"""

from __future__ import annotations

import itertools
import threading
import time
from collections.abc import Callable, Sequence
from pathlib import Path

from client_compat.matrix.brokers import Skipped
from client_compat.matrix.clients import CLIENTS, Note, ToolchainMissing
from client_compat.matrix.control import ClientMissing, Program, Ready


class Pool:
    """Client programs that are reused after a cell (a scenario with a client on a broker) has ended well.

    `ready` holds each client's version info. `idle_max` limits the idle programs of each client; a run sets it to its number of workers.
    """

    def __init__(self, directory: Path, note: Note = lambda text: None, *, idle_max: int = 2) -> None:
        self.ready: dict[str, Ready] = {}
        self._directory, self._note, self._idle_max = directory, note, idle_max
        self._idle: dict[str, list[Program]] = {}
        self._missing: dict[str, str] = {}
        self._building: dict[str, threading.Lock] = {}
        self._numbers = itertools.count(1)
        self._lock = threading.Lock()

    def missing(self, client: str) -> str | None:
        """Build the client's programs if necessary; return why they are not available here, or None. Raises `BuildFailed` if a build fails
        although the toolchain is installed."""
        language = CLIENTS[client].language
        with self._lock:
            building = self._building.setdefault(language.name, threading.Lock())
        with building:  # one lock per language, so that cells of other languages continue
            if language.name not in self._missing:
                try:
                    language.ensure_built(self._note)
                    self._missing[language.name] = ""
                except ToolchainMissing as error:
                    self._missing[language.name] = str(error)
            return self._missing[language.name] or None

    def take(self, client: str) -> Program:
        """Return a running program of the client for exclusive use: an idle one, or a new one. Raises `Skipped` if the client is not
        available here, `BuildFailed` if its build fails, or `ProgramFailed` if the program does not start."""
        if missing := self.missing(client):
            raise Skipped(missing)
        with self._lock:
            while idle := self._idle.get(client):
                program = idle.pop()
                if program.alive:
                    return program
        program = CLIENTS[client].program(self._directory / f"{client}-{next(self._numbers)}.log")
        try:
            self.ready[client] = program.start()
        except ClientMissing as error:
            raise Skipped(str(error)) from None
        return program

    def give_back(self, client: str, program: Program, *, usable: bool) -> None:
        """Take a client program back: keep it for the next cell if it is `usable`, otherwise end it."""
        program.deadline = None
        with self._lock:
            idle = self._idle.setdefault(client, [])
            if usable and program.alive and len(idle) < self._idle_max:
                idle.append(program)
                return
        program.end()

    def end(self) -> None:
        with self._lock:
            programs = [program for idle in self._idle.values() for program in idle]
            self._idle.clear()
        for program in programs:
            program.end()

    def __enter__(self) -> Pool:
        return self

    def __exit__(self, *_: object) -> None:
        self.end()


class Lease:
    """The client programs of one cell (a scenario with a client on a broker). The cell's time ends `timeout_s` after the lease was created,
    not counting the time of builds. `clock` returns seconds."""

    def __init__(self, pool: Pool, peers: Sequence[str], timeout_s: float, clock: Callable[[], float] = time.monotonic) -> None:
        self._pool, self._peers, self._clock = pool, peers, clock
        self._taken: list[tuple[str, Program]] = []
        self._deadline = clock() + timeout_s

    def take(self, client: str) -> Program:
        """Return a running program of the client, which the cell uses until its end. Raises `Skipped` if the client is not available here,
        `BuildFailed` if its build fails, or `ProgramFailed` if the program does not start."""
        began = self._clock()
        self._pool.missing(client)  # build first, or wait for a concurrent build: this time does not count for the client
        self._deadline += self._clock() - began
        self._taken.append((client, self._pool.take(client)))
        for _, program in self._taken:
            program.deadline = self._deadline
        return self._taken[-1][1]

    def others(self) -> Sequence[str]:
        """Return the clients that the cell's scenario may use together with the client under test."""
        return self._peers

    def end(self, *, usable: bool) -> None:
        for client, program in self._taken:
            self._pool.give_back(client, program, usable=usable)
        self._taken.clear()
