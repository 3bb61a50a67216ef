from __future__ import annotations

import struct

import pytest

from ottla.protocol.records.batch import crc_ok, read_header
from ottla.protocol.records.control import MARKER_BYTES, ControlType, control_type, end_txn_marker, marker_batch, parse_marker
from ottla.protocol.records.errors import InvalidRecord
from ottla.protocol.records.record import SimpleRecord, build_batch

KINDS = [(True, ControlType.COMMIT), (False, ControlType.ABORT)]


def control_batch(key: bytes | None, value: bytes | None) -> bytes:
    return build_batch([SimpleRecord(key, value, 5)], transactional=True, control=True, producer_id=1, producer_epoch=0)


@pytest.mark.parametrize(("committed", "kind"), KINDS)
def test_marker_has_78_bytes_and_round_trips(committed: bool, kind: ControlType) -> None:
    batch = end_txn_marker(
        committed=committed, producer_id=77, producer_epoch=4, coordinator_epoch=12, timestamp=5000, base_offset=31, leader_epoch=2
    )
    header = read_header(batch)
    assert len(batch) == MARKER_BYTES == 78
    assert crc_ok(batch, header)
    assert (header.producer_id, header.producer_epoch, header.base_sequence, header.record_count) == (77, 4, -1, 1)
    assert (header.is_control, header.is_transactional, header.base_offset, header.partition_leader_epoch) == (True, True, 31, 2)
    marker = parse_marker(batch)
    assert marker == (kind, 12, 5000)
    assert marker.ends_transaction


def test_commit_marker_has_the_bytes_of_kafkas_schema() -> None:
    batch = end_txn_marker(committed=True, producer_id=1, producer_epoch=0, coordinator_epoch=3, timestamp=0)
    assert batch[61:].hex() == "2000000008000000010c00000000000300"


def test_marker_batch_is_built_once_and_equals_its_parsed_bytes() -> None:
    made = marker_batch(False, 77, 4, 12, 5000)
    batch = end_txn_marker(committed=False, producer_id=77, producer_epoch=4, coordinator_epoch=12, timestamp=5000)
    assert made == (read_header(batch), (batch[16:],), parse_marker(batch))
    assert marker_batch(False, 77, 4, 12, 5000) is made
    assert marker_batch(False, 77, 4, 12, 5001).header.max_timestamp == 5001


def test_future_versions_are_read_by_their_known_prefix() -> None:
    batch = control_batch(struct.pack(">hhq", 5, 0, 99), struct.pack(">hiq", 9, 44, 99))
    assert parse_marker(batch) == (ControlType.ABORT, 44, 5)


def test_unknown_control_types_are_none_and_end_no_transaction() -> None:
    marker = parse_marker(control_batch(struct.pack(">hh", 0, 7), None))
    assert marker == (None, -1, 5)
    assert not marker.ends_transaction
    assert control_type(struct.pack(">hh", 0, -1)) is None


def test_control_types_of_the_metadata_log_are_known_and_end_no_transaction() -> None:
    marker = parse_marker(control_batch(struct.pack(">hh", 0, 2), b"whatever"))
    assert (marker.type, marker.ends_transaction) == (ControlType.LEADER_CHANGE, False)


@pytest.mark.parametrize(
    ("key", "value"),
    [
        (None, None),
        (b"\0\0\0", bytes(6)),
        (struct.pack(">hh", -1, 0), bytes(6)),
        (bytes(4), None),
        (bytes(4), bytes(5)),
        (bytes(4), struct.pack(">hi", -1, 0)),
    ],
)
def test_truncated_marker_or_negative_version_is_invalid(key: bytes | None, value: bytes | None) -> None:
    with pytest.raises(InvalidRecord):
        parse_marker(control_batch(key, value))


def test_a_control_batch_of_two_records_is_no_marker() -> None:
    two = build_batch([SimpleRecord(bytes(4), bytes(6))] * 2, control=True)
    with pytest.raises(InvalidRecord, match="2 records"):
        parse_marker(two)
