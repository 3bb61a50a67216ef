"""What the members of a classic consumer group are assigned: the bytes that Kafka's consumers agree on, opaque to brokers.

Source: KAFKA ConsumerProtocolAssignment (versions 0 to 3 are equal on the wire).
"""

from __future__ import annotations

from dataclasses import dataclass

from protocol.errors import ProtocolError
from protocol.schema import Buffer, Message, array, bytes_, decode, int32, read_prefix, string

NEWEST = 3


@dataclass(slots=True)
class TopicPartitions:
    topic: str = string()
    partitions: list[int] = array(int32)


@dataclass(slots=True)
class ConsumerProtocolAssignment(Message, versions="0-3"):
    """The partitions of one member."""

    assigned_partitions: list[TopicPartitions] = array(TopicPartitions)
    user_data: Buffer | None = bytes_(nullable="0+", default=None)


def assigned(assignment: Buffer) -> list[tuple[str, int]]:
    """The (topic, partition) pairs of a member; empty when the bytes are not a consumer's."""
    if not assignment:
        return []
    try:
        version, body = read_prefix(assignment)
        decoded = decode(ConsumerProtocolAssignment, body, min(max(version, 0), NEWEST))
    except ProtocolError:
        return []
    return [(topic.topic, partition) for topic in decoded.assigned_partitions for partition in topic.partitions]
