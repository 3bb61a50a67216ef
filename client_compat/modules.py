"""Starts Ottla's image through the modules of testcontainers that start Kafka, and measures the time. Each module is used by a program of
its language (Java, Python, Go, Node), as a user's test would.

Rules:
- Each start is a new process, as in a test run. Only the image's name is changed.
- The modules' reaper (Ryuk) is off, and an environment variable names the host of published ports. Otherwise the modules would pull further
  images, which are not available everywhere: Ryuk's, and in a container Alpine, which Java's module starts to find the host.
"""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable
from dataclasses import dataclass

from client_compat.matrix.clients import CACHE, PROGRAMS, Language

START_TIMEOUT_S = 180
_PYTHON = Language("modules/python")
_GO = Language(
    "modules/go", ("go",), "https://go.dev/dl", lambda out: [["go", "build", "-o", str(out / "start"), "."]], {"CGO_ENABLED": "0"}
)
_NODE = Language(
    "modules/node",
    ("node", "npm"),
    "Debian, Ubuntu: apt-get install nodejs npm",
    lambda out: [["npm", "ci", "--no-audit", "--no-fund", "--loglevel=error"]],
    sources=("package.json", "package-lock.json"),
)
_JAVA = Language(
    "modules/java",
    ("java", "javac", "mvn"),
    "Debian, Ubuntu: apt-get install maven openjdk-17-jdk-headless",
    lambda out: [["mvn", "-q", "-B", f"-Dcompat.out={out}", "compile"]],
)


@dataclass(frozen=True, slots=True)
class Module:
    """One module of testcontainers that starts Kafka. `image` is the name of Ottla's image, which is used in place of Kafka's. For the
    Python and Node modules the name has a tag, because these modules compare the tag with versions of Confluent Platform."""

    name: str
    language: Language
    kind: str
    image: str

    def seconds(self) -> float:
        """Start a broker with the module, produce and consume a record, and stop the broker. Return the seconds until the module reported
        it as ready; for Node's module, which does not wait, until the broker responded. Raises RuntimeError with the program's output if
        the program fails."""
        variables = {"TESTCONTAINERS_RYUK_DISABLED": "true"}
        if os.environ.get("DOCKER_HOST", "unix:").startswith("unix:"):
            variables["TESTCONTAINERS_HOST_OVERRIDE"] = "localhost"
        environment = {**os.environ, **variables}
        argv = [*_COMMANDS[self.language.name](), self.kind, self.image]
        done = subprocess.run(argv, env=environment, capture_output=True, text=True, timeout=START_TIMEOUT_S, check=False)
        if done.returncode != 0:
            raise RuntimeError(f"{self.name} ended with {done.returncode}: {(done.stdout + done.stderr)[-4000:]}")
        return float(done.stdout.split()[-1])


def _java() -> list[str]:
    out = CACHE / _JAVA.name
    return ["java", "-cp", f"{out / 'classes'}:{(out / 'classpath').read_text().strip()}", "ottla.modules.Start"]


_COMMANDS: dict[str, Callable[[], list[str]]] = {
    _JAVA.name: _java,
    _PYTHON.name: lambda: [sys.executable, str(PROGRAMS / _PYTHON.name / "start.py")],
    _GO.name: lambda: [str(CACHE / _GO.name / "start")],
    _NODE.name: lambda: [str(PROGRAMS / _NODE.name / "run")],
}

MODULES = (
    Module("Java 1.21, KafkaContainer", _JAVA, "apache", "ottla"),
    Module("Java 1.21, ConfluentKafkaContainer", _JAVA, "confluent", "ottla"),
    Module("Java 1.21, the older KafkaContainer with ZooKeeper", _JAVA, "zookeeper", "ottla"),
    Module("Python 4.15, with ZooKeeper", _PYTHON, "zookeeper", "ottla:8.0.0"),
    Module("Python 4.15, with_kraft", _PYTHON, "kraft", "ottla:8.0.0"),
    Module("Go 0.40", _GO, "go", "ottla"),
    Module("Node 12.2, withKraft", _NODE, "kraft", "ottla:8.0.0"),
    Module("Node 12.2, with ZooKeeper", _NODE, "zookeeper", "ottla:7.9.0"),
)
