"""Producer snapshot files: when they are loaded, written and removed. The rules: test_idempotence_rules.py."""

from __future__ import annotations

from pathlib import Path

import pytest

from ottla.broker.storage.files import FILES
from ottla.broker.storage.producer_snapshots import CorruptSnapshot, ProducerSnapshots, decode_snapshot, encode_snapshot
from ottla.broker.storage.producer_state import BatchMetadata, ProducerStateEntry


def entry(producer_id: int, *sequences: int) -> ProducerStateEntry:
    made = ProducerStateEntry(producer_id, 3, 4, 5, 6)
    made.batches.extend(BatchMetadata(s, 100 + s, 0, 5) for s in sequences)
    return made


def test_each_producers_newest_batch_is_restored() -> None:
    assert decode_snapshot(encode_snapshot([entry(1, 7, 8), entry(2)])) == [entry(1, 8), entry(2)]


def test_any_flipped_bit_is_detected() -> None:
    data = encode_snapshot([entry(1, 7)])
    for at in range(len(data) * 8):
        damaged = bytearray(data)
        damaged[at // 8] ^= 1 << at % 8
        with pytest.raises(CorruptSnapshot):
            decode_snapshot(bytes(damaged))


def test_a_truncated_file_is_detected() -> None:
    data = encode_snapshot([entry(1, 7)])
    for size in range(len(data)):
        with pytest.raises(CorruptSnapshot):
            decode_snapshot(data[:size])


def test_a_snapshot_is_taken_only_past_the_newest(tmp_path: Path) -> None:
    snapshots = ProducerSnapshots(FILES, tmp_path)
    assert snapshots.take([entry(1, 7)], 10, sync=True)
    assert not snapshots.take([], 10, sync=True)
    assert not snapshots.take([], 9, sync=True)
    assert snapshots.take([], 11, sync=False)
    assert (snapshots.latest, snapshots.newest(10), snapshots.newest(9), snapshots.unsynced) == (11, 10, None, {11})
    assert snapshots.read(10) == [entry(1, 7)]


@pytest.mark.parametrize(("bases", "kept"), [([0, 10], {10, 40}), ([0, 30], {30, 40}), ([0, 50], set()), ([40], {40})])
def test_stray_snapshots_have_no_segment_except_the_newest(tmp_path: Path, bases: list[int], kept: set[int]) -> None:
    snapshots = ProducerSnapshots(FILES, tmp_path, [10, 20, 30, 40])
    snapshots.remove_strays(bases)
    assert snapshots.offsets == kept


def test_the_caller_removes_a_dropped_snapshots_file(tmp_path: Path) -> None:
    snapshots = ProducerSnapshots(FILES, tmp_path)
    snapshots.take([], 10, sync=True)
    assert snapshots.forget(9) is None
    assert snapshots.forget(10) == tmp_path / f"{10:020d}.snapshot"
    assert snapshots.offsets == set()
    assert (tmp_path / f"{10:020d}.snapshot").exists()
