"""The Java client as a process: `client_compat/java` built by Maven once, then one scenario a run.

Rules: what a scenario saw are lines "name value"; nothing is judged here. Whether there is Java at all is asked before (`why_not`), so
that who needs it can say why it is missing.
"""

from __future__ import annotations

import shutil
import subprocess
from dataclasses import dataclass
from pathlib import Path

PROJECT = Path(__file__).parents[1] / "java"
BUILD_TIMEOUT_S = 300
RUN_TIMEOUT_S = 120
_LOGGING = "-Dorg.slf4j.simpleLogger.defaultLogLevel=error"

Observations = list[tuple[str, str]]


class JavaFailed(RuntimeError):
    """The build or a scenario ended with an error; the message is its output."""


def why_not() -> str | None:
    """What is missing to build and run the Java client; None when nothing is."""
    missing = [name for name in ("java", "javac", "mvn") if shutil.which(name) is None]
    return f"no {', '.join(missing)} here (Debian: apt-get install maven openjdk-17-jdk-headless)" if missing else None


@dataclass(frozen=True, slots=True)
class JavaClient:
    """A built client; `classpath` is all that java needs."""

    classpath: str

    def run(self, bootstrap: str, scenario: str, *arguments: str) -> Observations:
        """Do one scenario of `Main`; what it saw, in order. Raises `JavaFailed`."""
        argv = ["java", _LOGGING, "-XX:TieredStopAtLevel=1", "-cp", self.classpath, "ottla.compat.Main", bootstrap, scenario, *arguments]
        done = subprocess.run(argv, capture_output=True, text=True, timeout=RUN_TIMEOUT_S, check=False)
        if done.returncode:
            raise JavaFailed(f"{scenario} ended with {done.returncode}:\n{done.stdout}{done.stderr}")
        pairs = [line.partition(" ") for line in done.stdout.splitlines()]
        return [(name, value) for name, _, value in pairs]


def build() -> JavaClient:
    """Compile and collect the dependencies; a second time takes a second. Raises `JavaFailed`."""
    written = PROJECT / "target" / "classpath"
    argv = ["mvn", "-q", "-B", "-f", str(PROJECT / "pom.xml"), "compile", "dependency:build-classpath", f"-Dmdep.outputFile={written}"]
    done = subprocess.run(argv, capture_output=True, text=True, timeout=BUILD_TIMEOUT_S, check=False)
    if done.returncode:
        raise JavaFailed(f"the build ended with {done.returncode}:\n{done.stdout[-4000:]}{done.stderr[-1000:]}")
    return JavaClient(f"{PROJECT / 'target' / 'classes'}:{written.read_text()}")
