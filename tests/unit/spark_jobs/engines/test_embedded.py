"""Spark's SQL executed by DuckDB: the functions whose results would differ without translation."""

from __future__ import annotations

import signal
import threading
import time
from collections.abc import Iterator
from pathlib import Path

import pyarrow as pa
import pytest

from ottla.protocol.records.batch import HEADER_BYTES, pack_header, read_header
from ottla.protocol.records.record import SimpleRecord, build_batch
from ottla.spark_jobs import views
from ottla.spark_jobs.audit import audit
from ottla.spark_jobs.corpus import CASES
from ottla.spark_jobs.engines.embedded import COALESCED_ROWS, EmbeddedEngine, arrow_schema, coalesced, embedded_engine
from ottla.spark_jobs.session import CannotJudge


@pytest.fixture
def engine() -> Iterator[EmbeddedEngine]:
    with embedded_engine() as running:
        yield running


def test_interrupt_while_reading_rows_raises_keyboard_interrupt(engine: EmbeddedEngine, monkeypatch: pytest.MonkeyPatch) -> None:
    def interrupted(*_: object) -> Iterator[pa.RecordBatch]:
        yield pa.record_batch([pa.array(["a"])], names=["s"])
        raise KeyboardInterrupt

    monkeypatch.setattr("ottla.spark_jobs.engines.embedded.read", interrupted)
    with pytest.raises(KeyboardInterrupt):
        engine.read("t", "records", [], (), "s string")


@pytest.fixture
def _interruptible() -> Iterator[None]:
    """Let SIGINT raise KeyboardInterrupt: a shell starts background jobs with SIGINT ignored, and the query would then run to its end."""
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    yield
    signal.signal(signal.SIGINT, before)


@pytest.mark.usefixtures("_interruptible")
def test_interrupt_during_a_query_raises_keyboard_interrupt(engine: EmbeddedEngine) -> None:
    engine.table("t", "n int", [[n] for n in range(4_000)])
    timer = threading.Timer(0.3, signal.pthread_kill, (threading.get_ident(), signal.SIGINT))
    timer.start()
    try:
        with pytest.raises(KeyboardInterrupt):
            engine.rows("SELECT count(*) AS n FROM t a, t b, t c WHERE (a.n + b.n * c.n) % 7 = 3", {})
    finally:
        timer.cancel()
        timer.join()


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
def test_json_field_of_invalid_json_is_null(engine: EmbeddedEngine, value: bytes | None, text: str | None) -> None:
    engine.table("t", "v binary", [[value]])
    query = "SELECT get_json_object(CAST(v AS STRING), :path) AS field FROM t"
    assert engine.rows(query, {"path": engine.json_path("a.b"), "unused": 1}) == [{"field": text}]


def test_view_can_be_defined_by_a_query_with_parameters(engine: EmbeddedEngine) -> None:
    engine.table("t", "n int", [[1], [5]])
    engine.define("large", "SELECT n FROM t WHERE n > :least", {"least": 3})
    assert engine.rows("SELECT struct(n AS m).m AS m FROM large", {}) == [{"m": 5}]


def test_unknown_column_type_is_rejected() -> None:
    assert arrow_schema("topic string, partition int").names == ["topic", "partition"]
    with pytest.raises(KeyError):
        arrow_schema("price decimal")


def test_small_directory_is_judged_in_less_than_a_second(tmp_path: Path) -> None:
    CASES["planted"].write(tmp_path / "log")
    audit([tmp_path / "log"], engine="duckdb")  # translates the rules, once in a process
    began = time.process_time()
    audit([tmp_path / "log"], engine="duckdb")
    assert time.process_time() - began < 0.8


def many_batches(root: Path, count: int) -> None:
    """Write a partition of `count` batches, each of another producer."""
    template = build_batch([SimpleRecord(None, b"x", 1)], producer_id=0, producer_epoch=0, base_sequence=0, leader_epoch=0)
    head, tail = read_header(template), template[HEADER_BYTES:]
    directory = root / "rows-0"
    directory.mkdir(parents=True)
    with (directory / f"{0:020d}.log").open("wb") as log:
        for i in range(count):
            log.write(pack_header(head._replace(base_offset=i, producer_id=i), tail) + tail)


def test_log_with_views_larger_than_the_memory_limit_is_judged(tmp_path: Path) -> None:
    many_batches(tmp_path, 150_000)
    with embedded_engine(1 << 30, memory_mb=60) as engine:
        engine.read("raw_batches", "batches", [str(tmp_path)], [], views.RAW_BATCHES_NEED)
        engine.define("batches", views.batches(), {})
        engine.define("producer_batches", views.producer_batches(), {"expiration_ms": 1})
        engine.define("sequences", views.sequences(), {})
        query = "SELECT count(*) AS n, count(max_sequence_before) AS repeated FROM sequences"
        assert engine.rows(query, {}) == [{"n": 150_000, "repeated": 0}]
        assert engine.rows("SELECT current_setting('memory_limit') AS limit", {}) == [{"limit": "57.2 MiB"}]


def test_log_that_exceeds_the_memory_limit_is_not_judged_and_the_option_is_named(tmp_path: Path) -> None:
    many_batches(tmp_path, 150_000)
    with pytest.raises(CannotJudge, match="--memory-mb"):
        audit([tmp_path], engine="duckdb", memory_mb=8)


def test_small_record_batches_are_combined() -> None:
    one = pa.record_batch({"n": [1]})
    sizes = [batch.num_rows for batch in coalesced(iter([one] * (COALESCED_ROWS + 3)))]
    assert sizes == [COALESCED_ROWS, 3]
