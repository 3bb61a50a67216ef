from __future__ import annotations

from pathlib import Path

from ottla.spark_jobs.log_directory import LogDirectory, no_logs
from ottla.spark_jobs.log_files import find_file_logs
from tests.support.kafka_logs import PartitionWriter


def test_directory_size_is_the_size_of_its_segments(tmp_path: Path) -> None:
    for partition in (0, 1):
        PartitionWriter(tmp_path, "t", partition).data(5)
    assert find_file_logs(tmp_path).size_bytes == sum(log.stat().st_size for log in tmp_path.rglob("*.log")) > 0
    assert LogDirectory("nowhere").size_bytes == 0


def test_missing_topics_are_named_and_without_requested_topics_the_expected_layout_is_described() -> None:
    assert no_logs("data", ["u", "t"]) == "data: no partition of t, u here"
    assert no_logs("data", []).startswith("data: no partition logs here (expected directories such as flights-0")


def test_parent_of_data_directories_is_reported_with_their_names(tmp_path: Path) -> None:
    for name in ("broker2", "broker1"):
        (tmp_path / name).mkdir()
        (tmp_path / name / "meta.properties").touch()
    assert no_logs(str(tmp_path), []).endswith("; data directories are in it: broker1, broker2")
