"""The levels `snapshots` and `indexes`: each entry as stored in its file, and bytes that are no entry."""

from __future__ import annotations

import struct
from pathlib import Path
from typing import Any

import pytest

from ottla.protocol.producer_snapshot import ENTRY
from ottla.protocol.records.crc32c import crc32c
from ottla.spark_jobs.tables import Filters, read
from tests.support.kafka_logs import PartitionWriter

NAMES = ("producer_id", "producer_epoch", "last_sequence", "last_offset", "offset_delta", "timestamp", "coordinator_epoch")


def rows(root: Path, level: str, columns: list[str]) -> list[dict[str, Any]]:
    return [row for batch in read(level, [root], columns) for row in batch.to_pylist()]


def side_file(root: Path, name: str, content: bytes) -> Path:
    """Write a file `name` beside the segment of t-0 that begins at offset 100; return its path."""
    log = PartitionWriter(root, "t", 0)
    log.next_offset = 100
    log.file.unlink()
    log.roll()
    log.data(3)
    path = log.directory / name
    path.write_bytes(content)
    return path


def snapshot(*entries: tuple[int, ...]) -> bytes:
    body = struct.pack(">i", len(entries)) + b"".join(ENTRY.pack(*entry) for entry in entries)
    return struct.pack(">hI", 1, crc32c(body)) + body


def test_producer_snapshot_has_a_row_for_each_producer(tmp_path: Path) -> None:
    entry = (2**40, 3, 2**31 - 1, 99, 4, 1_700_000_000_000, 7, 95)
    side_file(tmp_path, "00000000000000000100.snapshot", snapshot(entry, (5, 0, -1, -1, 0, 9, -1, -1)))
    first, second = rows(tmp_path, "snapshots", ["snapshot_offset", *NAMES, "current_txn_first_offset", "error"])
    assert tuple(first.values()) == (100, *entry, None)
    assert (second["producer_id"], second["current_txn_first_offset"]) == (5, -1)


@pytest.mark.parametrize("damage", [lambda d: d[:-1], lambda d: d[:8] + b"\xff" + d[9:], lambda d: b"\0\2" + d[2:], lambda _: b""])
def test_damaged_producer_snapshot_is_one_row_with_the_error(tmp_path: Path, damage: Any) -> None:
    side_file(tmp_path, "00000000000000000100.snapshot", damage(snapshot((1, 0, 0, 0, 0, 0, 0, -1))))
    (row,) = rows(tmp_path, "snapshots", ["topic", "snapshot_offset", "producer_id", "error"])
    assert (row["topic"], row["snapshot_offset"], row["producer_id"]) == ("t", 100, None)
    assert row["error"]


def test_empty_producer_snapshot_is_one_row_with_its_offset(tmp_path: Path) -> None:
    side_file(tmp_path, "00000000000000000100.snapshot", snapshot())
    (row,) = rows(tmp_path, "snapshots", ["snapshot_offset", "producer_id", "error"])
    assert tuple(row.values()) == (100, None, None)


def test_an_offset_index_gives_absolute_offsets_and_stops_at_preallocated_zeros(tmp_path: Path) -> None:
    side_file(tmp_path, "00000000000000000100.index", struct.pack(">iiii", 2, 0, 5, 4096) + bytes(80))
    found = rows(tmp_path, "indexes", ["kind", "segment", "entry", "position", "offset", "log_position", "timestamp", "error"])
    assert [tuple(row.values()) for row in found] == [("index", 100, 0, 0, 102, 0, None, None), ("index", 100, 1, 8, 105, 4096, None, None)]


def test_time_and_transaction_indexes_give_their_fields(tmp_path: Path) -> None:
    path = side_file(tmp_path, "00000000000000000100.timeindex", struct.pack(">qi", 2**41, 2))
    path.with_suffix(".txnindex").write_bytes(struct.pack(">hqqqq", 0, 2**40, 100, 109, 101))
    columns = ["kind", "offset", "timestamp", "producer_id", "first_offset", "last_stable_offset"]
    found = [tuple(row.values()) for row in rows(tmp_path, "indexes", columns)]
    assert found == [("timeindex", 102, 2**41, None, None, None), ("txnindex", 109, None, 2**40, 100, 101)]


def test_invalid_index_bytes_are_a_row_with_position_and_error(tmp_path: Path) -> None:
    side_file(tmp_path, "00000000000000000100.index", struct.pack(">ii", 2, 7) + b"\x01\x02\x03")
    good, bad = rows(tmp_path, "indexes", ["position", "offset", "error"])
    assert tuple(good.values()) == (0, 102, None)
    assert (bad["position"], bad["offset"], bad["error"]) == (8, None, "the file ends inside an entry")


def test_leader_epochs_are_index_rows_and_a_damaged_file_is_an_error_row(tmp_path: Path) -> None:
    path = side_file(tmp_path, "leader-epoch-checkpoint", b"0\n2\n0 0\n4 101\n")
    found = rows(tmp_path, "indexes", ["kind", "entry", "leader_epoch", "offset", "error"])
    assert [tuple(row.values())[1:] for row in found] == [(0, 0, 0, None), (1, 4, 101, None)]
    path.write_bytes(b"0\n7\n0 0\n")
    (row,) = rows(tmp_path, "indexes", ["error"])
    assert row["error"].startswith("damaged")


def test_side_files_of_unrequested_partitions_are_omitted(tmp_path: Path) -> None:
    side_file(tmp_path, "00000000000000000100.index", struct.pack(">ii", 2, 7))
    assert not list(read("indexes", [tmp_path], None, Filters(partitions=frozenset({1}))))
    assert len(list(read("indexes", [tmp_path], None, Filters(topics=frozenset({"t"}))))) == 1
