"""Find the offset for a timestamp, or a special offset: negative timestamps select it (-1 latest, -2 earliest, …).

Versions 1-11; flexible from 6.

Changes by version:
* 2: `isolation_level`; `throttle_time_ms`. 4: leader epochs in requests and responses (KIP-320). 5: OFFSET_NOT_AVAILABLE may be returned.
* 7: timestamp -3, the offset of the largest timestamp (KIP-734). 8: -4, the earliest local offset (KIP-405).
* 9: -5, the last tiered offset (KIP-1005). 10: `timeout_ms` for remote lookups (KIP-1075). 11: -6, the earliest offset that is not
  tiered yet (KIP-1023).
"""

from __future__ import annotations

from ottla.protocol.schema import Message, array, int8, int16, int32, int64, string, wire_struct


@wire_struct
class ListOffsetsPartition:
    partition_index: int = int32()
    current_leader_epoch: int = int32("4+", default=-1)
    timestamp: int = int64()


@wire_struct
class ListOffsetsTopic:
    name: str = string()
    partitions: list[ListOffsetsPartition] = array(ListOffsetsPartition)


@wire_struct
class ListOffsetsRequest(Message, api_key=2, versions="1-11", flexible="6+"):
    replica_id: int = int32()
    isolation_level: int = int8("2+")
    topics: list[ListOffsetsTopic] = array(ListOffsetsTopic)
    timeout_ms: int = int32("10+")


@wire_struct
class ListOffsetsPartitionResponse:
    partition_index: int = int32()
    error_code: int = int16()
    timestamp: int = int64(default=-1)
    offset: int = int64(default=-1)
    leader_epoch: int = int32("4+", default=-1)


@wire_struct
class ListOffsetsTopicResponse:
    name: str = string()
    partitions: list[ListOffsetsPartitionResponse] = array(ListOffsetsPartitionResponse)


@wire_struct
class ListOffsetsResponse(Message, api_key=2, versions="1-11", flexible="6+"):
    throttle_time_ms: int = int32("2+")
    topics: list[ListOffsetsTopicResponse] = array(ListOffsetsTopicResponse)
