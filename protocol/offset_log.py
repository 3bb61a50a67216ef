"""Kafka's format of committed offsets in `__consumer_offsets`. The group coordinator writes them, and `ottla audit` reads them from the
log.

A key is a type (int16; 0 or 1 for an offset) and the fields of that type, never flexible. A value is a version (int16) and the body of that
version; a null value is a tombstone. Source: KAFKA group-coordinator message schemas (OffsetCommitKey, OffsetCommitValue).
"""

from __future__ import annotations

from ottla.protocol.schema import Message, int32, int64, string, uuid, wire_struct

OFFSET_COMMIT_V0 = 0
OFFSET_COMMIT = 1
NO_EXPIRY = -1


@wire_struct
class OffsetCommitKey(Message, versions="0-1"):
    """The key of a committed offset: group, topic and partition."""

    group: str = string()
    topic: str = string()
    partition: int = int32()


@wire_struct
class OffsetCommitValue(Message, versions="0-4", flexible="4+"):
    """A committed offset, which is the next offset to read. Timestamps are wall-clock milliseconds."""

    offset: int = int64()
    leader_epoch: int = int32("3+", default=-1)
    metadata: str = string()
    commit_timestamp: int = int64()
    expire_timestamp: int = int64("1", default=NO_EXPIRY)
    topic_id: bytes = uuid("4+", tag=0)
