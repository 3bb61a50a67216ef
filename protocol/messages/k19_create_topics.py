"""Create topics.

Versions 2-7; flexible from 5.

Changes by version:
* 4: partitions and replication factor may be -1 for the broker's default (KIP-464).
* 5: the response has the topic's configuration (KIP-525). 6: THROTTLING_QUOTA_EXCEEDED may be returned. 7: `topic_id`.
"""

from __future__ import annotations

from ottla.protocol.schema import Message, array, boolean, int8, int16, int32, string, uuid, wire_struct


@wire_struct
class CreatableReplicaAssignment:
    partition_index: int = int32()
    broker_ids: list[int] = array(int32)


@wire_struct
class CreatableTopicConfig:
    name: str = string()
    value: str | None = string(nullable="0+")


@wire_struct
class CreatableTopic:
    name: str = string()
    num_partitions: int = int32()
    replication_factor: int = int16()
    assignments: list[CreatableReplicaAssignment] = array(CreatableReplicaAssignment)
    configs: list[CreatableTopicConfig] = array(CreatableTopicConfig)


@wire_struct
class CreateTopicsRequest(Message, api_key=19, versions="2-7", flexible="5+"):
    topics: list[CreatableTopic] = array(CreatableTopic)
    timeout_ms: int = int32(default=60000)
    validate_only: bool = boolean()


@wire_struct
class CreatableTopicConfigs:
    name: str = string()
    value: str | None = string(nullable="0+")
    read_only: bool = boolean()
    config_source: int = int8(default=-1)
    is_sensitive: bool = boolean()


@wire_struct
class CreatableTopicResult:
    name: str = string()
    topic_id: bytes = uuid("7+")
    error_code: int = int16()
    error_message: str | None = string(nullable="0+")
    topic_config_error_code: int = int16("5+", tag=0)
    num_partitions: int = int32("5+", default=-1)
    replication_factor: int = int16("5+", default=-1)
    configs: list[CreatableTopicConfigs] | None = array(CreatableTopicConfigs, "5+", nullable="5+")


@wire_struct
class CreateTopicsResponse(Message, api_key=19, versions="2-7", flexible="5+"):
    throttle_time_ms: int = int32()
    topics: list[CreatableTopicResult] = array(CreatableTopicResult)
