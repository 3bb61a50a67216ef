"""The one request by which a member joins, stays in and leaves a consumer group of the new protocol (KIP-848).

Versions 0-1, all flexible. Null in a request means: not changed since the last heartbeat.

Changes by version:
* 1: `subscribed_topic_regex`; the client generates the member id (KIP-1082).
"""

from __future__ import annotations

from ottla.protocol.schema import Message, array, int16, int32, string, struct, uuid, wire_struct


@wire_struct
class TopicPartitions:
    topic_id: bytes = uuid()
    partitions: list[int] = array(int32)


@wire_struct
class ConsumerGroupHeartbeatRequest(Message, api_key=68, versions="0-1", flexible="0+"):
    group_id: str = string()
    member_id: str = string()
    member_epoch: int = int32()
    instance_id: str | None = string(nullable="0+", default=None)
    rack_id: str | None = string(nullable="0+", default=None)
    rebalance_timeout_ms: int = int32(default=-1)
    subscribed_topic_names: list[str] | None = array(string, nullable="0+", default=None)
    subscribed_topic_regex: str | None = string("1+", nullable="1+", default=None)
    server_assignor: str | None = string(nullable="0+", default=None)
    topic_partitions: list[TopicPartitions] | None = array(TopicPartitions, nullable="0+", default=None)


@wire_struct
class Assignment:
    topic_partitions: list[TopicPartitions] = array(TopicPartitions)


@wire_struct
class ConsumerGroupHeartbeatResponse(Message, api_key=68, versions="0-1", flexible="0+"):
    throttle_time_ms: int = int32()
    error_code: int = int16()
    error_message: str | None = string(nullable="0+", default=None)
    member_id: str | None = string(nullable="0+", default=None)
    member_epoch: int = int32()
    heartbeat_interval_ms: int = int32()
    assignment: Assignment | None = struct(Assignment, nullable="0+")
