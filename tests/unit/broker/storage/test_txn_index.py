"""The aborted transactions of a segment: lookups for a fetch, and their file."""

from __future__ import annotations

import time
import tracemalloc
from pathlib import Path

import pytest

from ottla.broker.storage.files import FILES
from ottla.broker.storage.txn_index import AbortedTxn, TxnIndex

TXNS = [AbortedTxn(1, 100, 110, 105), AbortedTxn(2, 105, 120, 121), AbortedTxn(3, 130, 140, 141)]


def filled(path: Path) -> TxnIndex:
    index = TxnIndex(FILES, path, 100, fresh=True)
    for txn in TXNS:
        index.append(txn)
    return index


def test_a_fetch_gets_the_aborted_transactions_of_its_range(tmp_path: Path) -> None:
    index = filled(tmp_path / "t")
    assert index.collect(100, 106) == (TXNS[:2], True)
    assert index.collect(100, 105) == (TXNS[:1], True)
    assert index.collect(111, 131) == ([TXNS[1], TXNS[2]], True)
    assert index.collect(121, 125) == ([], True)
    assert index.collect(100, 200) == (TXNS, False)


def test_the_time_of_a_lookup_does_not_grow_with_the_number_of_older_transactions(tmp_path: Path) -> None:
    index, count = TxnIndex(FILES, tmp_path / "t", 0, fresh=True), 100_000
    for at in range(0, 2 * count, 2):
        index.append(AbortedTxn(1, at, at + 1, at + 2))
    began = time.thread_time()
    for _ in range(1_000):
        assert index.collect(2 * count - 4, 2 * count) == (
            [AbortedTxn(1, at, at + 1, at + 2) for at in (2 * count - 4, 2 * count - 2)],
            True,
        )
    assert time.thread_time() - began < 1  # looking at all older ones takes 5 s


def test_an_entry_takes_little_more_memory_than_in_the_file(tmp_path: Path) -> None:
    index, count = TxnIndex(FILES, tmp_path / "t", 0, fresh=True), 10_000
    tracemalloc.start()
    try:
        for at in range(1_000, 1_000 + 2 * count, 2):
            index.append(AbortedTxn(1_000_000, at, at + 1, at + 2))
        held = tracemalloc.get_traced_memory()[0]
    finally:
        tracemalloc.stop()
    index.save()
    assert held < 2 * (tmp_path / "t").stat().st_size


def test_an_index_grows_after_a_fetch(tmp_path: Path) -> None:
    index = filled(tmp_path / "t")
    assert index.collect(100, 106) == (TXNS[:2], True)
    index.append(AbortedTxn(4, 150, 160, 161))
    assert index.collect(141, 200) == ([AbortedTxn(4, 150, 160, 161)], False)
    assert len(index) == 4


def test_no_file_exists_without_an_aborted_transaction(tmp_path: Path) -> None:
    index = TxnIndex(FILES, tmp_path / "t", 0, fresh=True)
    assert not index.save()
    assert not (tmp_path / "t").exists()
    assert TxnIndex(FILES, tmp_path / "t", 0, fresh=False).entries() == []


@pytest.mark.parametrize(("offset", "kept"), [(110, 0), (111, 1), (140, 2), (141, 3)])
def test_truncating_keeps_transactions_with_a_kept_marker(tmp_path: Path, offset: int, kept: int) -> None:
    index = filled(tmp_path / "t")
    index.save()
    index.truncate_to(offset)
    index.save()
    assert TxnIndex(FILES, tmp_path / "t", 100, fresh=False).entries() == TXNS[:kept]
    assert (tmp_path / "t").exists() == bool(kept)


def test_saving_in_steps_writes_only_new_entries(tmp_path: Path) -> None:
    index = TxnIndex(FILES, tmp_path / "t", 100, fresh=True)
    for txn in TXNS:
        index.append(txn)
        assert index.save()
    index.release()
    assert index.entries() == TXNS


@pytest.mark.parametrize("damage", [lambda b: b[:-1], lambda b: b"\x00\x01" + b[2:], lambda b: bytes(34)])
def test_a_damaged_file_is_detected(tmp_path: Path, damage: object) -> None:
    filled(tmp_path / "t").save()
    (tmp_path / "t").write_bytes(damage((tmp_path / "t").read_bytes()))  # type: ignore[operator]  # a table of lambdas
    with pytest.raises(ValueError, match=r"multiple|version"):
        TxnIndex(FILES, tmp_path / "t", 100, fresh=False).entries()
