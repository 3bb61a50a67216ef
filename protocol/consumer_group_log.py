"""The records of consumer groups (KIP-848) in `__consumer_offsets`: key types 3 to 8 and 16, byte for byte as in Kafka 4.3.

Invariants:

* As in all records of this topic, a key begins with its type (int16) and is never flexible. A value begins with its version (int16), which
  is always 0, and is flexible.
* A group has many records: its epoch (3), the epoch of its target assignment (6), for each member its metadata (5), its target assignment
  (7) and its current assignment (8), and the topics of each regular expression (16). Kafka 4.0 wrote type 4 in place of the hash in type
  3; it is read, never written, and deleted with its group.
* Lists in a value are sorted, so that equal state gives equal bytes.

Source: Kafka's group-coordinator message schemas (ConsumerGroup*Key, ConsumerGroup*Value), GroupCoordinatorRecordHelpers.
"""

from __future__ import annotations

from ottla.protocol.schema import Buffer, Message, array, bytes_, int8, int32, int64, string, struct, uuid, wire_struct

GROUP_EPOCH = 3
PARTITION_METADATA = 4
MEMBER_METADATA = 5
TARGET_EPOCH = 6
TARGET_MEMBER = 7
CURRENT_ASSIGNMENT = 8
REGULAR_EXPRESSION = 16


@wire_struct
class ConsumerGroupMetadataKey(Message, versions="3"):
    """The key of the record in `__consumer_offsets` with a consumer group's epoch."""

    group: str = string()


@wire_struct
class ConsumerGroupPartitionMetadataKey(Message, versions="4"):
    """The key of the record in `__consumer_offsets` with a consumer group's topic metadata (Kafka 4.0)."""

    group: str = string()


@wire_struct
class ConsumerGroupMemberMetadataKey(Message, versions="5"):
    """The key of the record in `__consumer_offsets` with a consumer group member's metadata."""

    group: str = string()
    member_id: str = string()


@wire_struct
class ConsumerGroupTargetAssignmentMetadataKey(Message, versions="6"):
    """The key of the record in `__consumer_offsets` with the epoch of a consumer group's target assignment."""

    group: str = string()


@wire_struct
class ConsumerGroupTargetAssignmentMemberKey(Message, versions="7"):
    """The key of the record in `__consumer_offsets` with a consumer group member's target assignment."""

    group: str = string()
    member_id: str = string()


@wire_struct
class ConsumerGroupCurrentMemberAssignmentKey(Message, versions="8"):
    """The key of the record in `__consumer_offsets` with a consumer group member's current assignment."""

    group: str = string()
    member_id: str = string()


@wire_struct
class ConsumerGroupRegularExpressionKey(Message, versions="16"):
    """The key of the record in `__consumer_offsets` with the topics that match a regular expression in a group's subscriptions."""

    group: str = string()
    regular_expression: str = string()


@wire_struct
class ConsumerGroupMetadataValue(Message, versions="0", flexible="0+"):
    """A group's epoch, and the metadata hash of its subscribed topics in that epoch (0: no topics, or written by Kafka 4.0)."""

    epoch: int = int32()
    metadata_hash: int = int64(tag=0, default=0)


@wire_struct
class PartitionRacks:
    partition: int = int32()
    racks: list[str] = array(string)


@wire_struct
class TopicMetadata:
    topic_id: bytes = uuid()
    topic_name: str = string()
    num_partitions: int = int32()
    partition_metadata: list[PartitionRacks] = array(PartitionRacks)


@wire_struct
class ConsumerGroupPartitionMetadataValue(Message, versions="0", flexible="0+"):
    """A group's topic metadata, written by Kafka 4.0. The record is decoded, so that a log of Kafka 4.0 can be read, but its content is not
    used."""

    topics: list[TopicMetadata] = array(TopicMetadata)


@wire_struct
class ClassicProtocol:
    name: str = string()
    metadata: Buffer = bytes_()


@wire_struct
class ClassicMemberMetadata:
    """The session timeout (ms) and the protocols from the JoinGroup request of a member that uses the classic protocol in a group of the
    consumer protocol."""

    session_timeout_ms: int = int32()
    supported_protocols: list[ClassicProtocol] = array(ClassicProtocol)


@wire_struct
class ConsumerGroupMemberMetadataValue(Message, versions="0", flexible="0+"):
    """A member's metadata and subscription.

    A null `classic_member_metadata` is written as null: if the field is missing, Kafka loads the member as a classic member without
    protocols.
    """

    instance_id: str | None = string(nullable="0+", default=None)
    rack_id: str | None = string(nullable="0+", default=None)
    client_id: str = string()
    client_host: str = string()
    subscribed_topic_names: list[str] = array(string)
    subscribed_topic_regex: str | None = string(nullable="0+", default=None)
    rebalance_timeout_ms: int = int32(default=-1)
    server_assignor: str | None = string(nullable="0+", default=None)
    classic_member_metadata: ClassicMemberMetadata | None = struct(
        ClassicMemberMetadata, nullable="0+", default=ClassicMemberMetadata, tag=0
    )


@wire_struct
class ConsumerGroupTargetAssignmentMetadataValue(Message, versions="0", flexible="0+"):
    """The group epoch for which the target assignment was computed, and the time of the computation (wall clock ms; 0: unknown)."""

    assignment_epoch: int = int32()
    assignment_timestamp: int = int64(tag=0, default=0)


@wire_struct
class AssignedTopic:
    topic_id: bytes = uuid()
    partitions: list[int] = array(int32)


@wire_struct
class ConsumerGroupTargetAssignmentMemberValue(Message, versions="0", flexible="0+"):
    """The value of the record in `__consumer_offsets` with a consumer group member's target assignment."""

    topic_partitions: list[AssignedTopic] = array(AssignedTopic)


@wire_struct
class OwnedTopic:
    """A member's partitions of a topic. `assignment_epochs` has, for each partition, the group epoch in which the member got it; the list
    is empty if Kafka before 4.3 wrote the record."""

    topic_id: bytes = uuid()
    partitions: list[int] = array(int32)
    assignment_epochs: list[int] | None = array(int32, nullable="0+", tag=0)


@wire_struct
class ConsumerGroupCurrentMemberAssignmentValue(Message, versions="0", flexible="0+"):
    """A member's current assignment, and the partitions that the member must revoke before it advances to the next member epoch. `state` is
    the number of Kafka's `MemberState`: 0 stable, 1 partitions to revoke, 2 waiting for partitions of other members."""

    member_epoch: int = int32()
    previous_member_epoch: int = int32()
    state: int = int8()
    assigned_partitions: list[OwnedTopic] = array(OwnedTopic)
    partitions_pending_revocation: list[OwnedTopic] = array(OwnedTopic)


@wire_struct
class ConsumerGroupRegularExpressionValue(Message, versions="0", flexible="0+"):
    """The topics that matched a regular expression of a subscription, the `version` of the metadata image in which they were looked up,
    and the time of the lookup (wall clock ms)."""

    topics: list[str] = array(string)
    version: int = int64()
    timestamp: int = int64()


ConsumerKey = (
    ConsumerGroupMetadataKey
    | ConsumerGroupPartitionMetadataKey
    | ConsumerGroupMemberMetadataKey
    | ConsumerGroupTargetAssignmentMetadataKey
    | ConsumerGroupTargetAssignmentMemberKey
    | ConsumerGroupCurrentMemberAssignmentKey
    | ConsumerGroupRegularExpressionKey
)
ConsumerValue = (
    ConsumerGroupMetadataValue
    | ConsumerGroupPartitionMetadataValue
    | ConsumerGroupMemberMetadataValue
    | ConsumerGroupTargetAssignmentMetadataValue
    | ConsumerGroupTargetAssignmentMemberValue
    | ConsumerGroupCurrentMemberAssignmentValue
    | ConsumerGroupRegularExpressionValue
)

CONSUMER_CLASSES: dict[int, tuple[type[ConsumerKey], type[ConsumerValue]]] = {
    GROUP_EPOCH: (ConsumerGroupMetadataKey, ConsumerGroupMetadataValue),
    PARTITION_METADATA: (ConsumerGroupPartitionMetadataKey, ConsumerGroupPartitionMetadataValue),
    MEMBER_METADATA: (ConsumerGroupMemberMetadataKey, ConsumerGroupMemberMetadataValue),
    TARGET_EPOCH: (ConsumerGroupTargetAssignmentMetadataKey, ConsumerGroupTargetAssignmentMetadataValue),
    TARGET_MEMBER: (ConsumerGroupTargetAssignmentMemberKey, ConsumerGroupTargetAssignmentMemberValue),
    CURRENT_ASSIGNMENT: (ConsumerGroupCurrentMemberAssignmentKey, ConsumerGroupCurrentMemberAssignmentValue),
    REGULAR_EXPRESSION: (ConsumerGroupRegularExpressionKey, ConsumerGroupRegularExpressionValue),
}
