"""Snapshots as bytes; reading them with Kafka, and Kafka's, is tested in `tests/scenario/test_kafka_snapshots.py`."""

from __future__ import annotations

import pytest

from ottla.broker.cluster.metadata_records import ConfigRecord, MetadataRecord, NoOpRecord, RegisterControllerRecord, TopicRecord
from ottla.broker.cluster.raft_records import KRaftVersionFeature, Voter, VoterEndpoint, VotersRecord
from ottla.broker.cluster.record_frames import UnknownRecord
from ottla.broker.cluster.record_versions import NotWritable
from ottla.broker.cluster.snapshots import BATCH_BYTES_MAX, CorruptMetadataSnapshot, Snapshot, SnapshotId, read_snapshot, write_snapshot
from ottla.protocol.errors import ProtocolError
from ottla.protocol.records.batch import split_batches
from ottla.protocol.records.record import SimpleRecord, build_batch

VOTERS = VotersRecord(0, [Voter(1, b"d" * 16, [VoterEndpoint("CONTROLLER", "h", 9093)], KRaftVersionFeature(0, 1))])
RECORDS: list[MetadataRecord] = [TopicRecord("a", b"i" * 16), ConfigRecord(2, "a", "x", "1")]


def written(snapshot: Snapshot, level: int = 30) -> bytes:
    return b"".join(write_snapshot(snapshot, 7, level, 5000))


@pytest.mark.parametrize(
    "snapshot",
    [Snapshot(17), Snapshot(17, RECORDS), Snapshot(17, RECORDS, 1), Snapshot(17, RECORDS, 1, VOTERS)],
    ids=["empty", "static voters", "dynamic without voters", "dynamic"],
)
def test_a_snapshot_round_trips_through_bytes(snapshot: Snapshot) -> None:
    assert read_snapshot(written(snapshot)) == snapshot


def test_its_batches_have_the_snapshots_epoch_and_offsets_from_zero() -> None:
    headers = [header for _, header in split_batches(written(Snapshot(17, RECORDS, 1, VOTERS)))]
    assert [(header.base_offset, header.record_count, header.is_control) for header in headers] == [
        (0, 3, True),
        (3, 2, False),
        (5, 1, True),
    ]
    assert {(header.partition_leader_epoch, header.base_timestamp) for header in headers} == {(7, 5000)}


def test_a_snapshot_batch_has_up_to_1024_records() -> None:
    large = ConfigRecord(2, "a", "x", "v" * 3000)
    counts = [header.record_count for _, header in split_batches(written(Snapshot(0, [large] * 5000)))]
    assert counts == [1, 2048, 2048, 904, 1]


def test_records_that_do_not_fit_are_split_into_batches() -> None:
    large = ConfigRecord(2, "a", "x", "v" * 32_000)
    snapshot = Snapshot(0, [NoOpRecord(), *[large] * 600])
    batches = list(write_snapshot(snapshot, 7, 30, 0))
    assert len(batches) == 5
    assert max(map(len, batches)) <= BATCH_BYTES_MAX < len(batches[1]) + 32_100
    assert read_snapshot(b"".join(batches)) == snapshot


def test_records_are_written_at_the_requested_metadata_version() -> None:
    with pytest.raises(NotWritable):
        written(Snapshot(0, [RegisterControllerRecord(1)]), level=14)


def test_voters_are_not_written_at_kraft_version_0() -> None:
    with pytest.raises(ValueError, match="cannot name voters"):
        written(Snapshot(0, kraft_version=0, voters=VOTERS))


def test_a_truncated_snapshot_is_refused() -> None:
    whole = written(Snapshot(17, RECORDS, 1, VOTERS))
    for size in range(len(whole)):
        with pytest.raises(ProtocolError):
            read_snapshot(whole[:size])


def test_a_changed_byte_under_a_checksum_is_refused() -> None:
    whole = bytearray(written(Snapshot(17, RECORDS)))
    for pos, header in split_batches(bytes(whole)):
        whole[pos + header.size_bytes - 1] ^= 1
        with pytest.raises(CorruptMetadataSnapshot, match="checksum"):
            read_snapshot(bytes(whole))
        whole[pos + header.size_bytes - 1] ^= 1


def test_a_snapshot_without_header_or_with_data_after_the_footer_is_refused() -> None:
    head, body, foot = write_snapshot(Snapshot(17, RECORDS), 7, 30, 0)
    for batches in ([body, foot], [foot], [head, foot, body], [head, foot, head], [head, body]):
        with pytest.raises(CorruptMetadataSnapshot):
            read_snapshot(b"".join(batches))


def test_a_record_of_a_newer_kafka_is_refused() -> None:
    head, foot = write_snapshot(Snapshot(17), 7, 30, 0)
    newer = build_batch([SimpleRecord(None, bytes.fromhex("017d0000"), 0)], base_offset=1, leader_epoch=7)
    with pytest.raises(UnknownRecord):
        read_snapshot(head + newer + foot)


def test_a_snapshot_has_its_id_in_its_name() -> None:
    name = "00000000000000001234-0000000005.checkpoint"
    assert SnapshotId(1234, 5).file_name == name
    assert SnapshotId.of_file(name) == SnapshotId(1234, 5)
    for other in (name + ".part", name + ".deleted", "bootstrap.checkpoint", "00000000000000001234.log", "x" + name):
        assert SnapshotId.of_file(other) is None
