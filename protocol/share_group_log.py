"""The records of share groups (KIP-932) in `__consumer_offsets`: key types 10 to 15, byte for byte as in Kafka 4.3.

Invariants:

* As in all records of this topic, a key begins with its type (int16) and is never flexible. A value begins with its version (int16), which
  is always 0, and is flexible.
* A group has its epoch (11), the epoch of its target assignment (12), the state of its share partitions (15), and for each member its
  metadata (10), its target assignment (13) and its current assignment (14).
* Lists in a value are sorted, so that equal state gives equal bytes.

Source: Kafka's group-coordinator message schemas (ShareGroup*Key, ShareGroup*Value), GroupCoordinatorRecordHelpers.
"""

from __future__ import annotations

from ottla.protocol.consumer_group_log import AssignedTopic
from ottla.protocol.schema import Message, array, int8, int32, int64, string, uuid, wire_struct

SHARE_MEMBER_METADATA = 10
SHARE_GROUP_EPOCH = 11
SHARE_TARGET_EPOCH = 12
SHARE_TARGET_MEMBER = 13
SHARE_CURRENT_ASSIGNMENT = 14
SHARE_PARTITIONS = 15


@wire_struct
class ShareGroupMemberMetadataKey(Message, versions="10"):
    """The key of the record in `__consumer_offsets` with a share group member's metadata."""

    group: str = string()
    member_id: str = string()


@wire_struct
class ShareGroupMetadataKey(Message, versions="11"):
    """The key of the record in `__consumer_offsets` with a share group's epoch."""

    group: str = string()


@wire_struct
class ShareGroupTargetAssignmentMetadataKey(Message, versions="12"):
    """The key of the record in `__consumer_offsets` with the epoch of a share group's target assignment."""

    group: str = string()


@wire_struct
class ShareGroupTargetAssignmentMemberKey(Message, versions="13"):
    """The key of the record in `__consumer_offsets` with a share group member's target assignment."""

    group: str = string()
    member_id: str = string()


@wire_struct
class ShareGroupCurrentMemberAssignmentKey(Message, versions="14"):
    """The key of the record in `__consumer_offsets` with a share group member's current assignment."""

    group: str = string()
    member_id: str = string()


@wire_struct
class ShareGroupStatePartitionMetadataKey(Message, versions="15"):
    """The key of the record in `__consumer_offsets` with the state of a share group's share partitions."""

    group: str = string()


@wire_struct
class ShareGroupMemberMetadataValue(Message, versions="0", flexible="0+"):
    """The value of the record in `__consumer_offsets` with a share group member's metadata and subscription."""

    rack_id: str | None = string(nullable="0+")
    client_id: str = string()
    client_host: str = string()
    subscribed_topic_names: list[str] = array(string)


@wire_struct
class ShareGroupMetadataValue(Message, versions="0", flexible="0+"):
    """A group's epoch, and the metadata hash of its subscribed topics in that epoch."""

    epoch: int = int32()
    metadata_hash: int = int64()


@wire_struct
class ShareGroupTargetAssignmentMetadataValue(Message, versions="0", flexible="0+"):
    """The group epoch for which the target assignment was computed, and the time of the computation (wall clock ms; 0: unknown)."""

    assignment_epoch: int = int32()
    assignment_timestamp: int = int64(tag=0, default=0)


@wire_struct
class ShareGroupTargetAssignmentMemberValue(Message, versions="0", flexible="0+"):
    """The value of the record in `__consumer_offsets` with a share group member's target assignment."""

    topic_partitions: list[AssignedTopic] = array(AssignedTopic)


@wire_struct
class ShareGroupCurrentMemberAssignmentValue(Message, versions="0", flexible="0+"):
    """The value of the record in `__consumer_offsets` with a share group member's current assignment."""

    member_epoch: int = int32()
    previous_member_epoch: int = int32()
    state: int = int8()
    assigned_partitions: list[AssignedTopic] = array(AssignedTopic)


@wire_struct
class TopicPartitionsInfo:
    topic_id: bytes = uuid()
    topic_name: str = string()
    partitions: list[int] = array(int32)


@wire_struct
class DeletingTopic:
    topic_id: bytes = uuid()
    topic_name: str = string()


@wire_struct
class ShareGroupStatePartitionMetadataValue(Message, versions="0", flexible="0+"):
    """A group's share partitions by their state at the share coordinator: being initialized, initialized, being deleted."""

    initializing_topics: list[TopicPartitionsInfo] = array(TopicPartitionsInfo)
    initialized_topics: list[TopicPartitionsInfo] = array(TopicPartitionsInfo)
    deleting_topics: list[DeletingTopic] = array(DeletingTopic)


ShareKey = (
    ShareGroupMemberMetadataKey
    | ShareGroupMetadataKey
    | ShareGroupTargetAssignmentMetadataKey
    | ShareGroupTargetAssignmentMemberKey
    | ShareGroupCurrentMemberAssignmentKey
    | ShareGroupStatePartitionMetadataKey
)
ShareValue = (
    ShareGroupMemberMetadataValue
    | ShareGroupMetadataValue
    | ShareGroupTargetAssignmentMetadataValue
    | ShareGroupTargetAssignmentMemberValue
    | ShareGroupCurrentMemberAssignmentValue
    | ShareGroupStatePartitionMetadataValue
)

SHARE_CLASSES: dict[int, tuple[type[ShareKey], type[ShareValue]]] = {
    SHARE_MEMBER_METADATA: (ShareGroupMemberMetadataKey, ShareGroupMemberMetadataValue),
    SHARE_GROUP_EPOCH: (ShareGroupMetadataKey, ShareGroupMetadataValue),
    SHARE_TARGET_EPOCH: (ShareGroupTargetAssignmentMetadataKey, ShareGroupTargetAssignmentMetadataValue),
    SHARE_TARGET_MEMBER: (ShareGroupTargetAssignmentMemberKey, ShareGroupTargetAssignmentMemberValue),
    SHARE_CURRENT_ASSIGNMENT: (ShareGroupCurrentMemberAssignmentKey, ShareGroupCurrentMemberAssignmentValue),
    SHARE_PARTITIONS: (ShareGroupStatePartitionMetadataKey, ShareGroupStatePartitionMetadataValue),
}
