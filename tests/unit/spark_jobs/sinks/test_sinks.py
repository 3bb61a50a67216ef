"""One suite for all table formats: another engine reads the rows back, and runs are killed at each step."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from deltalake import DeltaTable

from ottla.spark_jobs import durable
from ottla.spark_jobs.session import CannotJudge
from ottla.spark_jobs.sinks import Sink, TableFormat, open_sink, require
from ottla.spark_jobs.sinks.delta_tables import storage_options
from ottla.spark_jobs.sinks.files import DataFile, dates
from ottla.spark_jobs.sinks.schemas import FINDINGS, TableSpec
from tests.support.object_store import ACCESS_KEY, SECRET_KEY, find_server, s3_server
from tests.support.tables import read_back

DATED = TableSpec("t", (("topic", "string"), ("number", "bigint"), ("at", "bigint")), dated="at")
DAY = 86_400_000
FORMATS = pytest.mark.parametrize("kind", TableFormat)


def stage(sink: Sink, *rows: tuple[str, int, int | None]) -> list[DataFile]:
    return sink.staging.stage(pa.table([pa.array(column) for column in zip(*rows, strict=True)], names=["topic", "number", "at"]))


def numbers(kind: TableFormat, directory: Path) -> list[tuple[str, int]]:
    return sorted((row["topic"], row["number"]) for row in read_back(kind, directory, "t"))


@FORMATS
def test_rows_are_partitioned_by_topic_and_date(kind: TableFormat, tmp_path: Path) -> None:
    with open_sink(kind, tmp_path / "a b", DATED) as sink:
        files = stage(sink, ("a.b_c-d", 1, 0), ("a.b_c-d", 2, DAY), ("z", 3, -1), ("z", 4, 1 << 62))
        assert [each.partition["topic"] for each in files].count("z") == 1
        assert {each.partition["date"] for each in files} == {"1970-01-01", "1970-01-02", None}
        sink.commit(files, {})
    rows = read_back(kind, tmp_path / "a b", "t")
    assert sorted((row["topic"], row["number"], str(row["date"]), row["at"]) for row in rows) == [
        ("a.b_c-d", 1, "1970-01-01", 0),
        ("a.b_c-d", 2, "1970-01-02", DAY),
        ("z", 3, "None", -1),
        ("z", 4, "None", 1 << 62),
    ]


def test_dates_are_null_where_an_engine_cannot_hold_them() -> None:
    end = 253_402_300_800_000  # 10000-01-01
    found = dates(pa.array([None, -1, 0, DAY - 1, end - 1, end, 1 << 62]))
    assert [str(each) for each in found.to_pylist()] == ["None", "None", "1970-01-01", "1970-01-01", "9999-12-31", "None", "None"]


@FORMATS
def test_staged_files_are_not_in_the_table_until_the_commit(kind: TableFormat, tmp_path: Path) -> None:
    with open_sink(kind, tmp_path, DATED) as sink:
        stage(sink, ("t", 1, 0))
    assert numbers(kind, tmp_path) == []
    with open_sink(kind, tmp_path, DATED) as sink:
        assert sink.progress("t-0") is None
        sink.commit(stage(sink, ("t", 2, 0)), {"t-0": 3})
    assert numbers(kind, tmp_path) == [("t", 2)]
    with open_sink(kind, tmp_path, DATED) as sink:
        assert (sink.progress("t-0"), sink.progress("t-1")) == (3, None)


@FORMATS
def test_a_commit_replaces_the_files_of_the_named_topics_only(kind: TableFormat, tmp_path: Path) -> None:
    for number in (1, 2):
        with open_sink(kind, tmp_path, DATED) as sink:
            sink.commit(stage(sink, ("a", number, 0), ("b", number, None)), {"p": number})
    with open_sink(kind, tmp_path, DATED) as sink:
        sink.commit(stage(sink, ("a", 9, DAY)), {}, {"a", "absent"})
        assert sink.progress("p") == 2
    assert numbers(kind, tmp_path) == [("a", 9), ("b", 1), ("b", 2)]
    with open_sink(kind, tmp_path, DATED) as sink:
        sink.commit([], {}, {"b"})
    assert numbers(kind, tmp_path) == [("a", 9)]
    with open_sink(kind, tmp_path, DATED) as sink:
        sink.commit(stage(sink, ("c", 1, 0)), {}, None)
    assert numbers(kind, tmp_path) == [("c", 1)]


@FORMATS
def test_only_one_of_two_concurrent_runs_commits(kind: TableFormat, tmp_path: Path) -> None:
    with open_sink(kind, tmp_path, DATED) as first:
        with pytest.raises(CannotJudge, match="another run"), open_sink(kind, tmp_path, DATED) as second:  # noqa: PT012 # the formats reject at different steps
            first.commit(stage(first, ("t", 1, 0)), {"t-0": 1})
            second.commit(stage(second, ("t", 1, 0)), {"t-0": 1})
        if kind is TableFormat.PARQUET:  # the lock rejected the second run
            first.commit(stage(first, ("t", 1, 0)), {"t-0": 1})
    assert numbers(kind, tmp_path) == [("t", 1)]


@FORMATS
def test_a_table_with_other_columns_is_refused(kind: TableFormat, tmp_path: Path) -> None:
    other = TableSpec("t", FINDINGS.columns)
    with open_sink(kind, tmp_path, other) as sink:
        sink.commit([], {"made": 1})
    if kind is TableFormat.PARQUET:  # directories of Parquet files have no schema of their own
        return
    with pytest.raises(CannotJudge, match="is a table with other columns"), open_sink(kind, tmp_path, DATED):
        pass


@FORMATS
def test_missing_library_error_names_the_extra_to_install(kind: TableFormat, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    package, extra = {
        "parquet": ("pyarrow.dataset", "audit"),
        "delta": ("deltalake", "delta"),
        "iceberg": ("pyiceberg.catalog.sql", "iceberg"),
    }[kind]
    for name in list(sys.modules):
        if name.startswith("ottla.spark_jobs.sinks."):
            monkeypatch.delitem(sys.modules, name)
    monkeypatch.setitem(sys.modules, package, None)
    with pytest.raises(CannotJudge, match=rf"of format {kind} need .*pip install 'ottla\[{extra}\]'"):
        require(kind, tmp_path)


class Killed(BaseException):
    """Raised where the process is killed: a BaseException, so that the code under test does not catch it."""


def killed_at(step: int) -> Callable[[str, Any], None]:
    """Return an audit hook that raises Killed at the n-th rename, removal or mkdir."""
    seen = iter(range(step + 1))

    def hook(event: str, _args: Any) -> None:
        if event in {"os.rename", "os.remove", "os.mkdir"} and next(seen, None) is None:
            raise Killed

    return hook


HOOKS: list[Callable[[str, Any], None]] = []
sys.addaudithook(lambda event, args: [hook(event, args) for hook in HOOKS] and None)


@pytest.fixture
def hooks() -> Iterator[list[Callable[[str, Any], None]]]:
    yield HOOKS
    HOOKS.clear()


def test_parquet_table_has_each_row_once_whichever_step_a_run_is_killed_at(tmp_path: Path, hooks: list[Any]) -> None:
    outcomes = set()
    for step in range(12):
        directory = tmp_path / str(step)
        with open_sink(TableFormat.PARQUET, directory, DATED) as sink:
            sink.commit(stage(sink, ("a", 1, 0), ("b", 1, 0), ("b", 1, DAY)), {"p": 1})
        hooks.append(killed_at(step))
        with suppress(Killed), open_sink(TableFormat.PARQUET, directory, DATED) as sink:
            sink.commit(stage(sink, ("a", 2, 0), ("b", 2, 0), ("b", 3, DAY)), {"p": 2}, {"b"})
        hooks.clear()
        seen = numbers(TableFormat.PARQUET, directory)
        assert len(seen) == len(set(seen)) or seen.count(("b", 1)) == 2
        with open_sink(TableFormat.PARQUET, directory, DATED) as sink:
            reached = sink.progress("p")
        after = numbers(TableFormat.PARQUET, directory)
        assert after == {1: [("a", 1), ("b", 1), ("b", 1)], 2: [("a", 1), ("a", 2), ("b", 2), ("b", 3)]}[reached or 0]
        assert not {("b", 1)} & set(seen) or not {("b", 2), ("b", 3)} & set(seen)
        outcomes.add((reached, seen == after))
    assert outcomes == {(1, True), (2, False), (2, True)}


def test_failed_atomic_write_keeps_the_old_content(tmp_path: Path) -> None:
    file = tmp_path / "f.json"
    durable.write_atomically(file, lambda out: out.write(b"old"))

    def fail(out: Any) -> None:
        out.write(b"n")
        raise OSError("disk full")

    with pytest.raises(OSError, match="disk full"):
        durable.write_atomically(file, fail)
    assert file.read_bytes() == b"old"


@pytest.mark.parametrize("kind", [TableFormat.PARQUET, TableFormat.ICEBERG])
def test_formats_that_need_locks_and_renames_are_rejected_at_a_url(kind: TableFormat) -> None:
    with pytest.raises(CannotJudge, match="Add --format delta"):
        require(kind, "s3://bucket/tables")


def test_url_of_an_unknown_file_system_is_rejected_before_the_work() -> None:
    with pytest.raises(CannotJudge, match="gopher"):
        require(TableFormat.DELTA, "gopher://host/tables")


@pytest.mark.skipif(find_server() is None, reason="versitygw is not built: make object-store")
def test_a_delta_table_on_an_s3_server_takes_each_commit_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "bucket").mkdir()
    monkeypatch.setenv("AWS_ACCESS_KEY_ID", ACCESS_KEY)
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", SECRET_KEY)
    monkeypatch.setenv("AWS_EC2_METADATA_DISABLED", "true")
    program = find_server()
    assert program is not None
    with s3_server(program, tmp_path) as endpoint:
        url = f"s3://bucket/tables?endpoint_override={endpoint}&scheme=http&region=us-east-1"
        for number in (1, 2):
            with open_sink(TableFormat.DELTA, url, DATED) as sink:
                assert sink.progress("p") == (None if number == 1 else 1)
                sink.commit(stage(sink, ("a.b_c", number, 0), ("b", number, DAY)), {"p": number})
        with open_sink(TableFormat.DELTA, url, DATED) as first, open_sink(TableFormat.DELTA, url, DATED) as second:
            first.commit(stage(first, ("a.b_c", 9, 0)), {"p": 3}, {"a.b_c"})
            with pytest.raises(CannotJudge, match="another run has changed s3://bucket/tables/t"):
                second.commit(stage(second, ("a.b_c", 9, 0)), {"p": 3}, {"a.b_c"})
        table = DeltaTable("s3://bucket/tables/t", storage_options=storage_options(url))
        rows = pa.table(table.to_pyarrow_table(columns=["topic", "number"])).to_pylist()
        assert sorted((row["topic"], row["number"]) for row in rows) == [("a.b_c", 9), ("b", 1), ("b", 2)]
