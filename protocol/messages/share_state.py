"""The structs that requests to the share coordinator have in common (keys 83-86).

Kafka's schemas name the result of a topic differently in each response, for example WriteStateResult.
"""

from __future__ import annotations

from ottla.protocol.schema import array, int8, int16, int32, int64, string, uuid, wire_struct


@wire_struct
class StateBatch:
    first_offset: int = int64()
    last_offset: int = int64()
    delivery_state: int = int8()
    delivery_count: int = int16()


@wire_struct
class PartitionResult:
    partition: int = int32()
    error_code: int = int16()
    error_message: str | None = string(nullable="0+", default=None)


@wire_struct
class StateResult:
    """The results for a topic's partitions in the responses to InitializeShareGroupState, WriteShareGroupState and
    DeleteShareGroupState."""

    topic_id: bytes = uuid()
    partitions: list[PartitionResult] = array(PartitionResult)
