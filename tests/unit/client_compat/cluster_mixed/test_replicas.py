"""Comparing brokers' data directories: the differences that `compare` must report, and those that it must ignore."""

from __future__ import annotations

from pathlib import Path

from client_compat.cluster_mixed.replicas import HIGH_WATERMARKS, LEADER_EPOCHS, ReplicasVerdict, compare
from ottla.protocol.records.record import SimpleRecord, build_batch


def batch(offset: int, value: bytes = b"v", epoch: int = 0) -> bytes:
    return bytes(build_batch([SimpleRecord(None, value, 1)], base_offset=offset, leader_epoch=epoch))


def write(directory: Path, segments: dict[int, bytes], *, high_watermark: int, epochs: str = "0 0") -> Path:
    partition = directory / "t-0"
    partition.mkdir(parents=True)
    for base_offset, data in segments.items():
        (partition / f"{base_offset:020}.log").write_bytes(data)
    (partition / LEADER_EPOCHS).write_text(f"0\n{len(epochs.splitlines())}\n{epochs}\n")
    (directory / HIGH_WATERMARKS).write_text(f"0\n1\nt 0 {high_watermark}\n")
    return directory


def both(root: Path, first: bytes, second: bytes, **second_facts: str) -> ReplicasVerdict:
    directories = [write(root / "a", {0: first}, high_watermark=2), write(root / "b", {0: second}, high_watermark=2, **second_facts)]  # type: ignore[arg-type] # the epochs
    return compare(directories)


def test_equal_replicas_are_good_and_counted(tmp_path: Path) -> None:
    verdict = both(tmp_path, batch(0) + batch(1), batch(0) + batch(1))
    assert verdict.good
    assert (verdict.partitions, verdict.batches) == (1, 2)


def test_replicas_with_different_segment_boundaries_are_equal(tmp_path: Path) -> None:
    whole = write(tmp_path / "a", {0: batch(0) + batch(1)}, high_watermark=2)
    rolled = write(tmp_path / "b", {0: batch(0), 1: batch(1)}, high_watermark=2)
    assert compare([whole, rolled]).good


def test_batches_above_the_lowest_high_watermark_are_not_compared(tmp_path: Path) -> None:
    ahead = write(tmp_path / "a", {0: batch(0) + batch(1, b"only here", epoch=1)}, high_watermark=2, epochs="0 0\n1 1")
    behind = write(tmp_path / "b", {0: batch(0)}, high_watermark=1)
    assert compare([ahead, behind]).good


def test_different_missing_or_other_epoch_batches_are_reported_by_offset(tmp_path: Path) -> None:
    other = both(tmp_path / "1", batch(0) + batch(1), batch(0) + batch(1, b"w"))
    assert (other.differ, other.samples) == (1, ["t-0: a and b differ: at offset 1"])
    missing = both(tmp_path / "2", batch(0) + batch(1), batch(0))
    assert (missing.differ, missing.samples) == (1, ["t-0: a and b differ: 2 and 1 batches below 2"])
    epoch = both(tmp_path / "3", batch(0) + batch(1), batch(0) + batch(1, epoch=1))
    assert epoch.differ == 1


def test_different_leader_epoch_start_is_reported(tmp_path: Path) -> None:
    verdict = both(tmp_path, batch(0) + batch(1), batch(0) + batch(1), epochs="0 0\n1 1")
    assert (verdict.differ, verdict.epochs_differ) == (0, 1)
    assert verdict.samples == ["t-0: leader epochs of a [(0, 0)], of b [(0, 0), (1, 1)]"]


def test_empty_comparison_is_not_good(tmp_path: Path) -> None:
    assert not compare([tmp_path]).good
