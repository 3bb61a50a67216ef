from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from client_compat.support.java import JavaClient, JavaFailed, why_not

FAKE_JAVA = """#!/bin/sh
if [ "$7" = features ]; then printf 'transaction.version 2\\nvalue two words\\n'; else echo "no $7"; exit 3; fi
"""


@pytest.fixture
def fake_java(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> JavaClient:
    program = tmp_path / "java"
    program.write_text(FAKE_JAVA)
    program.chmod(0o755)
    monkeypatch.setenv("PATH", f"{tmp_path}:/usr/bin:/bin")
    return JavaClient("classes")


def test_what_a_scenario_saw_are_its_lines_in_order(fake_java: JavaClient) -> None:
    assert fake_java.run("h:1", "features") == [("transaction.version", "2"), ("value", "two words")]


def test_a_scenario_that_fails_tells_with_what_it_said(fake_java: JavaClient) -> None:
    with pytest.raises(JavaFailed, match=r"unknown ended with 3:\nno unknown"):
        fake_java.run("h:1", "unknown")


def test_what_is_missing_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(shutil, "which", lambda name: None if name in {"mvn", "javac"} else f"/usr/bin/{name}")
    missing = why_not()
    assert missing is not None
    assert missing.startswith("no javac, mvn here")
    monkeypatch.setattr(shutil, "which", lambda name: name)
    assert why_not() is None
