"""The expected bytes were made by the serializers of Kafka 4.1.1."""

from __future__ import annotations

import pytest

from ottla.broker.groups.group_records import GroupRecord, decode_record, encode_record
from ottla.protocol import consumer_group_log as records

TOPIC = bytes.fromhex("01020304050607081112131415161718")

GOLDEN = {
    "epoch and hash": (
        "000300026772",
        "000000000007010008fffffffffffffffe",
        GroupRecord(records.ConsumerGroupMetadataKey("gr"), records.ConsumerGroupMetadataValue(7, -2)),
    ),
    "epoch without a hash": (
        "000300026772",
        "00000000000700",
        GroupRecord(records.ConsumerGroupMetadataKey("gr"), records.ConsumerGroupMetadataValue(7)),
    ),
    "topics as 4.0 saw them": (
        "000400026772",
        "000002010203040506070811121314151617180274000000030200000001020272000000",
        GroupRecord(
            records.ConsumerGroupPartitionMetadataKey("gr"),
            records.ConsumerGroupPartitionMetadataValue([records.TopicMetadata(TOPIC, "t", 3, [records.PartitionRacks(1, ["r"])])]),
        ),
    ),
    "member": (
        "00050002677200026d31",
        "0000026902720263032f68030261026204782e2a000493e00672616e676501000100",
        GroupRecord(
            records.ConsumerGroupMemberMetadataKey("gr", "m1"),
            records.ConsumerGroupMemberMetadataValue("i", "r", "c", "/h", ["a", "b"], "x.*", 300_000, "range", None),
        ),
    ),
    "member of the classic protocol": (
        "00050002677200026d31",
        "000000000263032f6802026101000493e000010012010000afc8020672616e6765040102030000",
        GroupRecord(
            records.ConsumerGroupMemberMetadataKey("gr", "m1"),
            records.ConsumerGroupMemberMetadataValue(
                None,
                None,
                "c",
                "/h",
                ["a"],
                "",
                300_000,
                None,
                records.ClassicMemberMetadata(45_000, [records.ClassicProtocol("range", b"\1\2\3")]),
            ),
        ),
    ),
    "target epoch": (
        "000600026772",
        "00000000000700",
        GroupRecord(records.ConsumerGroupTargetAssignmentMetadataKey("gr"), records.ConsumerGroupTargetAssignmentMetadataValue(7)),
    ),
    "target epoch and time": (
        "000600026772",
        "0000000000070100080000011f71fb04cb",
        GroupRecord(
            records.ConsumerGroupTargetAssignmentMetadataKey("gr"), records.ConsumerGroupTargetAssignmentMetadataValue(7, 1_234_567_890_123)
        ),
    ),
    "target": (
        "00070002677200026d31",
        "000002010203040506070811121314151617180300000000000000020000",
        GroupRecord(
            records.ConsumerGroupTargetAssignmentMemberKey("gr", "m1"),
            records.ConsumerGroupTargetAssignmentMemberValue([records.AssignedTopic(TOPIC, [0, 2])]),
        ),
    ),
    "current assignment": (
        "00080002677200026d31",
        "00000000000700000006010201020304050607081112131415161718020000000000020102030405060708111213141516171802000000020000",
        GroupRecord(
            records.ConsumerGroupCurrentMemberAssignmentKey("gr", "m1"),
            records.ConsumerGroupCurrentMemberAssignmentValue(7, 6, 1, [records.OwnedTopic(TOPIC, [0])], [records.OwnedTopic(TOPIC, [2])]),
        ),
    ),
    "current assignment with epochs": (
        "00080002677200026d31",
        "00000000000700000006010201020304050607081112131415161718020000000001000502000000050201020304050607081112131415161718020000000201"
        "0005020000000400",
        GroupRecord(
            records.ConsumerGroupCurrentMemberAssignmentKey("gr", "m1"),
            records.ConsumerGroupCurrentMemberAssignmentValue(
                7, 6, 1, [records.OwnedTopic(TOPIC, [0], [5])], [records.OwnedTopic(TOPIC, [2], [4])]
            ),
        ),
    ),
    "regular expression": (
        "0010000267720003782e2a",
        "00000303786103786200000000000000090000011f71fb04cb00",
        GroupRecord(
            records.ConsumerGroupRegularExpressionKey("gr", "x.*"),
            records.ConsumerGroupRegularExpressionValue(["xa", "xb"], 9, 1_234_567_890_123),
        ),
    ),
}


@pytest.mark.parametrize(("key", "value", "record"), GOLDEN.values(), ids=GOLDEN.keys())
def test_a_record_is_written_and_read_as_kafka_writes_it(key: str, value: str, record: GroupRecord) -> None:
    written_key, written_value = encode_record(record)
    assert written_value is not None
    assert (written_key.hex(), written_value.hex()) == (key, value)
    assert decode_record(bytes.fromhex(key), bytes.fromhex(value)) == record


@pytest.mark.parametrize(("key", "value", "record"), GOLDEN.values(), ids=GOLDEN.keys())
def test_a_tombstone_removes_its_key(key: str, value: str, record: GroupRecord) -> None:
    forgotten = GroupRecord(record.key, None)
    assert encode_record(forgotten) == (bytes.fromhex(key), None)
    assert decode_record(bytes.fromhex(key), None) == forgotten
