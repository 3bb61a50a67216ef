"""The records of streams groups against bytes written by Apache Kafka 4.3.1 (MessageUtil)."""

from __future__ import annotations

import pytest

from ottla.broker.groups.group_records import GroupRecord, decode_record, encode_record
from ottla.protocol import streams_group_log as records
from ottla.protocol.messages.streams_group import CopartitionGroup, Endpoint, KeyValue, Subtopology, TaskIds, TopicInfo
from ottla.protocol.streams_group_log import OwnedTaskIds

TOPOLOGY = records.StreamsGroupTopologyValue(
    2,
    [
        Subtopology(
            "0",
            ["in"],
            ["x.*"],
            [TopicInfo("ch", 0, 1, [KeyValue("cleanup.policy", "compact")])],
            ["rp"],
            [TopicInfo("rs", 3, 0, [])],
            [CopartitionGroup([0], [], [0])],
        )
    ],
)
GOLDEN = [
    (
        records.StreamsGroupMetadataKey("gr"),
        records.StreamsGroupMetadataValue(9, -2, 3, [KeyValue("num.standby.replicas", "1")]),
        "001100026772",
        "000000000009fffffffffffffffe02000400000003011902156e756d2e7374616e6462792e7265706c69636173023100",
    ),
    (
        records.StreamsGroupMetadataKey("gr"),
        records.StreamsGroupMetadataValue(9, -2),
        "001100026772",
        "000000000009fffffffffffffffe00",
    ),
    (
        records.StreamsGroupMemberMetadataKey("gr", "m-1"),
        records.StreamsGroupMemberMetadataValue("i", "r", "c", "/::1", 300_000, 2, "p", Endpoint("h", 65_535), [KeyValue("k", "v")]),
        "00130002677200036d2d31",
        "0000026902720263052f3a3a31000493e0000000020270010268ffff0002026b02760000",
    ),
    (
        records.StreamsGroupMemberMetadataKey("gr", "m-1"),
        records.StreamsGroupMemberMetadataValue(None, None, "c", "/::1", process_id="p"),
        "00130002677200036d2d31",
        "000000000263052f3a3a31ffffffff000000000270ff0100",
    ),
    (
        records.StreamsGroupTargetAssignmentMetadataKey("gr"),
        records.StreamsGroupTargetAssignmentMetadataValue(9, 1_700_000_000_123),
        "001400026772",
        "0000000000090100080000018bcfe5687b",
    ),
    (
        records.StreamsGroupTargetAssignmentMemberKey("gr", "m-1"),
        records.StreamsGroupTargetAssignmentMemberValue([TaskIds("0", [0, 2])], [TaskIds("1", [1])], [TaskIds("2", [3])]),
        "00150002677200036d2d31",
        "00000202300300000000000000020002023102000000010002023202000000030000",
    ),
    (
        records.StreamsGroupCurrentMemberAssignmentKey("gr", "m-1"),
        records.StreamsGroupCurrentMemberAssignmentValue(
            9, 8, 2, [OwnedTaskIds("0", [0, 2], [9, 7])], [OwnedTaskIds("1", [1])], [], [OwnedTaskIds("0", [1], [5])]
        ),
        "00160002677200036d2d31",
        "00000000000900000008020202300300000000000000020100090300000009000000070202310200000001000102023002000000010100050200000005010100",
    ),
    (
        records.StreamsGroupTopologyKey("gr"),
        TOPOLOGY,
        "001700026772",
        "0000000000020202300203696e0204782e2a02036368000000000001020f636c65616e75702e706f6c69637908636f6d706163740000020372700203727300000003"
        "000001000202000001020000000000",
    ),
]


@pytest.mark.parametrize(("key", "value", "key_hex", "value_hex"), GOLDEN, ids=lambda one: type(one).__name__)
def test_a_record_has_kafkas_bytes(key: records.StreamsKey, value: records.StreamsValue, key_hex: str, value_hex: str) -> None:
    written = bytes.fromhex(key_hex), bytes.fromhex(value_hex)
    assert encode_record(GroupRecord(key, value)) == written
    assert decode_record(*written) == GroupRecord(key, value)
    assert encode_record(GroupRecord(key, None)) == (written[0], None)
