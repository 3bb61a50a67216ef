"""A partition leader asks the controller to change the partition's in-sync replicas (KIP-497).

Versions 2-3, all flexible.

Changes by version:
* 3: `new_isr_with_epochs` instead of `new_isr` (KIP-903).
"""

from __future__ import annotations

from ottla.protocol.schema import Message, array, int8, int16, int32, int64, uuid, wire_struct


@wire_struct
class BrokerState:
    broker_id: int = int32()
    broker_epoch: int = int64(default=-1)


@wire_struct
class PartitionData:
    partition_index: int = int32()
    leader_epoch: int = int32()
    new_isr: list[int] = array(int32, "2")
    new_isr_with_epochs: list[BrokerState] = array(BrokerState, "3+")
    leader_recovery_state: int = int8()
    partition_epoch: int = int32()


@wire_struct
class TopicData:
    topic_id: bytes = uuid()
    partitions: list[PartitionData] = array(PartitionData)


@wire_struct
class AlterPartitionRequest(Message, api_key=56, versions="2-3", flexible="0+"):
    broker_id: int = int32()
    broker_epoch: int = int64(default=-1)
    topics: list[TopicData] = array(TopicData)


@wire_struct
class PartitionResult:
    partition_index: int = int32()
    error_code: int = int16()
    leader_id: int = int32()
    leader_epoch: int = int32()
    isr: list[int] = array(int32)
    leader_recovery_state: int = int8()
    partition_epoch: int = int32()


@wire_struct
class TopicResult:
    topic_id: bytes = uuid()
    partitions: list[PartitionResult] = array(PartitionResult)


@wire_struct
class AlterPartitionResponse(Message, api_key=56, versions="2-3", flexible="0+"):
    throttle_time_ms: int = int32()
    error_code: int = int16()
    topics: list[TopicResult] = array(TopicResult)
