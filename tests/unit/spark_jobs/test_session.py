from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from ottla.spark_jobs.session import LOG_CONFIG, CannotJudge, cores_of, find_java, require_spark, settings


def fake_java(home: Path) -> str:
    java = home / "bin" / "java"
    java.parent.mkdir(parents=True)
    java.write_text("#!/bin/sh\n")
    java.chmod(0o755)
    return str(java)


def test_java_home_takes_precedence_over_the_path(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    java = fake_java(tmp_path / "jdk")
    monkeypatch.setenv("JAVA_HOME", str(tmp_path / "jdk"))
    monkeypatch.setenv("PATH", str(Path(fake_java(tmp_path / "other")).parent))
    assert find_java() == java


def test_a_java_home_without_java_is_named(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("JAVA_HOME", str(tmp_path))
    with pytest.raises(CannotJudge, match=f"no bin/java in {tmp_path}"):
        require_spark()


def test_spark_binds_to_loopback_and_uses_its_log_configuration() -> None:
    chosen = settings(0)
    assert (chosen["spark.driver.bindAddress"], chosen["spark.ui.enabled"]) == ("127.0.0.1", "false")
    assert LOG_CONFIG.is_file()


def test_a_large_log_gets_the_full_compiler_and_more_shuffle_partitions() -> None:
    small, large = settings(1 << 20), settings(8 << 30)
    for options in ("spark.driver.extraJavaOptions", "spark.executor.defaultJavaOptions"):
        assert "TieredStopAtLevel" in small[options]
        assert "TieredStopAtLevel" not in large[options]
    assert small["spark.sql.codegen.wholeStage"] == "false"
    assert "spark.sql.codegen.wholeStage" not in large
    assert int(large["spark.sql.shuffle.partitions"]) > int(small["spark.sql.shuffle.partitions"])


@pytest.mark.parametrize(
    ("master", "cores"),
    [
        ("local", 1),
        ("local[3]", 3),
        ("local[*]", os.cpu_count()),
        ("local[3, 2]", 3),
        ("local-cluster[2, 3, 1024]", 6),
        ("spark://h:7077", None),
        ("yarn", None),
    ],
)
def test_number_of_cores_is_known_only_for_local_masters(master: str, cores: int | None) -> None:
    assert cores_of(master) == cores


def test_a_second_session_in_a_process_starts_no_further_jvm() -> None:
    twice = """
import psutil
from ottla.spark_jobs.session import cluster
for _ in range(2):
    with cluster("local[1]") as context:
        print(context.parallelize([1], 1).sum(), [each.name() for each in psutil.Process().children()])
"""
    done = subprocess.run([sys.executable, "-c", twice], stdout=subprocess.PIPE, check=True, text=True, timeout=300)
    assert done.stdout == "1 ['java']\n" * 2
