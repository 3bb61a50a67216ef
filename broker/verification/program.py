"""The program under test: a command that `ottla verify` starts, pauses, kills and stops. The program learns the broker's address from
environment variables.

Rules:
- Each instance of the program leads its own process group, so that processes that it started are paused and killed with it.
- The output of the instances goes to files.
- An instance shares nothing with `ottla verify` but its environment variables and the directory `OTTLA_WORK_DIR`.
"""

from __future__ import annotations

import os
import re
import signal
import subprocess
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from enum import StrEnum
from pathlib import Path

RESULT_TIMEOUT_S = 60.0
_TAIL_LINES = 12
_TAIL_CHARS = 500
_TAIL_BYTES = 16 << 10
_ESCAPES = re.compile(r"\x1b\[[0-?]*[ -/]*[@-~]|[\x00-\x08\x0b-\x1f\x7f]")
"""Matches terminal colours and control characters, which are removed from a program's output because reports cannot contain them."""


class CannotStart(Exception):
    """The program under test cannot be run; the text says why."""


class Role(StrEnum):
    """The kind of work that the program under test does (produce, consume, …). It determines how the program is stopped and judged."""

    PRODUCER = "producer"
    """The program writes records and exits by itself."""
    STREAM = "stream"
    """The program reads the input topic and writes to other topics, until it receives SIGTERM."""
    CONSUMER = "consumer"
    """The program reads the input topic as a consumer group and has effects outside Kafka, until it receives SIGTERM."""
    SHARE_CONSUMER = "share-consumer"
    """The program reads the input topic as a share group and has effects outside Kafka, until it receives SIGTERM."""

    @property
    def has_effects(self) -> bool:
        """Whether the program is judged by its effects outside Kafka (such as database rows), not by the records that it writes."""
        return self in {Role.CONSUMER, Role.SHARE_CONSUMER}


@dataclass(frozen=True, slots=True)
class Program:
    """The program under test: its command, its role, and the values of its environment variables.

    `input` and `output` are topics; `records` is the number of records to read or write. `group` is the group that the program should join;
    if it is a share group, `ottla verify` changes its settings. `result` is a command that prints a consumer's effects outside Kafka, one
    per line; without it, each line that the program prints is an effect.
    """

    command: Sequence[str]
    role: Role = Role.PRODUCER
    input: str = "input"
    output: str = "output"
    group: str = "verified"
    records: int = 200
    result: Sequence[str] | None = None

    def environment(self, bootstrap: str, work: Path, instance: int) -> dict[str, str]:
        """Return the environment variables for the program under test, such as OTTLA_BOOTSTRAP_SERVERS. `work` is the directory that all
        instances may share, and `instance` the number of this instance."""
        return {
            "OTTLA_BOOTSTRAP_SERVERS": bootstrap,
            "KAFKA_BOOTSTRAP_SERVERS": bootstrap,
            "BOOTSTRAP_SERVERS": bootstrap,
            "OTTLA_WORK_DIR": str(work),
            "OTTLA_INSTANCE": str(instance),
            "OTTLA_INPUT": self.input,
            "OTTLA_OUTPUT": self.output,
            "OTTLA_GROUP": self.group,
            "OTTLA_RECORDS": str(self.records),
        }


@dataclass(slots=True, eq=False)
class Instance:
    """One process of the program under test. `number` counts the instances that run side by side, from 1; a restarted instance keeps its
    number. `may_end`: if the process ends, that is not a failure, for instance because `ottla verify` kills it."""

    number: int
    process: subprocess.Popen[bytes]
    out: Path
    err: Path
    may_end: bool = False
    paused: bool = field(default=False, init=False)

    @property
    def exit_code(self) -> int | None:
        """The exit code of the process: None while it runs, negative after a signal."""
        return self.process.poll()

    def signal(self, number: signal.Signals) -> None:
        """Send a signal to the process and its children."""
        with suppress(ProcessLookupError):
            os.killpg(self.process.pid, number)

    def pause(self) -> None:
        """Pause the process and its children, as a long garbage collection or a suspended machine does. If the process ends afterwards,
        that is not a failure."""
        self.paused = self.may_end = True
        self.signal(signal.SIGSTOP)

    def resume(self) -> None:
        """Resume the paused process and its children."""
        self.paused = False
        self.signal(signal.SIGCONT)

    def kill(self) -> None:
        """Kill the process and its children with SIGKILL."""
        self.may_end = True
        self.signal(signal.SIGKILL)
        self.process.wait()

    def end(self, grace_s: float) -> bool:
        """Send SIGTERM, and SIGKILL if the process still runs after `grace_s` seconds. Return whether SIGTERM was sufficient."""
        self.may_end = True
        if self.exit_code is None:
            self.signal(signal.SIGTERM)
        try:
            self.process.wait(grace_s)
        except subprocess.TimeoutExpired:
            self.kill()
            return False
        self.signal(signal.SIGKILL)  # for children that it left behind
        return True

    def error_tail(self) -> list[str]:
        """Return the last lines of the process's standard error, without colours; long lines are cut."""
        with self.err.open("rb") as written:
            written.seek(max(0, self.err.stat().st_size - _TAIL_BYTES))
            text = written.read(_TAIL_BYTES).decode(errors="replace")
        lines = _ESCAPES.sub("", text).splitlines()[-_TAIL_LINES:]
        return [line if len(line) <= _TAIL_CHARS else f"{line[:_TAIL_CHARS]}…" for line in lines]


def start(program: Program, bootstrap: str, directory: Path, number: int, run: int) -> Instance:
    """Start the program under test as instance `number` and return the process. `directory` gets its working files and output; `run` is a
    number that makes the names of the output files unique. Raises CannotStart if the command cannot be run."""
    out, err = (directory / f"instance-{number}-run-{run}.{kind}" for kind in ("out", "err"))
    variables = program.environment(bootstrap, _work(directory), number)
    return _started(number, _filled(program.command, variables), variables, out, err)


def effects(program: Program, bootstrap: str, directory: Path, instances: Sequence[Instance]) -> list[str]:
    """Return a consumer's effects outside Kafka as lines of text: the output of the program's result command or, without one, the output of
    all `instances`. Raises RuntimeError if the result command fails."""
    if program.result is None:
        return [line for instance in instances for line in _lines(instance.out)]
    variables = program.environment(bootstrap, _work(directory), 1)
    command = _filled(program.result, variables)
    try:
        telling = _started(1, command, variables, directory / "result.out", directory / "result.err")
    except CannotStart as error:
        raise RuntimeError(f"the result command {' '.join(command)} failed: {error}") from error
    try:
        code = telling.process.wait(RESULT_TIMEOUT_S)
    except subprocess.TimeoutExpired as error:
        raise RuntimeError(f"the result command {' '.join(command)} did not end within {RESULT_TIMEOUT_S:g} s") from error
    finally:
        telling.kill()
    if code != 0:
        raise RuntimeError(f"the result command {' '.join(command)} failed ({code}): {' / '.join(telling.error_tail())}")
    return list(_lines(telling.out))


def _started(number: int, command: Sequence[str], variables: Mapping[str, str], out: Path, err: Path) -> Instance:
    with out.open("wb") as to_out, err.open("wb") as to_err:
        try:
            process = subprocess.Popen(
                command, stdin=subprocess.DEVNULL, stdout=to_out, stderr=to_err, env={**os.environ, **variables}, start_new_session=True
            )
        except OSError as error:
            raise CannotStart(f"{command[0]} cannot be run: {error.strerror or error}") from error
    return Instance(number, process, out, err)


def _lines(path: Path) -> Iterator[str]:
    with path.open(encoding="utf-8", errors="replace") as written:
        for line in written:
            yield line.rstrip("\n")


def _work(directory: Path) -> Path:
    work = directory / "work"
    work.mkdir(exist_ok=True)
    return work


def _filled(command: Sequence[str], variables: Mapping[str, str]) -> list[str]:
    """Return the command with `{bootstrap}`, `{instance}`, `{work}`, `{input}`, `{output}`, `{group}` and `{records}` replaced by their
    values."""
    names = {
        "{bootstrap}": variables["OTTLA_BOOTSTRAP_SERVERS"],
        "{instance}": variables["OTTLA_INSTANCE"],
        "{work}": variables["OTTLA_WORK_DIR"],
        "{input}": variables["OTTLA_INPUT"],
        "{output}": variables["OTTLA_OUTPUT"],
        "{group}": variables["OTTLA_GROUP"],
        "{records}": variables["OTTLA_RECORDS"],
    }
    filled = []
    for word in command:
        for name, value in names.items():
            word = word.replace(name, value)  # noqa: PLW2901 # successive replacements
        filled.append(word)
    return filled
