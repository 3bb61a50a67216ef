"""The one request by which a member joins, stays in and leaves a streams group (KIP-1071).

Versions 0-1, flexible. Version 1 (Kafka 4.4): the coordinator may ask for the topology's description (KIP-1331), and the lag has 64 bits.
Null in a request means: not changed since the last heartbeat. The client generates the member id.
"""

from __future__ import annotations

from ottla.protocol.messages.streams_group import Endpoint, KeyValue, Subtopology, TaskIds, TaskOffset
from ottla.protocol.schema import Message, array, boolean, int8, int16, int32, int64, string, struct, wire_struct


@wire_struct
class Topology:
    epoch: int = int32()
    subtopologies: list[Subtopology] = array(Subtopology)


@wire_struct
class StreamsGroupHeartbeatRequest(Message, api_key=88, versions="0-1", flexible="0+"):
    group_id: str = string()
    member_id: str = string()
    member_epoch: int = int32()
    endpoint_information_epoch: int = int32()
    instance_id: str | None = string(nullable="0+", default=None)
    rack_id: str | None = string(nullable="0+", default=None)
    rebalance_timeout_ms: int = int32(default=-1)
    topology: Topology | None = struct(Topology, nullable="0+", default=None)
    active_tasks: list[TaskIds] | None = array(TaskIds, nullable="0+", default=None)
    standby_tasks: list[TaskIds] | None = array(TaskIds, nullable="0+", default=None)
    warmup_tasks: list[TaskIds] | None = array(TaskIds, nullable="0+", default=None)
    process_id: str | None = string(nullable="0+", default=None)
    user_endpoint: Endpoint | None = struct(Endpoint, nullable="0+", default=None)
    client_tags: list[KeyValue] | None = array(KeyValue, nullable="0+", default=None)
    task_offsets: list[TaskOffset] | None = array(TaskOffset, nullable="0+", default=None)
    task_end_offsets: list[TaskOffset] | None = array(TaskOffset, nullable="0+", default=None)
    shutdown_application: bool = boolean()


@wire_struct
class Status:
    status_code: int = int8()
    status_detail: str = string()


@wire_struct
class TopicPartition:
    topic: str = string()
    partitions: list[int] = array(int32)


@wire_struct
class EndpointToPartitions:
    user_endpoint: Endpoint = struct(Endpoint)
    active_partitions: list[TopicPartition] = array(TopicPartition)
    standby_partitions: list[TopicPartition] = array(TopicPartition)


@wire_struct
class StreamsGroupHeartbeatResponse(Message, api_key=88, versions="0-1", flexible="0+"):
    throttle_time_ms: int = int32()
    error_code: int = int16()
    error_message: str | None = string(nullable="0+", default=None)
    member_id: str = string()
    member_epoch: int = int32()
    heartbeat_interval_ms: int = int32()
    acceptable_recovery_lag_legacy: int = int32("0")
    task_offset_interval_ms: int = int32()
    acceptable_recovery_lag: int = int64("1+", default=-1)
    status: list[Status] | None = array(Status, nullable="0+")
    active_tasks: list[TaskIds] | None = array(TaskIds, nullable="0+", default=None)
    standby_tasks: list[TaskIds] | None = array(TaskIds, nullable="0+", default=None)
    warmup_tasks: list[TaskIds] | None = array(TaskIds, nullable="0+", default=None)
    topology_description_required: bool = boolean("1+")
    endpoint_information_epoch: int = int32()
    partitions_by_user_endpoint: list[EndpointToPartitions] | None = array(EndpointToPartitions, nullable="0+", default=None)
