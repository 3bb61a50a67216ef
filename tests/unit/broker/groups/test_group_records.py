"""The records of `__consumer_offsets` against bytes written by Apache Kafka 4.1.1 (MessageUtil)."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ottla.broker.groups.group_records import (
    GroupMetadataKey,
    GroupMetadataValue,
    GroupRecord,
    MemberMetadata,
    OffsetCommitKey,
    OffsetCommitValue,
    decode_record,
    encode_record,
    version_written,
)
from ottla.protocol.errors import ProtocolError
from ottla.protocol.schema import encode_prefixed

OFFSET = OffsetCommitValue(offset=1234567890123, leader_epoch=7, metadata="méta", commit_timestamp=1700000000123)
OFFSET_WITH_TOPIC_ID = OffsetCommitValue(
    offset=1234567890123, leader_epoch=7, metadata="méta", commit_timestamp=1700000000123, topic_id=bytes(range(1, 17))
)
EXPIRING = OffsetCommitValue(offset=1234567890123, metadata="méta", commit_timestamp=1700000000123, expire_timestamp=1700000009999)
GROUP = GroupMetadataValue(
    protocol_type="consumer",
    generation=42,
    protocol="range",
    leader="c-1",
    current_state_timestamp=1700000000123,
    members=[
        MemberMetadata("c-1", "i1", "c", "/127.0.0.1", 300000, 45000, b"\x01\x02", b"\x03"),
        MemberMetadata("d-2", None, "d", "/::1", 1, 2, b"", b""),
    ],
)
EMPTY_GROUP = GroupMetadataValue(protocol_type="consumer", generation=3, protocol="", leader="", current_state_timestamp=5)

OFFSET_KEY = "000100026772000374c3b600000009"
GROUP_KEY = "000200026772"
_OFFSET_HEAD = "0000011f71fb04cb"
_OFFSET_TAIL = "00056dc3a974610000018bcfe5687b"
GOLDEN = [
    (OFFSET, 0, "0000" + _OFFSET_HEAD + _OFFSET_TAIL),
    (EXPIRING, 1, "0001" + _OFFSET_HEAD + _OFFSET_TAIL + "0000018bcfe58f0f"),
    (OFFSET, 2, "0002" + _OFFSET_HEAD + _OFFSET_TAIL),
    (OFFSET, 3, "0003" + _OFFSET_HEAD + "00000007" + _OFFSET_TAIL),
    (OFFSET, 4, "00040000011f71fb04cb00000007066dc3a974610000018bcfe5687b00"),
    (OFFSET_WITH_TOPIC_ID, 4, "00040000011f71fb04cb00000007066dc3a974610000018bcfe5687b0100100102030405060708090a0b0c0d0e0f10"),
    (
        GROUP,
        0,
        "00000008636f6e73756d65720000002a000572616e67650003632d31000000020003632d31000163000a2f3132372e302e302e310000afc80000000201020000"
        "0001030003642d3200016400042f3a3a31000000020000000000000000",
    ),
    (
        GROUP,
        1,
        "00010008636f6e73756d65720000002a000572616e67650003632d31000000020003632d31000163000a2f3132372e302e302e31000493e00000afc800000002"
        "010200000001030003642d3200016400042f3a3a3100000001000000020000000000000000",
    ),
    (
        GROUP,
        2,
        "00020008636f6e73756d65720000002a000572616e67650003632d310000018bcfe5687b000000020003632d31000163000a2f3132372e302e302e31000493e0"
        "0000afc800000002010200000001030003642d3200016400042f3a3a3100000001000000020000000000000000",
    ),
    (
        GROUP,
        3,
        "00030008636f6e73756d65720000002a000572616e67650003632d310000018bcfe5687b000000020003632d3100026931000163000a2f3132372e302e302e31"
        "000493e00000afc800000002010200000001030003642d32ffff00016400042f3a3a3100000001000000020000000000000000",
    ),
    (
        GROUP,
        4,
        "000409636f6e73756d65720000002a0672616e676504632d310000018bcfe5687b0304632d3103693102630b2f3132372e302e302e31000493e00000afc80301"
        "0202030004642d32000264052f3a3a31000000010000000201010000",
    ),
    (EMPTY_GROUP, 3, "00030008636f6e73756d65720000000300000000000000000000000500000000"),
]


@pytest.mark.parametrize(
    ("value", "version", "golden"), GOLDEN, ids=lambda one: type(one).__name__ if not isinstance(one, int | str) else str(one)[:4]
)
def test_each_version_of_a_value_is_written_as_kafka_writes_it(
    value: OffsetCommitValue | GroupMetadataValue, version: int, golden: str
) -> None:
    assert encode_prefixed(value, version).hex() == golden


@pytest.mark.parametrize(
    ("value", "version", "golden"), GOLDEN, ids=lambda one: type(one).__name__ if not isinstance(one, int | str) else str(one)[:4]
)
def test_each_version_of_a_value_is_read_back(value: OffsetCommitValue | GroupMetadataValue, version: int, golden: str) -> None:
    key = bytes.fromhex(GROUP_KEY if isinstance(value, GroupMetadataValue) else OFFSET_KEY)
    record = decode_record(key, bytes.fromhex(golden))
    assert record is not None
    assert record.value is not None
    assert encode_prefixed(record.value, version).hex() == golden
    if version == value.MAX_VERSION:
        assert record.value == value


def test_keys_are_written_as_kafka_writes_them() -> None:
    assert encode_record(GroupRecord(OffsetCommitKey("gr", "tö", 9), None)) == (bytes.fromhex(OFFSET_KEY), None)
    assert encode_record(GroupRecord(GroupMetadataKey("gr"), None)) == (bytes.fromhex(GROUP_KEY), None)


def test_values_are_written_in_the_versions_of_kafka_4_1() -> None:
    assert version_written(OFFSET) == 4
    assert version_written(EXPIRING) == 1
    assert version_written(GROUP) == 3


def test_a_key_of_version_0_is_decoded_like_version_1() -> None:
    record = decode_record(bytes.fromhex("0000" + OFFSET_KEY[4:]), None)
    assert record == GroupRecord(OffsetCommitKey("gr", "tö", 9), None)


@pytest.mark.parametrize("key_type", [9, 18, 999, -1])
def test_a_key_of_an_unknown_type_is_none(key_type: int) -> None:
    assert decode_record(key_type.to_bytes(2, "big", signed=True) + b"whatever", b"value") is None


@pytest.mark.parametrize(
    ("key", "value"),
    [
        (None, b""),
        (b"\x00", None),
        (bytes.fromhex(OFFSET_KEY)[:-1], None),
        (bytes.fromhex(OFFSET_KEY) + b"\x00", None),
        (bytes.fromhex(OFFSET_KEY), b"\x00\x05" + bytes(30)),
        (bytes.fromhex(OFFSET_KEY), b"\x00\x04\x00"),
        (bytes.fromhex(GROUP_KEY), b"\xff\xff"),
    ],
)
def test_a_record_that_cannot_be_read_is_an_error(key: bytes | None, value: bytes | None) -> None:
    with pytest.raises(ProtocolError):
        decode_record(key, value)


@given(st.binary(max_size=40), st.none() | st.binary(max_size=80))
def test_arbitrary_bytes_give_a_record_none_or_an_error(key: bytes, value: bytes | None) -> None:
    try:
        record = decode_record(key, value)
    except ProtocolError:
        return
    assert record is None or isinstance(record, GroupRecord)
