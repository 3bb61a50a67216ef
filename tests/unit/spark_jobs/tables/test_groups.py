"""The levels `groups` and `share_states`: decoded records, unreadable ones, and record versions that are newer than this reader."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from ottla.protocol.consumer_group_log import (
    TARGET_MEMBER,
    AssignedTopic,
    ConsumerGroupTargetAssignmentMemberKey,
    ConsumerGroupTargetAssignmentMemberValue,
)
from ottla.protocol.records.compression import Codec
from ottla.protocol.records.record import SimpleRecord, build_batch
from ottla.protocol.schema import encode_prefixed
from ottla.spark_jobs.corpus.shares import (
    ACCEPTED,
    AVAILABLE,
    TOPIC_ID,
    Queue,
    Streams,
    current,
    group,
    member,
    shared_by_two,
    torn_members,
)
from ottla.spark_jobs.tables import Filters, read
from ottla.spark_jobs.tables.control import ELEMENTS_MAX
from tests.support.kafka_logs import T0, PartitionWriter


def rows(root: Path, level: str, *columns: str, filters: Filters | None = None) -> list[tuple[Any, ...]]:
    return [tuple(row.values()) for batch in read(level, [root], columns, filters) for row in batch.to_pylist()]


def test_a_share_state_has_a_row_for_each_state_batch(tmp_path: Path) -> None:
    queue = Queue(tmp_path)
    queue.snapshot(start=-1, state_epoch=7)
    queue.update((0, 4, ACCEPTED, 1), (5, 5, AVAILABLE, 2), leader=3, start=0)
    queue.delete()
    what = ("offset", "record", "group_id", "share_partition", "state_epoch", "share_leader_epoch", "start_offset")
    assert rows(tmp_path, "share_states", *what, "batch", "first_offset", "last_offset", "delivery_state", "delivery_count") == [
        (0, "snapshot", "g", 0, 7, 0, -1, None, None, None, None, None),
        (1, "update", "g", 0, None, 3, 0, 0, 0, 4, 2, 1),
        (1, "update", "g", 0, None, 3, 0, 1, 5, 5, 0, 2),
        (2, "tombstone", "g", 0, None, None, None, None, None, None, None, None),
    ]
    assert rows(tmp_path, "share_states", "offset", filters=Filters(start_offset=2)) == [(2,)]


def test_topic_id_is_formatted_as_in_partition_metadata(tmp_path: Path) -> None:
    queue = Queue(tmp_path)
    queue.snapshot()
    ((topic_id,),) = rows(tmp_path, "share_states", "topic_id")
    assert (queue.topic.directory / "partition.metadata").read_text().endswith(f"topic_id: {topic_id}")


def test_truncated_share_state_is_unreadable_and_a_later_version_is_omitted(tmp_path: Path) -> None:
    queue = Queue(tmp_path)
    queue.torn()
    later = [SimpleRecord(b"\0\0\0\1g" + bytes(20), b"\0\1later", T0), SimpleRecord(b"\0\x09later", b"", T0)]
    queue.states.batch(build_batch(later))
    queue.states.batch(build_batch([SimpleRecord(b"\0\1\0\1g" + bytes(20), None, T0), SimpleRecord(b"\0\0\0\x09g", None, T0)]))
    assert rows(tmp_path, "share_states", "offset", "record", "group_id") == [
        (0, "unreadable", None),
        (3, "unreadable", None),
        (4, "unreadable", None),
    ]


def test_a_streams_group_has_its_epoch_and_each_member_its_tasks(tmp_path: Path) -> None:
    log = Streams(tmp_path)
    log.join("a", epoch=3)
    log.write(current("a", 2, [0], revoked=[1], standby=[2]), member("b", gone=True), group(None))
    what = ("base_offset", "offset", "record", "group_type", "member_id", "deleted", "epoch", "tasks", "standby_tasks", "warmup_tasks")
    assert rows(tmp_path, "groups", *what) == [
        (0, 0, "group", "streams", None, False, 3, None, None, None),
        (0, 1, "member", "streams", "a", False, None, None, None, None),
        (2, 2, "current", "streams", "a", False, 2, ["0-0", "0-1"], ["0-2"], []),
        (2, 3, "member", "streams", "b", True, None, None, None, None),
        (2, 4, "group", "streams", None, True, None, None, None, None),
    ]


def test_a_share_member_has_the_partitions_of_its_assignment(tmp_path: Path) -> None:
    shared_by_two(tmp_path)
    found = [row for row in rows(tmp_path, "groups", "record", "group_type", "member_id", "epoch", "tasks") if row[0] == "current"]
    assert found == [("current", "share", each, 1, ["AAECAwQFBgcICQoLDA0ODw-0"]) for each in "ab"]


def test_truncated_group_record_is_unreadable_and_other_kinds_are_omitted(tmp_path: Path) -> None:
    torn_members(tmp_path)
    log = PartitionWriter(tmp_path, "__consumer_offsets", 1)
    log.batch(build_batch([SimpleRecord(b"\0\2\0\1g", b"\0\3classic", T0), SimpleRecord(b"\0\x63later", b"", T0)]))
    assert rows(tmp_path, "groups", "partition", "offset", "record") == [(0, 0, "group"), (0, 1, "member"), (0, 2, "unreadable")]


@pytest.mark.parametrize("excess", [0, 1])
def test_group_record_with_too_many_partitions_is_unreadable(tmp_path: Path, excess: int) -> None:
    key = ConsumerGroupTargetAssignmentMemberKey("g", "m")
    value = ConsumerGroupTargetAssignmentMemberValue([AssignedTopic(TOPIC_ID, [1] * (ELEMENTS_MAX - 1 + excess))])
    record = SimpleRecord(encode_prefixed(key, TARGET_MEMBER), encode_prefixed(value, 0), T0)
    PartitionWriter(tmp_path, "__consumer_offsets", 0).batch(build_batch([record], codec=Codec.ZSTD))
    assert rows(tmp_path, "groups", "record", "group_type") == [("unreadable" if excess else "target member", "consumer")]
