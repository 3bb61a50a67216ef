"""The feed from log bytes to published images; see also tests/unit/broker/runtime/nodes/test_observer.py."""

from __future__ import annotations

import pytest

from ottla.broker.cluster.features import METADATA_VERSION
from ottla.broker.cluster.image_feed import ImageFeed, UnreadableMetadata
from ottla.broker.cluster.metadata_records import (
    BeginTransactionRecord,
    ConfigRecord,
    EndTransactionRecord,
    FeatureLevelRecord,
    MetadataRecord,
)
from ottla.broker.cluster.raft_records import KRaftVersionRecord, Voter, VotersRecord
from ottla.broker.cluster.record_frames import encode_record
from ottla.broker.cluster.record_versions import version_of
from ottla.broker.cluster.snapshots import Snapshot, SnapshotId
from ottla.protocol.errors import ProtocolError
from ottla.protocol.records.record import SimpleRecord, build_batch
from ottla.protocol.schema import encode

LEVEL = FeatureLevelRecord(METADATA_VERSION, 30)
A = ConfigRecord(2, "t", "a", "1")
LEADER_CHANGE, KRAFT_VERSION, VOTERS = (bytes([0, 0, 0, kind]) for kind in (2, 5, 6))


def data(base: int, *records: MetadataRecord) -> bytes:
    values = [SimpleRecord(None, encode_record(record, version_of(record, 30)), 1000) for record in records]
    return build_batch(values, base_offset=base, leader_epoch=4)


def control(base: int, key: bytes = LEADER_CHANGE, value: bytes = b"") -> bytes:
    return build_batch([SimpleRecord(key, value, 1000)], base_offset=base, leader_epoch=4, control=True)


def test_committed_batches_are_published_together_when_all_are_loaded() -> None:
    feed = ImageFeed()
    assert feed.load(control(0) + data(1, LEVEL), committed=3) == []
    (published,) = feed.load(data(2, A), committed=3)
    assert (published.provenance.offset, published.provenance.epoch, published.provenance.append_time_ms) == (2, 4, 1000)
    assert (published.changes.features, published.changes.configs) == ({METADATA_VERSION: 30}, {(2, "t"): {"a": "1"}})
    assert feed.next_offset == 3


def test_records_loaded_before_the_high_watermark_is_known_are_published_later() -> None:
    feed = ImageFeed()
    assert feed.load(data(0, LEVEL, A), committed=None) == []
    (published,) = feed.load(b"", committed=2)
    assert published.image.configs == {(2, "t"): {"a": "1"}}
    assert feed.load(b"", committed=2) == []


def test_a_log_without_controller_records_is_not_published() -> None:
    feed = ImageFeed()
    assert feed.load(control(0), committed=1) == []
    assert len(feed.load(data(1, LEVEL), committed=2)) == 1


def test_the_first_image_waits_for_an_open_transaction() -> None:
    feed = ImageFeed()
    assert feed.load(data(0, LEVEL) + data(1, BeginTransactionRecord(), A), committed=3) == []
    (published,) = feed.load(data(3, EndTransactionRecord()), committed=4)
    assert published.image.configs == {(2, "t"): {"a": "1"}}


def test_a_snapshot_replaces_the_image_and_is_published_as_a_change() -> None:
    feed = ImageFeed()
    feed.load(data(0, LEVEL, A), committed=2)
    feed.load(b"", committed=2)
    assert feed.bytes_since_snapshot > 0
    (published,) = feed.load_snapshot(SnapshotId(10, 4), Snapshot(7, [LEVEL]), committed=10)
    assert (published.changes.configs, published.provenance.offset, feed.next_offset) == ({(2, "t"): None}, 9, 10)
    assert feed.bytes_since_snapshot == 0


def test_the_bootstrap_snapshot_has_only_the_voters() -> None:
    feed = ImageFeed()
    assert feed.load_snapshot(SnapshotId(0, 0), Snapshot(0, [], 1, VotersRecord()), committed=0) == []
    assert (feed.quorum.kraft_version, feed.quorum.voters) == (1, VotersRecord())
    assert feed.load(b"", committed=0) == []


def test_control_records_define_the_voters() -> None:
    feed = ImageFeed()
    voters = VotersRecord(0, [Voter(3, b"d" * 16)])
    feed.load(control(0, KRAFT_VERSION, encode(KRaftVersionRecord(0, 1), 0)) + control(1, VOTERS, encode(voters, 0)), None)
    assert (feed.quorum.kraft_version, feed.quorum.voters) == (1, voters)


@pytest.mark.parametrize(
    "batch",
    [
        data(0, LEVEL)[:-1] + b"\xff",
        control(0, b"\0\0\0\x09"),
        control(0, VOTERS, b"\1"),
        build_batch([SimpleRecord(None, b"\x01\x7f\x00", 1)], base_offset=0),
    ],
    ids=["checksum", "control record of a kind that is not known", "voters cut short", "kind"],
)
def test_an_unreadable_record_stops_the_feed(batch: bytes) -> None:
    with pytest.raises(ProtocolError):
        ImageFeed().load(batch, None)


def test_a_damaged_batch_is_reported_with_its_offset() -> None:
    with pytest.raises(UnreadableMetadata, match="offset 12 "):
        ImageFeed().load(data(12, LEVEL)[:-1] + b"\xff", None)
