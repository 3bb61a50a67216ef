"""The struct with a member's assignment, which the responses to ConsumerGroupDescribe and ShareGroupDescribe have in common."""

from __future__ import annotations

from ottla.protocol.schema import array, int32, string, uuid, wire_struct


@wire_struct
class TopicPartitions:
    topic_id: bytes = uuid()
    topic_name: str = string()
    partitions: list[int] = array(int32)


@wire_struct
class Assignment:
    topic_partitions: list[TopicPartitions] = array(TopicPartitions)
