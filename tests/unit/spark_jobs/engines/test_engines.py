"""The choice of the engine; and both engines give the same verdict on the whole corpus, each in one run."""

from __future__ import annotations

from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from ottla.spark_jobs.audit import audit
from ottla.spark_jobs.corpus import CASES
from ottla.spark_jobs.corpus.score import write
from ottla.spark_jobs.engines import EMBEDDED_BYTES_MAX, choose
from ottla.spark_jobs.verdict import Verdict

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


def comparable(verdict: Verdict) -> list[dict[str, Any]]:
    return [asdict(directory) for directory in verdict.directories]


def test_both_engines_have_the_same_verdict_on_the_whole_corpus(spark: SparkSession, tmp_path: Path) -> None:
    write(CASES, tmp_path)
    single = [tmp_path / name for name, case in CASES.items() if not case.directories]
    verdicts = [audit(single, key_field="row", engine=engine, deep=True) for engine in ("duckdb", "spark")]
    assert [verdict.engine for verdict in verdicts] == ["duckdb", "spark"]
    for embedded, distributed in zip(*map(comparable, verdicts), strict=True):
        assert embedded == distributed


def test_both_engines_judge_a_log_with_index_files_and_without_a_transaction_coordinator(spark: SparkSession, tmp_path: Path) -> None:
    name = "index_cut"
    write({name: CASES[name]}, tmp_path)
    assert not list(tmp_path.glob(f"{name}/__transaction_state*"))
    embedded, distributed = (audit([tmp_path / name], engine=engine, deep=False) for engine in ("duckdb", "spark"))
    assert comparable(embedded) == comparable(distributed)


@pytest.mark.parametrize("name", ["replicas_missing", "replicas_compacted_with_another_record"])
def test_both_engines_find_the_same_in_replicas(spark: SparkSession, tmp_path: Path, name: str) -> None:
    write({name: CASES[name]}, tmp_path)
    paths = [tmp_path / name / directory for directory in CASES[name].directories]
    embedded, distributed = (audit(paths, replicas=True, engine=engine) for engine in ("duckdb", "spark"))
    assert comparable(embedded) == comparable(distributed)
    assert embedded.exit_code == 1


def test_size_selects_the_engine_unless_one_is_given() -> None:
    assert choose("auto", EMBEDDED_BYTES_MAX) == "duckdb"
    assert choose("auto", EMBEDDED_BYTES_MAX + 1) == "spark"
    assert choose("auto", EMBEDDED_BYTES_MAX + 1, spark_runs=False) == "duckdb"
    assert choose("spark", 0) == "spark"
    with pytest.raises(ValueError, match="no such engine: flink"):
        choose("flink", 0)
