"""The records of `__share_group_state` as Kafka declares them. The share coordinator writes them, and `ottla audit` reads them from the
log.

A key is a type (int16) and the share partition, never flexible; a value is a version (int16, always 0) and a flexible body. A snapshot
record with a null value is a tombstone. Source: KAFKA share-coordinator message schemas (ShareSnapshotKey, ShareSnapshotValue,
ShareUpdateKey, ShareUpdateValue).
"""

from __future__ import annotations

from ottla.protocol.schema import Message, array, int8, int16, int32, int64, string, uuid, wire_struct

SHARE_SNAPSHOT = 0
SHARE_UPDATE = 1


@wire_struct
class ShareSnapshotKey(Message, versions="0"):
    """The key of the record in `__share_group_state` with the whole state of a share partition."""

    group_id: str = string()
    topic_id: bytes = uuid()
    partition: int = int32()


@wire_struct
class ShareUpdateKey(Message, versions="1"):
    """The key of the record in `__share_group_state` with changes of a share partition's state since its last snapshot record."""

    group_id: str = string()
    topic_id: bytes = uuid()
    partition: int = int32()


@wire_struct
class LoggedBatch:
    """The delivery state of a range of offsets, both ends included: 0 available, 2 acknowledged, 4 archived."""

    first_offset: int = int64()
    last_offset: int = int64()
    delivery_state: int = int8()
    delivery_count: int = int16()


@wire_struct
class ShareSnapshotValue(Message, versions="0", flexible="0+"):
    """The whole state of a share partition. Timestamps are wall-clock milliseconds."""

    snapshot_epoch: int = int32()
    state_epoch: int = int32()
    leader_epoch: int = int32()
    start_offset: int = int64()
    delivery_complete_count: int = int32(tag=0, default=-1)
    create_timestamp: int = int64()
    write_timestamp: int = int64()
    state_batches: list[LoggedBatch] = array(LoggedBatch)


@wire_struct
class ShareUpdateValue(Message, versions="0", flexible="0+"):
    """A change of a share partition's state since the snapshot with the same epoch."""

    snapshot_epoch: int = int32()
    leader_epoch: int = int32()
    start_offset: int = int64()
    delivery_complete_count: int = int32(tag=0, default=-1)
    state_batches: list[LoggedBatch] = array(LoggedBatch)
