from __future__ import annotations

import os
import shlex
import subprocess
from pathlib import Path

import pytest

from ottla.spark_jobs.class_archive import ARCHIVES_MAX, archive_options
from ottla.spark_jobs.session import find_java


@pytest.fixture
def home(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Path:
    """Return a directory that stands for Spark's home; user caches are below `tmp_path`."""
    (tmp_path / "spark" / "jars").mkdir(parents=True)
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "user's cache"))
    return tmp_path / "spark"


def fake_java(directory: Path) -> str:
    (directory / "bin").mkdir(parents=True)
    (directory / "bin" / "java").touch()
    (directory / "lib" / "server").mkdir(parents=True)
    (directory / "lib" / "server" / "classes.jsa").touch()
    return str(directory / "bin" / "java")


def java_with_classes() -> str:
    """Return a Java that has an archive of its own classes; skip the test without one."""
    java = find_java()
    if java is None or not (Path(java).resolve().parents[1] / "lib" / "server" / "classes.jsa").is_file():
        pytest.skip("no Java with an archive of its own classes")
    return java


def test_first_jvm_writes_the_class_archive_that_the_next_one_loads(home: Path) -> None:
    java = java_with_classes()
    options = archive_options(java, home)
    assert "ArchiveClassesAtExit" in options
    for _ in range(2):
        done = subprocess.run([java, *shlex.split(options), "--list-modules"], capture_output=True, check=True, text=True)
        assert all("@" in line for line in done.stdout.splitlines())
        assert not done.stderr
        options = archive_options(java, home)
        assert "SharedArchiveFile" in options


def test_incomplete_class_archive_of_a_killed_jvm_is_written_again(home: Path, tmp_path: Path) -> None:
    java = java_with_classes()
    subprocess.run([java, *shlex.split(archive_options(java, home)), "--list-modules"], capture_output=True, check=True)
    (archive,) = (tmp_path / "user's cache" / "ottla").iterdir()
    whole = archive.read_bytes()
    archive.chmod(0o600)
    # the header, which the JVM writes last, is there at the end only
    for half in (b"", bytes(4096), bytes(4096) + whole[4096:]):
        archive.write_bytes(half)
        options = archive_options(java, home)
        assert "ArchiveClassesAtExit" in options
        subprocess.run([java, *shlex.split(options), "--list-modules"], capture_output=True, check=True)
        options = archive_options(java, home)
        assert "SharedArchiveFile" in options
        loaded = subprocess.run(
            [java, *shlex.split(options), "-Xlog:class+load", "--list-modules"], capture_output=True, check=True, text=True
        )
        assert "shared objects file (top)" in loaded.stdout
        archive.chmod(0o600)


def test_each_java_and_each_spark_have_their_own_archive(home: Path, tmp_path: Path) -> None:
    java, other = fake_java(tmp_path / "java"), fake_java(tmp_path / "other")
    (tmp_path / "spark2" / "jars").mkdir(parents=True)
    assert len({archive_options(java, home), archive_options(other, home), archive_options(java, tmp_path / "spark2")}) == 3


def test_old_archives_are_deleted_when_another_one_is_written(home: Path, tmp_path: Path) -> None:
    cache = tmp_path / "user's cache" / "ottla"
    cache.mkdir(parents=True)
    archives = [cache / f"spark-{age}.jsa" for age in range(ARCHIVES_MAX + 1)]
    for age, archive in enumerate(archives):
        archive.touch()
        os.utime(archive, (1e9 - age, 1e9 - age))
    assert archive_options(fake_java(tmp_path / "java"), home)
    assert sorted(cache.iterdir()) == archives[: ARCHIVES_MAX - 1]


def test_class_archive_in_another_users_directory_is_not_loaded(home: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    java = fake_java(tmp_path / "java")
    assert archive_options(java, home)
    monkeypatch.setattr(os, "geteuid", lambda: os.getuid() + 1)
    assert not archive_options(java, home)


def test_jvm_starts_without_a_class_archive_if_it_cannot_be_stored(home: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "file").touch()
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "file"))
    assert not archive_options(fake_java(tmp_path / "java"), home)


def test_java_without_its_default_class_archive_gets_none(home: Path, tmp_path: Path) -> None:
    java = fake_java(tmp_path / "java")
    (tmp_path / "java" / "lib" / "server" / "classes.jsa").unlink()
    assert not archive_options(java, home)
