"""Calls of Maven, with a stand-in that makes empty jars."""

from __future__ import annotations

from pathlib import Path

import pytest

from client_compat.kafka import jars

VERSION = "9.9.9"
NAMED = (f"kafka_2.13-{VERSION}", "reload4j-1.2.25", "slf4j-simple-1.7.36")
"""The jars that the pom names."""
JARS = {f"{name}.jar" for name in ("jline-3", *NAMED)}
"""What Maven brings: these, and what they need."""
MAVEN = """#!/bin/sh
for word; do case $word in -DoutputDirectory=*) directory=${word#*=};; esac; done
mkdir -p "$directory"
for name in jline-3 kafka_2.13-9.9.9 reload4j-1.2.25 slf4j-simple-1.7.36; do echo fetched > "$directory/$name.jar"; done
echo called >> "$MAVEN_CALLS"
"""


@pytest.fixture
def maven_calls(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Return the file in which the stand-in for Maven records its calls."""
    programs = tmp_path / "bin"
    programs.mkdir()
    for name, text in (("mvn", MAVEN), ("java", "#!/bin/sh\n")):
        (programs / name).write_text(text)
        (programs / name).chmod(0o755)
    monkeypatch.setenv("PATH", str(programs), prepend=":")
    monkeypatch.delenv("JAVA_HOME", raising=False)
    monkeypatch.setenv("MAVEN_CALLS", str(tmp_path / "calls"))
    monkeypatch.setattr(jars, "CACHE", tmp_path / "cache")
    return tmp_path / "calls"


def found(directory: Path) -> dict[str, str]:
    return {path.name: path.read_text().strip() for path in directory.iterdir()}


def test_jars_are_fetched_once(maven_calls: Path) -> None:
    assert jars.jars(VERSION) == jars.jars(VERSION) == jars.CACHE / VERSION
    assert maven_calls.read_text().split() == ["called"]
    assert found(jars.CACHE / VERSION).keys() == JARS
    assert [path.name for path in jars.CACHE.iterdir() if path.is_dir()] == [VERSION]


def test_partially_fetched_jar_directory_is_completed_and_keeps_its_files(maven_calls: Path) -> None:
    directory = jars.CACHE / VERSION
    directory.mkdir(parents=True)
    (directory / f"kafka_2.13-{VERSION}.jar").write_text("in use")
    jars.jars(VERSION)
    assert found(directory) == dict.fromkeys(JARS, "fetched") | {f"kafka_2.13-{VERSION}.jar": "in use"}
    jars.jars(VERSION)
    assert maven_calls.read_text().split() == ["called"]
