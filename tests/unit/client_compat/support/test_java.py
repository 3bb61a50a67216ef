from __future__ import annotations

from pathlib import Path

import pytest

from client_compat.support.java import NAMES, build_commands, command


def test_each_client_is_built_into_a_directory_of_its_own(tmp_path: Path) -> None:
    commands = build_commands(tmp_path)
    assert [argv[argv.index("-P") + 1] for argv in commands] == list(NAMES)
    assert all(f"-Dcompat.out={tmp_path}" in argv for argv in commands)


def test_a_program_is_started_from_its_own_classes_and_the_classpath_that_maven_wrote(tmp_path: Path) -> None:
    (tmp_path / "java-2.8").mkdir()
    (tmp_path / "java-2.8" / "classpath").write_text("one.jar:two.jar\n")
    argv = command("java-2.8", tmp_path)
    assert argv[0] == "java"
    assert argv[argv.index("-cp") + 1] == f"{tmp_path / 'java-2.8' / 'classes'}:one.jar:two.jar"


def test_a_program_that_was_not_built_cannot_be_started(tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError):
        command("java", tmp_path)
