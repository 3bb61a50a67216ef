"""Spark's SQL in DuckDB: the places where the two would differ if nothing were done about it."""

from __future__ import annotations

import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from spark_jobs.audit import audit
from spark_jobs.corpus import CASES
from spark_jobs.engines.embedded import EmbeddedEngine, arrow_schema, embedded_engine


@pytest.fixture
def engine() -> Iterator[EmbeddedEngine]:
    with embedded_engine() as running:
        yield running


def test_nulls_sort_first_as_in_spark(engine: EmbeddedEngine) -> None:
    engine.table("t", "n int", [[2], [None], [1]])
    assert [row["n"] for row in engine.rows("SELECT n FROM t ORDER BY n", {})] == [None, 1, 2]


def test_concat_with_null_is_null_as_in_spark(engine: EmbeddedEngine) -> None:
    engine.table("t", "s string", [[None]])
    assert engine.rows("SELECT concat('a', s) AS c FROM t", {}) == [{"c": None}]


def test_counting_nulls_gives_0_as_in_spark(engine: EmbeddedEngine) -> None:
    engine.table("t", "s string", [[None], [None]])
    assert engine.rows("SELECT count_if(s = 'a') AS n FROM t", {}) == [{"n": 0}]


@pytest.mark.parametrize(
    ("value", "text"), [(b'{"a": {"b": 7}}', "7"), (b"not json", None), (b"\xff\xfe", None), (None, None), (b'{"a": {"b": null}}', None)]
)
def test_a_field_of_what_is_no_json_is_null(engine: EmbeddedEngine, value: bytes | None, text: str | None) -> None:
    engine.table("t", "v binary", [[value]])
    query = "SELECT get_json_object(CAST(v AS STRING), :path) AS field FROM t"
    assert engine.rows(query, {"path": engine.json_path("a.b"), "unused": 1}) == [{"field": text}]


def test_a_view_is_made_from_a_query_with_parameters(engine: EmbeddedEngine) -> None:
    engine.table("t", "n int", [[1], [5]])
    engine.define("large", "SELECT n FROM t WHERE n > :least", {"least": 3})
    assert engine.rows("SELECT struct(n AS m).m AS m FROM large", {}) == [{"m": 5}]


def test_a_type_that_no_level_has_is_refused() -> None:
    assert arrow_schema("topic string, partition int").names == ["topic", "partition"]
    with pytest.raises(KeyError):
        arrow_schema("price decimal")


def test_a_small_directory_is_judged_in_well_under_a_second(tmp_path: Path) -> None:
    CASES["planted"].write(tmp_path / "log")
    audit([tmp_path / "log"], engine="duckdb")  # translates the rules, once in a process
    began = time.process_time()
    audit([tmp_path / "log"], engine="duckdb")
    assert time.process_time() - began < 0.8
