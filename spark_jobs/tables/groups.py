"""Reads the levels (kinds of rows) `groups` and `share_states`: the records of consumer, share and streams groups, and the delivery state
of share groups.

Invariants:
- A record of a known type and version that cannot be decoded gives a row `unreadable`, because a broker fails when it loads the record. So
  does a record with more than ELEMENTS_MAX array elements. A record of an unknown type or later version, which a newer broker may have
  written, is left out.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Any, Final, NamedTuple

import pyarrow as pa

from ottla.protocol import consumer_group_log as consumer
from ottla.protocol import share_group_log as share
from ottla.protocol import streams_group_log as streams
from ottla.protocol.errors import ProtocolError
from ottla.protocol.records.batch import BatchHeader
from ottla.protocol.records.record import Record
from ottla.protocol.schema import Message, decode, read_prefix
from ottla.protocol.share_log import (
    SHARE_SNAPSHOT,
    SHARE_UPDATE,
    LoggedBatch,
    ShareSnapshotKey,
    ShareSnapshotValue,
    ShareUpdateKey,
    ShareUpdateValue,
)
from ottla.protocol.uuids import encode_uuid
from ottla.spark_jobs.columns import GROUP_COLUMNS, SHARE_STATE_COLUMNS
from ottla.spark_jobs.segment_reader import Part
from ottla.spark_jobs.tables.control import ELEMENTS_MAX, Row, decoded
from ottla.spark_jobs.tables.filters import Filters


def group_rows(part: Part, schema: pa.Schema, filters: Filters) -> Iterator[pa.RecordBatch]:
    """Yield one row per record of `__consumer_offsets` that belongs to a consumer, share or streams group."""
    yield from decoded(part, schema, filters, tuple(GROUP_COLUMNS), _group_row)


def share_state_rows(part: Part, schema: pa.Schema, filters: Filters) -> Iterator[pa.RecordBatch]:
    """Yield one row per state batch of `__share_group_state`, or one for a record without state batches."""
    yield from decoded(part, schema, filters, tuple(SHARE_STATE_COLUMNS), _share_state_rows)


class _Kind(NamedTuple):
    """How a type of group record becomes a row. `record`, `group_type`: values of these columns. `key`, `value`: the record's message
    classes. `read` takes the value and returns (epoch, tasks, standby tasks, warm-up tasks), with None for each part that this type does
    not have."""

    record: str
    group_type: str
    key: type[Message]
    value: type[Message]
    read: Callable[[Any], Row]


_NOTHING: Final = (None,) * 4


def _epoch(value: Any) -> Row:
    return value.epoch, None, None, None


def _target_epoch(value: Any) -> Row:
    return value.assignment_epoch, None, None, None


def _member(_value: Any) -> Row:
    return _NOTHING


def _of_topics(*lists: Any) -> list[str]:
    return [f"{encode_uuid(each.topic_id)}-{index}" for topics in lists for each in topics for index in each.partitions]


def _of_subtopologies(*lists: Any) -> list[str]:
    return [f"{each.subtopology_id}-{index}" for tasks in lists for each in tasks for index in each.partitions]


def _target_topics(value: Any) -> Row:
    return None, _of_topics(value.topic_partitions), [], []


def _target_tasks(value: Any) -> Row:
    return None, *(_of_subtopologies(each) for each in (value.active_tasks, value.standby_tasks, value.warmup_tasks))


def _consumer_assignment(value: Any) -> Row:
    return value.member_epoch, _of_topics(value.assigned_partitions, value.partitions_pending_revocation), [], []


def _share_assignment(value: Any) -> Row:
    return value.member_epoch, _of_topics(value.assigned_partitions), [], []


def _streams_assignment(value: Any) -> Row:
    return (
        value.member_epoch,
        _of_subtopologies(value.active_tasks, value.active_tasks_pending_revocation),
        _of_subtopologies(value.standby_tasks, value.standby_tasks_pending_revocation),
        _of_subtopologies(value.warmup_tasks, value.warmup_tasks_pending_revocation),
    )


_GROUP_KINDS: Final = {
    kind: _Kind(record, group_type, classes[kind][0], classes[kind][1], read)
    for group_type, classes, kinds in (
        (
            "consumer",
            consumer.CONSUMER_CLASSES,
            {
                consumer.GROUP_EPOCH: ("group", _epoch),
                consumer.MEMBER_METADATA: ("member", _member),
                consumer.TARGET_EPOCH: ("target", _target_epoch),
                consumer.TARGET_MEMBER: ("target member", _target_topics),
                consumer.CURRENT_ASSIGNMENT: ("current", _consumer_assignment),
            },
        ),
        (
            "share",
            share.SHARE_CLASSES,
            {
                share.SHARE_GROUP_EPOCH: ("group", _epoch),
                share.SHARE_MEMBER_METADATA: ("member", _member),
                share.SHARE_TARGET_EPOCH: ("target", _target_epoch),
                share.SHARE_TARGET_MEMBER: ("target member", _target_topics),
                share.SHARE_CURRENT_ASSIGNMENT: ("current", _share_assignment),
            },
        ),
        (
            "streams",
            streams.STREAMS_CLASSES,
            {
                streams.STREAMS_GROUP_EPOCH: ("group", _epoch),
                streams.STREAMS_MEMBER_METADATA: ("member", _member),
                streams.STREAMS_TARGET_EPOCH: ("target", _target_epoch),
                streams.STREAMS_TARGET_MEMBER: ("target member", _target_tasks),
                streams.STREAMS_CURRENT_ASSIGNMENT: ("current", _streams_assignment),
            },
        ),
    )
    for kind, (record, read) in kinds.items()
}


def _group_row(position: int, header: BatchHeader, record: Record) -> Sequence[Row]:
    number, body = read_prefix(record.key or b"")
    kind = _GROUP_KINDS.get(number)
    if kind is None:
        return ()
    where = (position, header.base_offset, record.offset, record.timestamp)
    try:
        key: Any = decode(kind.key, body, number)
        columns = _NOTHING
        if record.value is not None:
            version, body = read_prefix(record.value)
            if version > 0:
                return ()
            columns = kind.read(decode(kind.value, body, version, ELEMENTS_MAX))
    except ProtocolError:
        return [(*where, "unreadable", kind.group_type, *[None] * 7)]
    return [(*where, kind.record, kind.group_type, key.group, getattr(key, "member_id", None), record.value is None, *columns)]


_UNREADABLE: Final = ("unreadable", *[None] * 15)


def _share_state_rows(position: int, header: BatchHeader, record: Record) -> Sequence[Row]:
    kind, body = read_prefix(record.key or b"")
    if kind not in {SHARE_SNAPSHOT, SHARE_UPDATE}:
        return ()
    where = (position, header.base_offset, record.offset, record.timestamp)
    try:
        found = decode(ShareSnapshotKey, body, kind) if kind == SHARE_SNAPSHOT else decode(ShareUpdateKey, body, kind)
        key = (found.group_id, encode_uuid(found.topic_id), found.partition)
        if record.value is None:
            return [(*where, *(_UNREADABLE if kind == SHARE_UPDATE else ("tombstone", *key, *[None] * 12)))]
        version, body = read_prefix(record.value)
        if version > 0:
            return ()
        return [(*where, *row) for row in _state_rows(key, kind, body, version)]
    except ProtocolError:
        return [(*where, *_UNREADABLE)]


def _state_rows(key: Row, kind: int, body: Any, version: int) -> Iterator[Row]:
    if kind == SHARE_SNAPSHOT:
        whole = decode(ShareSnapshotValue, body, version, ELEMENTS_MAX)
        times: Row = (whole.create_timestamp, whole.write_timestamp)
        epochs: Row = ("snapshot", *key, whole.snapshot_epoch, whole.state_epoch, whole.leader_epoch)
        state: Row = (whole.start_offset, whole.delivery_complete_count, *times)
        batches: list[LoggedBatch] = whole.state_batches
    else:
        change = decode(ShareUpdateValue, body, version, ELEMENTS_MAX)
        epochs = ("update", *key, change.snapshot_epoch, None, change.leader_epoch)
        state = (change.start_offset, change.delivery_complete_count, None, None)
        batches = change.state_batches
    for number, each in enumerate(batches):
        yield (*epochs, *state, number, each.first_offset, each.last_offset, each.delivery_state, each.delivery_count)
    if not batches:
        yield (*epochs, *state, *[None] * 5)
