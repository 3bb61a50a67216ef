"""The records of streams groups (KIP-1071) in `__consumer_offsets`: key types 17 and 19 to 23, byte for byte as in Kafka 4.3.

Invariants:

* As in all records of this topic, a key begins with its type (int16) and is never flexible. A value begins with its version (int16), which
  is always 0, and is flexible.
* A group has its epoch (17), its topology (23), the epoch of its target assignment (20), and for each member its metadata (19), its target
  assignment (21) and its current assignment (22). Type 18 is not in any release of Kafka.
* Lists in a value are sorted, so that equal state gives equal bytes. Only the lists of a topology keep the order that they had in the
  heartbeat request.

Source: Kafka's group-coordinator message schemas (StreamsGroup*Key, StreamsGroup*Value), StreamsCoordinatorRecordHelpers.
"""

from __future__ import annotations

from ottla.protocol.messages.streams_group import Endpoint, KeyValue, Subtopology, TaskIds
from ottla.protocol.schema import Message, array, int8, int32, int64, string, struct, wire_struct

STREAMS_GROUP_EPOCH = 17
STREAMS_MEMBER_METADATA = 19
STREAMS_TARGET_EPOCH = 20
STREAMS_TARGET_MEMBER = 21
STREAMS_CURRENT_ASSIGNMENT = 22
STREAMS_TOPOLOGY = 23


@wire_struct
class StreamsGroupMetadataKey(Message, versions="17"):
    """The key of the record in `__consumer_offsets` with a streams group's epoch."""

    group: str = string()


@wire_struct
class StreamsGroupMemberMetadataKey(Message, versions="19"):
    """The key of the record in `__consumer_offsets` with a streams group member's metadata."""

    group: str = string()
    member_id: str = string()


@wire_struct
class StreamsGroupTargetAssignmentMetadataKey(Message, versions="20"):
    """The key of the record in `__consumer_offsets` with the epoch of a streams group's target assignment."""

    group: str = string()


@wire_struct
class StreamsGroupTargetAssignmentMemberKey(Message, versions="21"):
    """The key of the record in `__consumer_offsets` with a streams group member's target assignment."""

    group: str = string()
    member_id: str = string()


@wire_struct
class StreamsGroupCurrentMemberAssignmentKey(Message, versions="22"):
    """The key of the record in `__consumer_offsets` with a streams group member's current assignment."""

    group: str = string()
    member_id: str = string()


@wire_struct
class StreamsGroupTopologyKey(Message, versions="23"):
    """The key of the record in `__consumer_offsets` with a streams group's topology."""

    group: str = string()


@wire_struct
class StreamsGroupMetadataValue(Message, versions="0", flexible="0+"):
    """A streams group's epoch, with the metadata hash of the topics and the assignor's settings in that epoch. `validated_topology_epoch`
    is -1 while topics of the topology are missing or have wrong partition counts."""

    epoch: int = int32()
    metadata_hash: int = int64()
    validated_topology_epoch: int = int32(tag=0, default=-1)
    last_assignment_configs: list[KeyValue] | None = array(KeyValue, nullable="0+", tag=1, default=None)


@wire_struct
class StreamsGroupMemberMetadataValue(Message, versions="0", flexible="0+"):
    """The value of the record in `__consumer_offsets` with the metadata of a streams group's member."""

    instance_id: str | None = string(nullable="0+")
    rack_id: str | None = string(nullable="0+")
    client_id: str = string()
    client_host: str = string()
    rebalance_timeout_ms: int = int32(default=-1)
    topology_epoch: int = int32()
    process_id: str = string()
    user_endpoint: Endpoint | None = struct(Endpoint, nullable="0+", default=None)
    client_tags: list[KeyValue] = array(KeyValue)


@wire_struct
class StreamsGroupTargetAssignmentMetadataValue(Message, versions="0", flexible="0+"):
    """The group epoch for which the target assignment was computed, and the time of the computation (wall clock ms; 0: unknown)."""

    assignment_epoch: int = int32()
    assignment_timestamp: int = int64(tag=0, default=0)


@wire_struct
class StreamsGroupTargetAssignmentMemberValue(Message, versions="0", flexible="0+"):
    """The value of the record in `__consumer_offsets` with the target assignment of a streams group's member."""

    active_tasks: list[TaskIds] = array(TaskIds)
    standby_tasks: list[TaskIds] = array(TaskIds)
    warmup_tasks: list[TaskIds] = array(TaskIds)


@wire_struct
class OwnedTaskIds:
    """A member's tasks of one subtopology. `assignment_epochs` has, for each active task, the group epoch in which the member
    got it."""

    subtopology_id: str = string()
    partitions: list[int] = array(int32)
    assignment_epochs: list[int] | None = array(int32, nullable="0+", tag=0, default=None)


@wire_struct
class StreamsGroupCurrentMemberAssignmentValue(Message, versions="0", flexible="0+"):
    """A member's current assignment, and the tasks that the member must revoke before it advances to the next member epoch. `state` is the
    number of Kafka's streams `MemberState`: 1 stable, 2 tasks to revoke, 3 waiting for tasks of other members."""

    member_epoch: int = int32()
    previous_member_epoch: int = int32()
    state: int = int8()
    active_tasks: list[OwnedTaskIds] = array(OwnedTaskIds)
    standby_tasks: list[OwnedTaskIds] = array(OwnedTaskIds)
    warmup_tasks: list[OwnedTaskIds] = array(OwnedTaskIds)
    active_tasks_pending_revocation: list[OwnedTaskIds] = array(OwnedTaskIds)
    standby_tasks_pending_revocation: list[OwnedTaskIds] = array(OwnedTaskIds)
    warmup_tasks_pending_revocation: list[OwnedTaskIds] = array(OwnedTaskIds)


@wire_struct
class StreamsGroupTopologyValue(Message, versions="0", flexible="0+"):
    """The value of the record in `__consumer_offsets` with the topology of a streams group."""

    epoch: int = int32()
    subtopologies: list[Subtopology] = array(Subtopology)


StreamsKey = (
    StreamsGroupMetadataKey
    | StreamsGroupMemberMetadataKey
    | StreamsGroupTargetAssignmentMetadataKey
    | StreamsGroupTargetAssignmentMemberKey
    | StreamsGroupCurrentMemberAssignmentKey
    | StreamsGroupTopologyKey
)
StreamsValue = (
    StreamsGroupMetadataValue
    | StreamsGroupMemberMetadataValue
    | StreamsGroupTargetAssignmentMetadataValue
    | StreamsGroupTargetAssignmentMemberValue
    | StreamsGroupCurrentMemberAssignmentValue
    | StreamsGroupTopologyValue
)

STREAMS_CLASSES: dict[int, tuple[type[StreamsKey], type[StreamsValue]]] = {
    STREAMS_GROUP_EPOCH: (StreamsGroupMetadataKey, StreamsGroupMetadataValue),
    STREAMS_MEMBER_METADATA: (StreamsGroupMemberMetadataKey, StreamsGroupMemberMetadataValue),
    STREAMS_TARGET_EPOCH: (StreamsGroupTargetAssignmentMetadataKey, StreamsGroupTargetAssignmentMetadataValue),
    STREAMS_TARGET_MEMBER: (StreamsGroupTargetAssignmentMemberKey, StreamsGroupTargetAssignmentMemberValue),
    STREAMS_CURRENT_ASSIGNMENT: (StreamsGroupCurrentMemberAssignmentKey, StreamsGroupCurrentMemberAssignmentValue),
    STREAMS_TOPOLOGY: (StreamsGroupTopologyKey, StreamsGroupTopologyValue),
}
