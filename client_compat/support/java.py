"""Builds and starts the program of `client_compat/clients/java`, with several versions of the Java client.

Rules: Maven writes below the given directory, so that a checkout stays clean. The result is a directory of classes, and a file `classpath`
with its dependencies.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

PROJECT = Path(__file__).resolve().parents[1] / "clients" / "java"
NAMES = ("java", "java-2.8", "java-3.3", "java-3.9")
"""Names of the builds of the program: one with the newest Java client, and three with Java clients before 4.0."""
MAIN_CLASS = "ottla.compat.Control"
JVM_OPTIONS = (
    "-Xmx256m",
    "-XX:+UseSerialGC",
    "-XX:TieredStopAtLevel=1",
    "-Xshare:auto",
    "-Dorg.slf4j.simpleLogger.defaultLogLevel=error",
)
"""JVM options for a process that lives seconds: a quick start matters more than its later speed."""


def build_commands(out: Path) -> list[list[str]]:
    """Return the Maven commands that build the program below `out`, one with each version of the Java client. Run them one after the
    other."""
    return [["mvn", "-q", "-B", "-f", str(PROJECT / "pom.xml"), "-P", name, f"-Dcompat.out={out}", "compile"] for name in NAMES]


def command(name: str, out: Path, options: Sequence[str] = JVM_OPTIONS) -> list[str]:
    """Return the command that starts the build `name` (one of `NAMES`) of the program below `out`. Raises FileNotFoundError if it is not
    built."""
    built = out / name
    classpath = f"{built / 'classes'}:{(built / 'classpath').read_text().strip()}"
    return ["java", *options, "-cp", classpath, MAIN_CLASS]
