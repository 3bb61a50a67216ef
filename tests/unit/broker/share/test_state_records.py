"""The records of `__share_group_state` against bytes written by Apache Kafka 4.3.1 (MessageUtil)."""

from __future__ import annotations

import pytest

from ottla.broker.share.persister import SharePartitionKey
from ottla.broker.share.state_records import ShareRecord, decode_record, encode_record
from ottla.protocol.errors import ProtocolError
from ottla.protocol.share_log import LoggedBatch, ShareSnapshotValue, ShareUpdateValue

KEY = SharePartitionKey("gr", bytes(range(1, 17)), 3)
SNAPSHOT_KEY = "0000000267720102030405060708090a0b0c0d0e0f1000000003"
UPDATE_KEY = "0001000267720102030405060708090a0b0c0d0e0f1000000003"
GOLDEN = [
    (
        ShareSnapshotValue(2, 5, 7, 11, 4, 1_700_000_000_123, 1_700_000_000_456, [LoggedBatch(11, 14, 2, 1)]),
        SNAPSHOT_KEY,
        "0000000000020000000500000007000000000000000b0000018bcfe5687b0000018bcfe569c802000000000000000b000000000000000e0200010001000400000004",
    ),
    (
        ShareSnapshotValue(state_epoch=1, start_offset=-1, create_timestamp=5, write_timestamp=5),
        SNAPSHOT_KEY,
        "0000000000000000000100000000ffffffffffffffff000000000000000500000000000000050100",
    ),
    (
        ShareUpdateValue(2, 7, 11, 0, [LoggedBatch(11, 11, 0, 2)]),
        UPDATE_KEY,
        "00000000000200000007000000000000000b02000000000000000b000000000000000b0000020001000400000000",
    ),
    (None, SNAPSHOT_KEY, None),
]


@pytest.mark.parametrize(("value", "key", "golden"), GOLDEN, ids=["snapshot", "empty snapshot", "update", "tombstone"])
def test_a_record_has_kafkas_bytes(value: ShareSnapshotValue | ShareUpdateValue | None, key: str, golden: str | None) -> None:
    written = bytes.fromhex(key), None if golden is None else bytes.fromhex(golden)
    assert encode_record(ShareRecord(KEY, value)) == written
    assert decode_record(*written) == ShareRecord(KEY, value)


def test_a_key_of_an_unknown_type_is_none() -> None:
    assert decode_record(b"\x00\x02whatever", b"value") is None


@pytest.mark.parametrize(
    ("key", "value"),
    [(None, b""), (bytes.fromhex(UPDATE_KEY), None), (bytes.fromhex(SNAPSHOT_KEY)[:-1], None), (bytes.fromhex(SNAPSHOT_KEY), b"\x00\x01")],
)
def test_a_damaged_record_is_a_protocol_error(key: bytes | None, value: bytes | None) -> None:
    with pytest.raises(ProtocolError):
        decode_record(key, value)
