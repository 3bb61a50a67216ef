"""Finding partition logs: what is read, what is passed over, and what keeps a verdict from being complete."""

from __future__ import annotations

from pathlib import Path

from spark_jobs.log_files import find_logs
from tests.support.kafka_logs import PartitionWriter, checkpoint


def test_a_topic_name_may_hold_dashes_and_the_partition_is_behind_the_last(tmp_path: Path) -> None:
    PartitionWriter(tmp_path, "a-1-b", 12)
    (segment,) = find_logs(tmp_path).segments
    assert (segment.topic, segment.partition, segment.base_offset) == ("a-1-b", 12, 0)


def test_only_the_newest_segment_is_the_last(tmp_path: Path) -> None:
    log = PartitionWriter(tmp_path, "t", 0)
    log.data(5)
    log.roll()
    assert [(s.base_offset, s.is_last) for s in find_logs(tmp_path).segments] == [(0, False), (5, True)]


def test_a_partition_directory_is_read_with_its_parents_checkpoints(tmp_path: Path) -> None:
    PartitionWriter(tmp_path, "t", 0)
    PartitionWriter(tmp_path, "t", 1)
    checkpoint(tmp_path, "log-start-offset-checkpoint", [("t", 1, 40)])
    (segment,) = find_logs(tmp_path / "t-1").segments
    assert (segment.partition, segment.log_start_offset) == (1, 40)


def test_topics_that_were_not_asked_for_are_left_out(tmp_path: Path) -> None:
    PartitionWriter(tmp_path, "t", 0)
    PartitionWriter(tmp_path, "u", 0)
    assert [s.topic for s in find_logs(tmp_path, ["u"]).segments] == ["u"]


def test_a_damaged_checkpoint_is_noted_and_not_used(tmp_path: Path) -> None:
    PartitionWriter(tmp_path, "t", 0)
    (tmp_path / "cleaner-offset-checkpoint").write_text("0\n5\nt 0 9\n")
    found = find_logs(tmp_path)
    assert found.notes == ["cleaner-offset-checkpoint: damaged, not used"]
    assert found.segments[0].cleaned_to == 0


def test_deleted_moving_and_foreign_directories_are_named(tmp_path: Path) -> None:
    for name in ("t-0.0123456789abcdef0123456789abcdef-delete", "t-1.0123456789abcdef0123456789abcdef-future", "lost+found"):
        (tmp_path / name).mkdir()
    found = find_logs(tmp_path)
    assert len(found.notes) == 3
    assert found.problems


def test_a_missing_directory_is_a_problem(tmp_path: Path) -> None:
    assert find_logs(tmp_path / "none").problems == [f"{tmp_path / 'none'}: no such directory"]
