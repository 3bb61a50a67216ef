"""Index entries in memory and in their file: append, truncate, save, and load after Kafka or a crash."""

from __future__ import annotations

from pathlib import Path

import pytest

from ottla.broker.storage.files import FILES
from ottla.broker.storage.offset_index import OffsetIndex

ENTRIES = [(12, 100), (20, 256), (40, 70_000)]


def filled(path: Path) -> OffsetIndex:
    index = OffsetIndex(FILES, path, 10, fresh=True)
    for offset, position in ENTRIES:
        index.append(offset, position)
    return index


def loaded(path: Path) -> list[tuple[int, int]]:
    index = OffsetIndex(FILES, path, 10, fresh=False)
    return [index.entry(i) for i in range(len(index))]


def test_saved_entries_are_loaded(tmp_path: Path) -> None:
    index = filled(tmp_path / "i")
    assert index.dirty
    assert index.save()
    assert not index.dirty
    assert not index.save()
    assert loaded(tmp_path / "i") == ENTRIES


def test_saving_again_appends_new_entries(tmp_path: Path) -> None:
    index = filled(tmp_path / "i")
    index.save()
    index.append(50, 80_000)
    index.save()
    assert loaded(tmp_path / "i") == [*ENTRIES, (50, 80_000)]


@pytest.mark.parametrize(("offset", "kept"), [(10, 0), (12, 0), (13, 1), (40, 2), (41, 3)])
def test_truncating_keeps_the_entries_below_also_in_the_file(tmp_path: Path, offset: int, kept: int) -> None:
    index = filled(tmp_path / "i")
    index.save()
    index.truncate_to(offset)
    index.save()
    assert loaded(tmp_path / "i") == ENTRIES[:kept]
    assert (tmp_path / "i").stat().st_size == 8 * kept


def test_preallocated_zeros_are_ignored_and_removed_by_the_next_save(tmp_path: Path) -> None:
    path = tmp_path / "i"
    filled(path).save()
    path.write_bytes(path.read_bytes() + bytes(8 * 100))
    index = OffsetIndex(FILES, path, 10, fresh=False)
    assert len(index) == 3
    index.save()
    assert path.stat().st_size == 24


def test_a_last_entry_that_ends_in_zero_bytes_is_not_taken_for_padding(tmp_path: Path) -> None:
    index = OffsetIndex(FILES, tmp_path / "i", 0, fresh=True)
    index.append(1, 0x100)
    index.append(2, 0x10000)
    index.save()
    (tmp_path / "i").write_bytes((tmp_path / "i").read_bytes() + bytes(16))
    assert loaded(tmp_path / "i") == [(11, 0x100), (12, 0x10000)]


def test_a_partial_last_entry_is_ignored(tmp_path: Path) -> None:
    filled(tmp_path / "i").save()
    (tmp_path / "i").write_bytes((tmp_path / "i").read_bytes()[:-3])
    assert loaded(tmp_path / "i") == ENTRIES[:2]


def test_released_memory_is_loaded_again_but_unsaved_entries_are_kept(tmp_path: Path) -> None:
    index = filled(tmp_path / "i")
    index.release()
    assert len(index) == 3
    index.save()
    index.release()
    (tmp_path / "i").unlink()
    assert len(index) == 0


def test_entries_out_of_order_are_detected(tmp_path: Path) -> None:
    index = filled(tmp_path / "i")
    assert index.is_sorted()
    index.append(39, 80_000)
    assert not index.is_sorted()
