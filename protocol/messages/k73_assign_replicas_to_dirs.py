"""A broker reports to the controller the log directory of each of its replicas (KIP-858).

Version 0, flexible.
"""

from __future__ import annotations

from ottla.protocol.schema import Message, array, int16, int32, int64, uuid, wire_struct


@wire_struct
class PartitionData:
    partition_index: int = int32()


@wire_struct
class TopicData:
    topic_id: bytes = uuid()
    partitions: list[PartitionData] = array(PartitionData)


@wire_struct
class DirectoryData:
    id: bytes = uuid()
    topics: list[TopicData] = array(TopicData)


@wire_struct
class AssignReplicasToDirsRequest(Message, api_key=73, versions="0", flexible="0+"):
    broker_id: int = int32()
    broker_epoch: int = int64(default=-1)
    directories: list[DirectoryData] = array(DirectoryData)


@wire_struct
class PartitionResult:
    partition_index: int = int32()
    error_code: int = int16()


@wire_struct
class TopicResult:
    topic_id: bytes = uuid()
    partitions: list[PartitionResult] = array(PartitionResult)


@wire_struct
class DirectoryResult:
    id: bytes = uuid()
    topics: list[TopicResult] = array(TopicResult)


@wire_struct
class AssignReplicasToDirsResponse(Message, api_key=73, versions="0", flexible="0+"):
    throttle_time_ms: int = int32()
    error_code: int = int16()
    directories: list[DirectoryResult] = array(DirectoryResult)
