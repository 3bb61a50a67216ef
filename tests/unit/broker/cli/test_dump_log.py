from __future__ import annotations

import json
import os
import struct
from pathlib import Path
from typing import Any

import pytest
import typer
from typer.testing import CliRunner

from ottla.broker.cli.dump_log import dump_log
from ottla.broker.groups.group_records import GroupRecord, OffsetCommitKey, OffsetCommitValue, encode_record
from ottla.protocol.records.compression import Codec
from ottla.protocol.records.control import end_txn_marker
from ottla.protocol.records.crc32c import crc32c
from ottla.protocol.records.record import SimpleRecord, build_batch

SEGMENT = "00000000000000000000.log"


@pytest.fixture
def partition(tmp_path: Path) -> Path:
    directory = tmp_path / "orders-0"
    directory.mkdir()
    return directory


def run(*arguments: str) -> Any:
    app = typer.Typer()
    app.command()(dump_log)
    return CliRunner().invoke(app, arguments)


def rows(*arguments: str) -> list[dict[str, Any]]:
    result = run(*arguments, "--json")
    assert result.exit_code == 0, result.output
    return [json.loads(line) for line in result.stdout.splitlines()]


def batch(base_offset: int, *values: bytes, codec: Codec = Codec.NONE) -> bytes:
    records = [SimpleRecord(b"key", value, 1_000, (("trace", b"7"),)) for value in values]
    return build_batch(records, base_offset=base_offset, leader_epoch=3, codec=codec, producer_id=9, producer_epoch=1, base_sequence=5)


def test_a_segment_is_shown_batch_by_batch(partition: Path) -> None:
    first = batch(0, b"a", b"b", codec=Codec.LZ4)
    (partition / SEGMENT).write_bytes(first + batch(2, b"c"))
    one, two = rows(str(partition / SEGMENT))
    assert (one["base offset"], one["last offset"], one["count"], one["codec"]) == (0, 1, 2, "lz4")
    assert (one["producer"], one["epoch"], one["base seq"], one["last seq"], one["leader epoch"]) == (9, 1, 5, 6, 3)
    assert (two["position"], two["base offset"], two["crc"]) == (len(first), 2, "ok")


def test_records_are_shown_with_key_value_and_headers(partition: Path) -> None:
    (partition / SEGMENT).write_bytes(batch(0, b"a", "é".encode(), b"\xff"))
    shown = rows(str(partition), "--records")
    assert [row["value"] for row in shown] == ["a", "é", {"base64": "/w=="}]
    assert shown[0]["key"] == "key"
    assert shown[0]["headers"] == [["trace", "7"]]
    assert [row["offset"] for row in shown] == [0, 1, 2]


def test_a_transaction_marker_is_shown_as_what_it_is(partition: Path) -> None:
    (partition / SEGMENT).write_bytes(end_txn_marker(committed=False, producer_id=1, producer_epoch=0, coordinator_epoch=12, timestamp=5))
    (row,) = rows(str(partition), "--records")
    assert (row["control"], row["coordinator epoch"]) == ("ABORT", 12)


def test_a_damaged_transaction_marker_is_reported_and_later_batches_are_still_shown(partition: Path) -> None:
    commit = struct.pack(">hh", 0, 1)
    values = (None, b"", b"\x00\x00\x00\x00\x00", struct.pack(">hi", -1, 7))
    markers = [
        build_batch([SimpleRecord(commit, value, 5)], base_offset=offset, producer_id=1, producer_epoch=0, transactional=True, control=True)
        for offset, value in enumerate(values)
    ]
    (partition / SEGMENT).write_bytes(b"".join(markers) + batch(len(values), b"a"))
    *damaged, last = rows(str(partition), "--records")
    assert [row["control"] for row in damaged] == ["COMMIT"] * len(values)
    truncated = "not readable: the value of a transaction marker is truncated"
    assert [row["coordinator epoch"] for row in damaged] == [truncated] * 3 + ["not readable: transaction marker version -1"]
    assert last["value"] == "a"


def test_corrupt_batch_is_reported_with_its_position_and_later_batches_are_still_shown(partition: Path) -> None:
    first = batch(0, b"a")
    damaged = bytearray(first + batch(1, b"b") + batch(2, b"c"))
    damaged[len(first) + 70] ^= 1
    (partition / SEGMENT).write_bytes(damaged)
    result = run(str(partition), "--json")
    assert result.exit_code == 1
    assert f"at byte {len(first)}" in result.stderr
    shown = [json.loads(line) for line in result.stdout.splitlines()]
    assert [row["crc"] for row in shown if "crc" in row] == ["ok", "BAD", "ok"]


def test_a_torn_tail_is_damage(partition: Path) -> None:
    whole = batch(0, b"a")
    (partition / SEGMENT).write_bytes(whole + batch(1, b"b")[:-1])
    result = run(str(partition))
    assert result.exit_code == 1
    assert f"at byte {len(whole)}" in result.stderr


def test_offsets_that_go_back_are_damage(partition: Path) -> None:
    (partition / SEGMENT).write_bytes(batch(4, b"a") + batch(4, b"b"))
    result = run(str(partition))
    assert result.exit_code == 1
    assert "base offset 4 after offset 4" in result.stderr


def test_invalid_batch_length_ends_the_file_with_its_position(partition: Path) -> None:
    whole = batch(0, b"a")
    (partition / SEGMENT).write_bytes(whole + struct.pack(">qi", 1, -5) + bytes(80))
    result = run(str(partition))
    assert result.exit_code == 1
    assert f"byte {len(whole)}" in result.stderr


def test_indexes_are_shown_without_the_zeros_that_kafka_preallocates(partition: Path) -> None:
    (partition / "00000000000000000100.index").write_bytes(struct.pack(">iiii", 5, 0, 9, 4_200) + bytes(80))
    (partition / "00000000000000000100.timeindex").write_bytes(struct.pack(">qi", 1_000, 5) + bytes(120))
    shown = rows(str(partition))
    assert [(row["offset"], row["position"]) for row in shown if row["kind"] == "offset index"] == [(105, 0), (109, 4_200)]
    assert [(row["timestamp"], row["offset"]) for row in shown if row["kind"] == "time index"] == [(1_000, 105)]


def test_a_transaction_index_is_shown_and_its_torn_entry_is_damage(partition: Path) -> None:
    (partition / "00000000000000000000.txnindex").write_bytes(struct.pack(">hqqqq", 0, 7, 1, 5, 1) + b"\0\0")
    result = run(str(partition), "--json")
    assert result.exit_code == 1
    assert json.loads(result.stdout.splitlines()[0])["last offset"] == 5
    assert "at byte 34" in result.stderr


def snapshot(*producers: tuple[int, ...]) -> bytes:
    body = struct.pack(">i", len(producers)) + b"".join(struct.pack(">qhiqiqiq", *producer) for producer in producers)
    return struct.pack(">hI", 1, crc32c(body)) + body


def test_a_producer_snapshot_is_shown(partition: Path) -> None:
    (partition / "00000000000000000005.snapshot").write_bytes(snapshot((9, 1, 4, 20, 4, 1_000, -1, -1)))
    (row,) = rows(str(partition))
    assert (row["producer"], row["epoch"], row["last seq"], row["last offset"], row["open transaction from"]) == (9, 1, 4, 20, None)


@pytest.mark.parametrize(
    "spoil", [lambda data: data[:-1], lambda data: data[:8], lambda data: data[:-1] + b"\x01", lambda data: b"\0\2" + data[2:]]
)
def test_a_damaged_snapshot_is_never_shown_as_good(partition: Path, spoil: Any) -> None:
    (partition / "00000000000000000005.snapshot").write_bytes(spoil(snapshot((9, 1, 4, 20, 4, 1_000, -1, -1))))
    assert run(str(partition)).exit_code == 1


def test_checkpoint_files_are_shown(tmp_path: Path, partition: Path) -> None:
    (partition / "leader-epoch-checkpoint").write_text("0\n1\n4 17\n")
    (partition / "partition.metadata").write_text("version: 0\ntopic_id: AAAAAAAAAAAAAAAAAAAAAA")
    (tmp_path / "recovery-point-offset-checkpoint").write_text("0\n1\norders 0 17\n")
    (tmp_path / "meta.properties").write_text("#comment\nversion=1\nnode.id=1\n")
    shown = rows(str(tmp_path))
    assert {"epoch": 4, "start offset": 17}.items() <= next(row for row in shown if row["kind"] == "leader epochs").items()
    checkpoint = next(row for row in shown if row["kind"] == "offset checkpoint")
    assert (checkpoint["topic"], checkpoint["partition"], checkpoint["offset"]) == ("orders", 0, 17)
    assert {row["name"]: row["value"] for row in shown if row["kind"] == "broker metadata"} == {"version": "1", "node.id": "1"}


@pytest.mark.parametrize("text", ["", "1\n0\n", "0\n1\n", "0\n1\n4 x\n", "0\n1\n4\n", "0\n0\n4 17\n"])
def test_a_malformed_checkpoint_is_damage(partition: Path, text: str) -> None:
    (partition / "leader-epoch-checkpoint").write_text(text)
    assert run(str(partition)).exit_code == 1


def test_committed_offsets_are_decoded(tmp_path: Path) -> None:
    directory = tmp_path / "__consumer_offsets-7"
    directory.mkdir()
    key, value = encode_record(
        GroupRecord(OffsetCommitKey("billing", "orders", 3), OffsetCommitValue(42, metadata="m", commit_timestamp=9))
    )
    tombstone = SimpleRecord(key, None)
    (directory / SEGMENT).write_bytes(build_batch([SimpleRecord(key, value), tombstone]))
    committed, forgotten = (row["decoded"] for row in rows(str(directory), "--records"))
    assert (committed["group"], committed["topic"], committed["partition"], committed["value"]["offset"]) == ("billing", "orders", 3, 42)
    assert forgotten["value"] is None


def test_dump_without_json_prints_a_table(partition: Path) -> None:
    (partition / SEGMENT).write_bytes(batch(0, b"a"))
    result = run(str(partition))
    assert result.exit_code == 0
    assert "base offset" in result.stdout


@pytest.mark.parametrize("name", ["missing", "notes.txt"])
def test_a_path_that_is_no_log_file_is_refused_by_name(tmp_path: Path, name: str) -> None:
    (tmp_path / "notes.txt").write_text("hello")
    result = run(str(tmp_path / name))
    assert result.exit_code == 2
    assert name in result.stderr


def test_fifo_is_rejected_and_skipped_in_a_directory(partition: Path) -> None:
    fifo = partition / "00000000000000000009.log"
    os.mkfifo(fifo)
    refused = run(str(fifo))
    assert (refused.exit_code, "neither a regular file nor a directory" in refused.output) == (2, True)
    (partition / SEGMENT).write_bytes(batch(0, b"a"))
    assert [row["base offset"] for row in rows(str(partition))] == [0]


@pytest.mark.parametrize("name", ["leader-epoch-checkpoint", "log-start-offset-checkpoint", "partition.metadata", ".kafka_cleanshutdown"])
def test_a_sparse_file_in_the_place_of_a_small_one_is_damage_and_not_read(partition: Path, name: str) -> None:
    with (partition / name).open("wb") as file:
        file.truncate(1 << 40)
    shown = run(str(partition / name), "--json")
    assert (shown.exit_code, "1099511627776 bytes" in shown.output) == (1, True)


def test_a_sparse_index_is_read_as_far_as_its_entries_go(partition: Path) -> None:
    index = partition / "00000000000000000000.index"
    with index.open("wb") as file:
        file.write(struct.pack(">iiii", 3, 70, 9, 4096))
        file.truncate(1 << 40)
    assert [row["offset"] for row in rows(str(index))] == [3, 9]
