"""Finding partition logs: the files that are read, those that are ignored, and those that make a verdict incomplete."""

from __future__ import annotations

from pathlib import Path

import pytest

from ottla.spark_jobs.log_files import SWAPPING, find_file_logs
from tests.support.kafka_logs import PartitionWriter, checkpoint


def test_partition_number_follows_the_last_dash_of_a_directory_name(tmp_path: Path) -> None:
    PartitionWriter(tmp_path, "a-1-b", 12)
    (segment,) = find_file_logs(tmp_path).segments
    assert (segment.topic, segment.partition, segment.base_offset) == ("a-1-b", 12, 0)


def test_only_the_newest_segment_is_the_last(tmp_path: Path) -> None:
    log = PartitionWriter(tmp_path, "t", 0)
    log.data(5)
    log.roll()
    assert [(s.base_offset, s.is_last) for s in find_file_logs(tmp_path).segments] == [(0, False), (5, True)]


def test_single_partition_directory_uses_its_parents_checkpoints(tmp_path: Path) -> None:
    PartitionWriter(tmp_path, "t", 0)
    PartitionWriter(tmp_path, "t", 1)
    checkpoint(tmp_path, "log-start-offset-checkpoint", [("t", 1, 40)])
    (segment,) = find_file_logs(tmp_path / "t-1").segments
    assert (segment.partition, segment.log_start_offset) == (1, 40)


def test_unrequested_topics_are_omitted(tmp_path: Path) -> None:
    PartitionWriter(tmp_path, "t", 0)
    PartitionWriter(tmp_path, "u", 0)
    assert [s.topic for s in find_file_logs(tmp_path, ["u"]).segments] == ["u"]


def test_a_damaged_checkpoint_is_noted_and_not_used(tmp_path: Path) -> None:
    PartitionWriter(tmp_path, "t", 0)
    (tmp_path / "cleaner-offset-checkpoint").write_text("0\n5\nt 0 9\n")
    found = find_file_logs(tmp_path)
    assert found.notes == ["cleaner-offset-checkpoint: damaged, not used"]
    assert found.segments[0].cleaned_to == 0


def test_deleted_future_and_foreign_directories_are_named_in_notes(tmp_path: Path) -> None:
    for name in ("t-0.0123456789abcdef0123456789abcdef-delete", "t-1.0123456789abcdef0123456789abcdef-future", "lost+found"):
        (tmp_path / name).mkdir()
    found = find_file_logs(tmp_path)
    assert len(found.notes) == 3
    assert found.problems


def test_partition_without_segments_but_with_committed_records_is_a_problem(tmp_path: Path) -> None:
    for partition in range(3):
        PartitionWriter(tmp_path, "t", partition).file.unlink()
    checkpoint(tmp_path, "replication-offset-checkpoint", [("t", 0, 5), ("t", 1, 0), ("t", 2, 9)])
    checkpoint(tmp_path, "log-start-offset-checkpoint", [("t", 2, 9)])
    found = find_file_logs(tmp_path)
    assert found.problems == ["t-0: holds no segment, but consumers could read its records up to offset 4"]
    assert found.notes == ["t-1: holds no segment", "t-2: holds no segment"]


def test_partitions_in_a_checkpoint_without_a_directory_are_named(tmp_path: Path) -> None:
    PartitionWriter(tmp_path, "t", 0)
    (tmp_path / "t-3.0123456789abcdef0123456789abcdef-delete").mkdir()
    checkpoint(tmp_path, "replication-offset-checkpoint", [("t", 0, 0), ("t", 1, 5), ("u", 0, 1), ("t", 2, 0), ("t", 3, 7)])
    text = "not judged, because they have no directory here, but records by replication-offset-checkpoint"
    assert find_file_logs(tmp_path).notes[-1] == f"{text}: t-1, u-0"
    assert find_file_logs(tmp_path, ["u"]).notes[-1] == f"{text}: u-0"
    assert find_file_logs(tmp_path / "t-0").notes == []


def test_a_missing_directory_is_a_problem(tmp_path: Path) -> None:
    assert find_file_logs(tmp_path / "none").problems == [f"{tmp_path / 'none'}: no such directory"]
    (tmp_path / "file").touch()
    assert find_file_logs(tmp_path / "file").problems == [f"{tmp_path / 'file'}: is a file; give the log directory that contains it"]


def test_partition_with_an_unreadable_segment_is_a_problem_and_not_judged(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    log = PartitionWriter(tmp_path, "t", 0)
    PartitionWriter(tmp_path, "u", 0)
    monkeypatch.setattr("os.access", lambda path, mode: str(path) != str(log.file))
    found = find_file_logs(tmp_path)
    assert found.problems == [f"{log.file}: not readable; t-0 is not judged"]
    assert [segment.topic for segment in found.segments] == ["u"]


def test_unreadable_index_is_a_problem_and_its_log_is_judged(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    log = PartitionWriter(tmp_path, "t", 0)
    index = log.file.with_suffix(".index")
    index.touch()
    monkeypatch.setattr("os.access", lambda path, mode: str(path) != str(index))
    found = find_file_logs(tmp_path)
    assert found.problems == [f"{index}: not readable; it is not held against the log"]
    assert (len(found.segments), found.side_files) == (1, [])


def test_partition_with_an_unfinished_segment_swap_is_a_problem_and_not_judged(tmp_path: Path) -> None:
    log = PartitionWriter(tmp_path, "t", 0)
    log.data(5, pid=1, seq=0)
    log.roll()
    log.data(5, pid=1, seq=5)
    swap = log.file.with_suffix(".log.swap")
    log.file.rename(swap)
    log.roll()
    log.data(5, pid=1, seq=10)
    found = find_file_logs(tmp_path)
    assert found.problems == [f"{swap}: {SWAPPING}; t-0 is not judged"]
    assert found.segments == []


def test_dangling_symlink_to_a_partition_is_a_problem(tmp_path: Path) -> None:
    PartitionWriter(tmp_path, "t", 0)
    (tmp_path / "u-0").symlink_to(tmp_path / "not mounted")
    (problem,) = find_file_logs(tmp_path).problems
    assert problem.startswith(f"{tmp_path / 'u-0'}: Cannot list directory")
    assert find_file_logs(tmp_path, ["t"]).problems == []


@pytest.mark.parametrize("name", ["t-00", "t-99999999999", "t-2147483648", "t-٣"])
def test_impossible_partition_number_is_a_foreign_directory(tmp_path: Path, name: str) -> None:
    (tmp_path / name).mkdir()
    assert find_file_logs(tmp_path).notes == [f"{name}: passed over (not a partition's directory)"]
