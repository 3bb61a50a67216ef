"""The records of share groups against bytes written by Apache Kafka 4.3.1 (MessageUtil)."""

from __future__ import annotations

import pytest

from ottla.broker.groups.group_records import GroupRecord, decode_record, encode_record
from ottla.protocol import share_group_log as records
from ottla.protocol.consumer_group_log import AssignedTopic

TOPIC = bytes(range(1, 17))
GOLDEN = [
    (
        records.ShareGroupMemberMetadataKey("gr", "m-1"),
        records.ShareGroupMemberMetadataValue("r", "c", "/127.0.0.1", ["t1", "t2"]),
        "000a0002677200036d2d31",
        "0000027202630b2f3132372e302e302e310303743103743200",
    ),
    (
        records.ShareGroupMemberMetadataKey("gr", "m-1"),
        records.ShareGroupMemberMetadataValue(None, "c", "/::1", ["t"]),
        "000a0002677200036d2d31",
        "0000000263052f3a3a3102027400",
    ),
    (records.ShareGroupMetadataKey("gr"), records.ShareGroupMetadataValue(9, -2), "000b00026772", "000000000009fffffffffffffffe00"),
    (
        records.ShareGroupTargetAssignmentMetadataKey("gr"),
        records.ShareGroupTargetAssignmentMetadataValue(9, 1_700_000_000_123),
        "000c00026772",
        "0000000000090100080000018bcfe5687b",
    ),
    (
        records.ShareGroupTargetAssignmentMemberKey("gr", "m-1"),
        records.ShareGroupTargetAssignmentMemberValue([AssignedTopic(TOPIC, [0, 2])]),
        "000d0002677200036d2d31",
        "0000020102030405060708090a0b0c0d0e0f100300000000000000020000",
    ),
    (
        records.ShareGroupCurrentMemberAssignmentKey("gr", "m-1"),
        records.ShareGroupCurrentMemberAssignmentValue(9, 8, 0, [AssignedTopic(TOPIC, [0, 2])]),
        "000e0002677200036d2d31",
        "0000000000090000000800020102030405060708090a0b0c0d0e0f100300000000000000020000",
    ),
    (
        records.ShareGroupStatePartitionMetadataKey("gr"),
        records.ShareGroupStatePartitionMetadataValue(
            [records.TopicPartitionsInfo(TOPIC, "t", [1])],
            [records.TopicPartitionsInfo(TOPIC, "t", [0])],
            [records.DeletingTopic(TOPIC, "u")],
        ),
        "000f00026772",
        "0000020102030405060708090a0b0c0d0e0f100274020000000100020102030405060708090a0b0c0d0e0f100274020000000000020102030405060708090a0b0c"
        "0d0e0f1002750000",
    ),
]


@pytest.mark.parametrize(("key", "value", "key_hex", "value_hex"), GOLDEN, ids=lambda one: type(one).__name__)
def test_a_record_has_kafkas_bytes(key: records.ShareKey, value: records.ShareValue, key_hex: str, value_hex: str) -> None:
    written = bytes.fromhex(key_hex), bytes.fromhex(value_hex)
    assert encode_record(GroupRecord(key, value)) == written
    assert decode_record(*written) == GroupRecord(key, value)
    assert encode_record(GroupRecord(key, None)) == (written[0], None)
