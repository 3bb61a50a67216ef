"""The Java client's program of `client_compat/clients/java`, against two versions of the client: how each is built and started.

Rules: Maven writes below the directory that it is told, so a checkout stays clean; what is built is a directory of classes and a file
`classpath` with its dependencies.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

PROJECT = Path(__file__).resolve().parents[1] / "clients" / "java"
NAMES = ("java", "java-2.8")
"""The newest client, and one from before 3.0."""
MAIN_CLASS = "ottla.compat.Control"
JVM_OPTIONS = (
    "-Xmx256m",
    "-XX:+UseSerialGC",
    "-XX:TieredStopAtLevel=1",
    "-Xshare:auto",
    "-Dorg.slf4j.simpleLogger.defaultLogLevel=error",
)
"""For a process that lives seconds: a quick start matters more than its speed later."""


def build_commands(out: Path) -> list[list[str]]:
    """What builds both programs below `out`, run one after the other."""
    return [["mvn", "-q", "-B", "-f", str(PROJECT / "pom.xml"), "-P", name, f"-Dcompat.out={out}", "compile"] for name in NAMES]


def command(name: str, out: Path, options: Sequence[str] = JVM_OPTIONS) -> list[str]:
    """What starts the program `name` that was built below `out`. Raises FileNotFoundError where it was not."""
    built = out / name
    classpath = f"{built / 'classes'}:{(built / 'classpath').read_text().strip()}"
    return ["java", *options, "-cp", classpath, MAIN_CLASS]
