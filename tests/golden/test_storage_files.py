"""The exact bytes of each file format that Kafka reads too."""

from __future__ import annotations

import json
from pathlib import Path

from ottla.broker.core.settings import BrokerSettings
from ottla.broker.storage.checkpoint_file import encode_offsets
from ottla.broker.storage.log_dir import LogDir
from ottla.broker.storage.meta_properties import MetaProperties, encode_meta
from ottla.broker.storage.partition_metadata import encode_metadata
from ottla.broker.storage.producer_snapshots import encode_snapshot
from ottla.broker.storage.producer_state import BatchMetadata, Origin, ProducerStateEntry
from tests.support.logs import NOW_MS, TOPIC_ID, LogConfig, LogHarness, batch, marker


def test_offset_index_entries_are_relative_last_offset_and_position(tmp_path: Path) -> None:
    harness = LogHarness(tmp_path / "topic-0", LogConfig(index_interval_bytes=150))
    for _ in range(5):
        harness.append(batch(count=2, size=20))
    assert harness.log.size_bytes == 5 * 0x75
    harness.log.close()
    # Two batches exceed the interval of 150 bytes, so the third and the fifth have entries: last offsets 5 and 9.
    assert harness.file(".index").read_bytes() == bytes.fromhex("00000005 000000ea 00000009 000001d4")


def test_time_index_entries_are_timestamp_and_relative_last_offset_with_one_more_at_the_close(tmp_path: Path) -> None:
    harness = LogHarness(tmp_path / "topic-0", LogConfig(index_interval_bytes=150))
    for timestamp in (1000, 900, 800, 2000, 2000):
        harness.append(batch(count=2, size=20, timestamp=timestamp))
    harness.log.roll(NOW_MS)
    # At the third batch the greatest time so far is 1001, of the batch that ends at 1; at the fifth 2001, of the batch that ends at 7.
    assert harness.file(".timeindex").read_bytes() == bytes.fromhex("00000000000003e9 00000001 00000000000007d1 00000007")


def test_the_aborted_index_notes_the_last_stable_offset_at_the_marker(tmp_path: Path) -> None:
    harness = LogHarness(tmp_path / "topic-0")
    harness.append(batch(0x0A0B, 1, 0, count=3, transactional=True))
    harness.append(batch(0x0C, 1, 0, transactional=True))
    harness.append(marker(0x0A0B, 1, committed=False), origin=Origin.COORDINATOR)
    harness.log.flush()
    expected = "0000 0000000000000a0b 0000000000000000 0000000000000004 0000000000000003"
    assert harness.file(".txnindex").read_bytes() == bytes.fromhex(expected)


def test_a_producer_snapshot_has_46_bytes_an_entry_under_a_checksum() -> None:
    entry = ProducerStateEntry(0x1122334455667788, 7, coordinator_epoch=3, last_timestamp=0x0102030405060708, current_txn_first_offset=5)
    entry.batches.append(BatchMetadata(last_sequence=9, last_offset=0x21, offset_delta=4, timestamp=1))
    data = encode_snapshot([entry, ProducerStateEntry(1)])
    assert data[:2] == b"\x00\x01"
    assert data[2:6] == bytes.fromhex("a3d67937")  # by a bitwise CRC-32C over the rest
    assert data[6:10] == b"\x00\x00\x00\x02"
    first = "1122334455667788 0007 00000009 0000000000000021 00000004 0102030405060708 00000003 0000000000000005"
    second = "0000000000000001 ffff ffffffff ffffffffffffffff 00000000 ffffffffffffffff ffffffff ffffffffffffffff"
    assert data[10:] == bytes.fromhex(first + second)


def test_offset_checkpoints_are_lines_of_topic_partition_offset() -> None:
    assert encode_offsets({("a.topic", 0): 12, ("b", 3): 0}) == b"0\n2\na.topic 0 12\nb 3 0\n"
    assert encode_offsets({}) == b"0\n0\n"


def test_the_leader_epoch_checkpoint_has_a_line_an_epoch(tmp_path: Path) -> None:
    harness = LogHarness(tmp_path / "topic-0")
    for epoch in (0, 4):
        harness.log.append(batch(), origin=Origin.CLIENT, leader_epoch=epoch, now_ms=NOW_MS)
    assert (harness.directory / "leader-epoch-checkpoint").read_bytes() == b"0\n2\n0 0\n4 1\n"


def test_partition_metadata_has_the_topic_id_and_no_line_end() -> None:
    assert encode_metadata(TOPIC_ID) == b"version: 0\ntopic_id: AAECAwQFBgcICQoLDA0ODw"


def test_meta_properties_is_a_java_properties_file() -> None:
    meta = MetaProperties("abcdefghijklmnopqrstuA", 1, TOPIC_ID)
    assert encode_meta(meta, 86_400_000).splitlines() == [
        b"#",
        b"#Fri Jan 02 00:00:00 UTC 1970",
        b"node.id=1",
        b"directory.id=AAECAwQFBgcICQoLDA0ODw",
        b"version=1",
        b"cluster.id=abcdefghijklmnopqrstuA",
    ]


def test_a_clean_stop_leaves_kafkas_marker_and_checkpoints(tmp_path: Path) -> None:
    log_dir = LogDir.open(tmp_path, BrokerSettings(), NOW_MS)
    log = log_dir.create_log("t", 0, TOPIC_ID, LogConfig())
    log.append(batch(count=3), origin=Origin.CLIENT, leader_epoch=0, now_ms=NOW_MS)
    log.advance_high_watermark(3)
    log.delete_records_before(2)
    log_dir.close()
    assert json.loads((tmp_path / ".kafka_cleanshutdown").read_bytes()) == {"version": 0, "brokerEpoch": -1}
    assert (tmp_path / "recovery-point-offset-checkpoint").read_bytes() == b"0\n1\nt 0 3\n"
    assert (tmp_path / "log-start-offset-checkpoint").read_bytes() == b"0\n1\nt 0 2\n"
    assert (tmp_path / "replication-offset-checkpoint").read_bytes() == b"0\n1\nt 0 3\n"
    assert (tmp_path / "t-0" / "partition.metadata").read_bytes() == encode_metadata(TOPIC_ID)
