"""Apache Kafka's jars, which Maven downloads once into `.kafka/<version>/`, ignored by git.

Rules:
- Nothing is downloaded twice. A new directory is renamed into place as a whole.
- If the pom has changed, the missing jars are added to the existing directory, Kafka's own last, because the directory counts as complete
  when it has these.
"""

from __future__ import annotations

import os
import re
import shutil
import subprocess
from collections.abc import Callable
from pathlib import Path

from client_compat.support import locks

POM = Path(__file__).with_name("pom.xml")
BROKER_POM = Path(__file__).with_name("broker-pom.xml")
"""The pom for all versions but the default one: the broker alone."""
CACHE = Path(__file__).resolve().parents[2] / ".kafka"
FETCH_TIMEOUT_S = 600.0
VERSION_VARIABLE = "KAFKA_REFERENCE_VERSION"
_OUTPUT_CHARS = 600
_DEPENDENCY = re.compile(r"<artifactId>([^<]+)</artifactId>\s*<version>([^<]+)</version>\s*</dependency>")
"""Matches a dependency in a pom: the artifact's name and its version."""


class KafkaMissing(RuntimeError):
    """Raised when Apache Kafka is not available on this machine. The message says what to install, or has Maven's output."""


def default_version() -> str:
    """Return the default Kafka version: `KAFKA_REFERENCE_VERSION` if the environment sets it, else the version in the pom."""
    found = re.search(r"<kafka\.version>([^<]+)<", POM.read_text())
    assert found is not None, f"{POM} names no version"
    return os.environ.get(VERSION_VARIABLE) or found[1]


def java() -> str:
    """Return the java program: `JAVA_HOME`'s, else the one on the path. Raises `KafkaMissing` if there is neither."""
    home = os.environ.get("JAVA_HOME")
    candidate = shutil.which("java", path=str(Path(home) / "bin")) if home else shutil.which("java")
    if candidate is None:
        raise KafkaMissing("Apache Kafka needs Java 17 or later: install one (Debian, Ubuntu: openjdk-17-jre-headless) or set JAVA_HOME")
    return candidate


def jars(version: str | None = None) -> Path:
    """Return the directory with the jars of `version`; download them if needed. Raises `KafkaMissing` if Java is missing or the download
    fails.

    The default version includes Kafka's command-line tools; any other version is only the broker.
    """
    version = version or default_version()
    java()
    directory, pom = CACHE / version, POM if version == default_version() else BROKER_POM

    def is_complete() -> bool:
        named = _DEPENDENCY.findall(pom.read_text().replace("${kafka.version}", version))
        return all((directory / f"{name}-{its_version}.jar").exists() for name, its_version in named)

    if not is_complete():
        copy_dependencies(pom, [f"-Dkafka.version={version}"], directory, f"Apache Kafka {version}", is_complete)
    return directory


def copy_dependencies(pom: Path, settings: list[str], directory: Path, what: str, is_complete: Callable[[], bool]) -> None:
    """Copy the jars that `pom` needs to `directory` with Maven. `settings` are additional Maven arguments, `what` names the jars in errors.

    Only one process at a time runs Maven. A process that has waited for its turn does nothing if `is_complete()` is true then, because
    another process has copied the jars. Raises `KafkaMissing` if Maven is missing, fails or takes too long."""
    mvn = shutil.which("mvn")
    if mvn is None:
        raise KafkaMissing(f"the jars of {what} are fetched by Maven, and there is no mvn: install it (Debian, Ubuntu: maven)")
    unfinished = directory.with_name(f"{directory.name}.{os.getpid()}.part")
    goal = [*settings, "-DincludeScope=runtime", f"-DoutputDirectory={unfinished}", "dependency:copy-dependencies"]
    try:
        with locks.maven():
            if is_complete():
                return
            done = subprocess.run(
                [mvn, "-q", "-B", "-f", str(pom), *goal], capture_output=True, text=True, timeout=FETCH_TIMEOUT_S, check=False
            )
        if done.returncode != 0:
            raise KafkaMissing(f"Maven could not fetch {what}: {(done.stdout + done.stderr).strip()[:_OUTPUT_CHARS]}")
        _move(unfinished, directory)
    except subprocess.TimeoutExpired as error:
        raise KafkaMissing(f"Maven did not fetch {what} within {FETCH_TIMEOUT_S:.0f} s") from error
    finally:
        shutil.rmtree(unfinished, ignore_errors=True)


def _move(fetched: Path, directory: Path) -> None:
    """Move the fetched jars to `directory`. Existing jars are not replaced, because running processes may use them."""
    if not directory.is_dir():
        fetched.rename(directory)
        return
    for jar in sorted(fetched.iterdir(), key=lambda jar: jar.name.startswith("kafka")):
        if not (directory / jar.name).exists():
            jar.rename(directory / jar.name)
