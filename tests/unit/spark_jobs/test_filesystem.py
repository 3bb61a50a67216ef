"""Logs on file systems: local, in memory by fsspec, and on a real S3 server."""

from __future__ import annotations

import os
from pathlib import Path

import fsspec
import pytest

from ottla.spark_jobs.filesystem import place
from ottla.spark_jobs.logs import find_logs
from ottla.spark_jobs.paths import absolute
from ottla.spark_jobs.tables import Filters, arrow_schema, plan, read, read_task
from tests.support.kafka_logs import PartitionWriter, checkpoint
from tests.support.object_store import ACCESS_KEY, SECRET_KEY, find_server, s3_server


def written(root: Path) -> None:
    """Write two partitions, one of which has two segments, and a log start offset checkpoint."""
    log = PartitionWriter(root, "t", 0)
    log.data(3)
    log.data(40)
    log.roll()
    log.data(2)
    PartitionWriter(root, "u", 1).marker(5)
    checkpoint(root, "log-start-offset-checkpoint", [("t", 0, 3)])


def rows(where: str, level: str) -> list[dict[str, object]]:
    """Return the rows of a level without the columns `log_dir` and `file`."""
    found = [row for batch in read(level, [where]) for row in batch.to_pylist()]
    return [{name: value for name, value in row.items() if name not in {"log_dir", "file"}} for row in found]


def test_log_behind_fsspec_has_the_rows_of_the_local_one(tmp_path: Path) -> None:
    written(tmp_path)
    memory = fsspec.filesystem("memory")
    memory.put(str(tmp_path), "/copied", recursive=True)
    try:
        for level in ("batches", "records"):
            assert rows("memory://copied", level) == rows(str(tmp_path), level)
        assert find_logs("memory://copied/t-0").segments[0].log_start_offset == 3
    finally:
        memory.rm("/copied", recursive=True)


def test_file_url_is_read_as_the_local_path(tmp_path: Path) -> None:
    written(tmp_path)
    assert place(f"file://{tmp_path}").is_local
    assert rows(f"file://{tmp_path}", "batches") == rows(str(tmp_path), "batches")


def test_url_of_an_unknown_file_system_is_a_problem() -> None:
    (problem,) = find_logs("gopher://host/logs").problems
    assert "gopher" in problem


@pytest.mark.skipif(find_server() is None, reason="versitygw is not built: make object-store")
def test_log_on_an_s3_server_has_the_rows_of_the_local_one(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    written(tmp_path / "bucket" / "logs")
    monkeypatch.setenv("AWS_ACCESS_KEY_ID", ACCESS_KEY)
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", SECRET_KEY)
    monkeypatch.setenv("AWS_EC2_METADATA_DISABLED", "true")
    program = find_server()
    assert program is not None
    with s3_server(program, tmp_path) as endpoint:
        url = f"s3://bucket/logs?endpoint_override={endpoint}&scheme=http&region=us-east-1"
        for level in ("batches", "records", "markers"):
            assert rows(url, level) == rows(str(tmp_path / "bucket" / "logs"), level)
        assert {segment.path for segment in find_logs(url).segments} >= {"s3://bucket/logs/t-0/00000000000000000000.log"}
        filters = Filters(start_offset=43)
        tasks = plan("records", [url], filters)
        columns = arrow_schema("records", ["offset"])
        assert [r["offset"] for t in tasks for b in read_task("records", t, columns, filters) for r in b.to_pylist()] == [43, 44]


def test_relative_path_becomes_absolute_and_a_url_is_unchanged(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    assert absolute("data") == absolute(Path("data")) == str(tmp_path / "data")
    assert absolute("s3://bucket/kafka?region=eu") == "s3://bucket/kafka?region=eu"


def test_fifo_device_or_directory_is_rejected_without_blocking(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "fifo")
    (tmp_path / "link").symlink_to("/dev/zero")
    here = place(str(tmp_path))
    for name in ("fifo", "link", "."):
        with pytest.raises(OSError, match="not a regular file"):
            here.open(f"{tmp_path}/{name}")


def test_file_above_the_size_limit_is_rejected(tmp_path: Path) -> None:
    (tmp_path / "file").write_bytes(b"12345")
    here = place(str(tmp_path))
    assert here.read(f"{tmp_path}/file", 5) == b"12345"
    with pytest.raises(OSError, match="larger than"):
        here.read(f"{tmp_path}/file", 4)
