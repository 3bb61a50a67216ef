"""The clients of the matrix: language, toolchain, and how to build and start each program.

Rules:
- A program is built once, and again only when a source changed. Builds go to `.compat/`, which git ignores.
- A file lock prevents concurrent builds by two runs.
- If a toolchain is missing, the error says what to install.
"""

from __future__ import annotations

import hashlib
import os
import shutil
import subprocess
import sys
from collections.abc import Callable, Mapping, Sequence
from contextlib import nullcontext
from dataclasses import dataclass, field, replace
from functools import cache
from pathlib import Path

from client_compat.matrix.control import Program
from client_compat.release.pythons import find
from client_compat.support import java
from client_compat.support.locks import locked, maven

ROOT = Path(__file__).resolve().parents[2]
PROGRAMS = ROOT / "client_compat" / "clients"
CACHE = ROOT / ".compat"
BUILD_TIMEOUT_S = 1_800.0
_OUTPUT_CHARS = 1_500
_GENERATED = {"target", "node_modules", "__pycache__", "Cargo.lock"}

Note = Callable[[str], None]


class BuildFailed(RuntimeError):
    """Raised when a client program could not be built. The text is the end of the toolchain's output."""


class ToolchainMissing(RuntimeError):
    """Raised when a language's toolchain is not installed. The text says what to install."""


@dataclass(frozen=True, slots=True)
class Language:
    """A language and its toolchain.

    - `tools`: the required commands.
    - `probe`: a command, run in the language's directory, that fails if the toolchain is too old.
    - `build`: returns the build commands, run in that directory. None if nothing has to be built.
    - `sources`: the program is built again when one of them changed.
    - `busy`: its scenarios use every core, so only one runs at a time.
    - `pythons`: the versions of Python with which the program's own virtual environment can be made, best first.
    - `pins`: the packages to install in that environment. The program is built again when they change.
    - `home`: the directory below `clients`, if it does not have the language's name.
    """

    name: str
    tools: tuple[str, ...] = ()
    hint: str = ""
    build: Callable[[Path], Sequence[Sequence[str]]] | None = None
    env: Mapping[str, str] = field(default_factory=dict)
    sources: tuple[str, ...] = ("**/*",)
    busy: bool = False
    probe: tuple[str, ...] = ()
    pythons: tuple[str, ...] = ()
    pins: tuple[str, ...] = ()
    home: str = ""

    @property
    def directory(self) -> Path:
        return PROGRAMS / (self.home or self.name)

    @property
    def out(self) -> Path:
        return CACHE / self.name

    def missing(self) -> str | None:
        """Return which commands are missing or too old, and what to install; None if all are there."""
        gone = [tool for tool in self.tools if shutil.which(tool) is None]
        if gone:
            return f"no {', '.join(gone)} here ({self.hint})"
        if self.pythons and not find(self.pythons):
            return f"no Python {' or '.join(self.pythons)} here ({self.hint})"
        output = refused(self.directory, self.probe) if self.probe else ""
        return f"{self.probe[0]} is too old here: {output} ({self.hint})" if output else None

    def ensure_built(self, note: Note = lambda text: None) -> None:
        """Build the program unless its sources are unchanged since the last build. Raises `ToolchainMissing` if a required command is
        missing, `BuildFailed` if the build fails."""
        if missing := self.missing():
            raise ToolchainMissing(missing)
        if self.build is None:
            return
        self.out.mkdir(parents=True, exist_ok=True)
        stamp = self.out / "built"
        with locked(self.out / "lock"):
            wanted = digest(self.directory, self.sources) + " ".join(self.pins)
            if stamp.exists() and stamp.read_text() == wanted:
                return
            note(f"building the {self.name} clients")
            for command in self.build(self.out):
                with maven() if command[0] == "mvn" else nullcontext():
                    self._run(command)
            stamp.write_text(wanted)

    def _run(self, command: Sequence[str]) -> None:
        done = subprocess.run(
            command,
            cwd=self.directory,
            env={**os.environ, **self.env},
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            timeout=BUILD_TIMEOUT_S,
            check=False,
        )
        if done.returncode:
            output = (done.stdout + done.stderr).strip()[-_OUTPUT_CHARS:]
            raise BuildFailed(f"{' '.join(command[:3])} ended with {done.returncode}:\n{output}")


@cache
def refused(directory: Path, probe: tuple[str, ...]) -> str:
    """Run the command `probe` in `directory` to see whether a toolchain is new enough. Return the command's error output in one line, or an
    empty text if it succeeds."""
    done = subprocess.run(
        probe, cwd=directory, stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=BUILD_TIMEOUT_S, check=False
    )
    return " ".join(done.stderr.split()) or f"ended with {done.returncode}" if done.returncode else ""


def digest(directory: Path, patterns: Sequence[str] = ("**/*",)) -> str:
    """Return a digest of the names and contents of the matching files below `directory`, without build output."""
    found = hashlib.sha256()
    for path in sorted({path for pattern in patterns for path in directory.glob(pattern)}):
        inside = path.relative_to(directory)
        if path.is_file() and not _GENERATED.intersection(inside.parts):
            found.update(str(inside).encode() + b"\0" + path.read_bytes() + b"\0")
    return found.hexdigest()


PYTHON = Language("python")
KCAT = Language("kcat", ("kcat",), "Debian, Ubuntu: apt-get install kcat")
SPARK = Language("spark", ("java",), "Debian, Ubuntu: apt-get install openjdk-17-jre-headless", busy=True)
GO = Language(
    "go",
    ("go",),
    "https://go.dev/dl",
    lambda out: [["go", "build", "-o", str(out / "client"), "."]],
    {"CGO_ENABLED": "0"},
    probe=("go", "list", "-m"),
)
OLDER_FRANZ = ("franz-go-1.11", "franz-go-1.18")
"""Clients that are older versions of franz-go: of December 2022, the oldest version with which the program can be built, and of October
2024. clients/go/older has their Go module files."""


def _older_go(name: str) -> Language:
    """Return the language entry that builds the Go program with an older version of franz-go."""

    def build(out: Path) -> Sequence[Sequence[str]]:
        return [["go", "build", "-tags", "older", f"-modfile=older/{name}.mod", "-o", str(out / "client"), "."]]

    return replace(GO, name=name, home=GO.name, build=build)


NODE = Language(
    "node",
    ("node", "npm"),
    "Debian, Ubuntu: apt-get install nodejs npm",
    lambda out: [["npm", "ci", "--no-audit", "--no-fund", "--loglevel=error"]],
    sources=("package.json", "package-lock.json"),
)
RUST = Language(
    "rust",
    ("cargo",),
    "https://rustup.rs",
    lambda out: [["cargo", "build", "--quiet", "--target-dir", str(out / "target")]],
    probe=("cargo", "metadata", "--no-deps", "--offline", "--format-version=1"),
)
JAVA = Language("java", ("java", "javac", "mvn"), "Debian, Ubuntu: apt-get install maven openjdk-17-jdk-headless", java.build_commands)
CODECS = ("lz4==4.4.5", "python-snappy==0.7.3", "zstandard==0.25.0", "async-timeout==4.0.3")
"""Packages that the older Python libraries need for compression, and one that the client program needs under Python 3.10."""
OLDER_LIBRARIES: Mapping[str, tuple[tuple[str, ...], tuple[str, ...]]] = {
    "aiokafka-0.7": (("3.10",), ("aiokafka==0.7.2", "kafka-python==2.0.2", *CODECS)),
    "aiokafka-0.8": (("3.11", "3.10"), ("aiokafka==0.8.1", "kafka-python==2.0.2", *CODECS)),
    "aiokafka-0.12": (("3.11", "3.12", "3.13"), ("aiokafka==0.12.0", "cramjam==2.14.0")),
    "confluent-kafka-1.9": (("3.10",), ("confluent-kafka==1.9.2", *CODECS)),
    "confluent-kafka-2.0": (("3.11",), ("confluent-kafka==2.0.2",)),
    "confluent-kafka-2.6": (("3.11", "3.12", "3.13"), ("confluent-kafka==2.6.1",)),
    "kafka-python-2.0": (("3.11", "3.10"), ("kafka-python==2.0.2", *CODECS)),
}
"""Older versions of the Python libraries: the versions of Python for which they have wheels (aiokafka 0.7 is compiled), best first, and the
packages to install."""


def _older(name: str) -> Language:
    """Return the language entry of a Python program with an older library, in a virtual environment of its own below `.compat`."""
    pythons, pins = OLDER_LIBRARIES[name]

    def build(out: Path) -> Sequence[Sequence[str]]:
        python = next(iter(find(pythons).values())).path
        return [[str(python), "-m", "venv", "--clear", str(out / "venv")], [str(out / "venv/bin/pip"), "install", "--quiet", *pins]]

    return Language(name, (), "https://www.python.org/downloads", build, sources=(), pythons=pythons, pins=pins, home=PYTHON.name)


@dataclass(frozen=True, slots=True)
class ClientKind:
    """One client. `command` returns its program's command line, run in `ROOT`.

    An `optional` client may be missing although its language's toolchain is installed. An `is_old_release` client is an older version of a
    library; it runs only on brokers whose `clients` name it.
    """

    name: str
    language: Language
    command: Callable[[], list[str]]
    optional: bool = False
    is_old_release: bool = False

    def program(self, log: Path) -> Program:
        """Return the client's program as a child process that is not started."""
        return Program(self.command(), log, cwd=ROOT)


def _python(name: str) -> ClientKind:
    return ClientKind(name, PYTHON, lambda: [sys.executable, "-m", "client_compat.clients.python", "--client", name])


def _older_python(name: str) -> ClientKind:
    language, library = _older(name), name.rpartition("-")[0]
    argv = [str(language.out / "venv/bin/python"), "-m", "client_compat.clients.python", "--client", library]
    return ClientKind(name, language, lambda: argv, is_old_release=True)


def _go(name: str) -> ClientKind:
    return ClientKind(name, GO, lambda: [str(GO.out / "client"), "--client", name])


def _older_franz(name: str) -> ClientKind:
    language = _older_go(name)
    return ClientKind(name, language, lambda: [str(language.out / "client"), "--client", "franz-go"], is_old_release=True)


def _node(name: str, *, optional: bool = False) -> ClientKind:
    return ClientKind(name, NODE, lambda: [str(NODE.directory / "run"), "--client", name], optional)


def _rust(name: str) -> ClientKind:
    return ClientKind(name, RUST, lambda: [str(RUST.out / "target" / "debug" / "ottla-client"), "--client", name])


def _java(name: str, *, is_old_release: bool = False) -> ClientKind:
    return ClientKind(name, JAVA, lambda: java.command(name, JAVA.out), is_old_release=is_old_release)


def _module(name: str, language: Language) -> ClientKind:
    return ClientKind(name, language, lambda: [sys.executable, "-m", f"client_compat.clients.{language.name}"])


CLIENTS: Mapping[str, ClientKind] = {
    kind.name: kind
    for kind in (
        _java("java"),
        _java("java-2.8"),
        _java("java-3.3", is_old_release=True),
        _java("java-3.9", is_old_release=True),
        _python("aiokafka"),
        _python("confluent-kafka"),
        _python("kafka-python"),
        *map(_older_python, OLDER_LIBRARIES),
        _go("franz-go"),
        *map(_older_franz, OLDER_FRANZ),
        _go("sarama"),
        _go("kafka-go"),
        _node("kafkajs"),
        _node("platformatic-kafka"),
        _node("confluent-kafka-javascript", optional=True),
        _rust("rdkafka"),
        _rust("rskafka"),
        _module("kcat", KCAT),
        _module("spark", SPARK),
    )
}


def library_of(client: str) -> str:
    """Return the name of the client's library: for an older version, the name without it, such as `aiokafka` for `aiokafka-0.8`."""
    return client.rpartition("-")[0] if client in CLIENTS and CLIENTS[client].is_old_release else client
