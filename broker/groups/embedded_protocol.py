"""The protocol that classic consumers embed in group requests: subscriptions (JoinGroup) and assignments (SyncGroup).

Invariants:

* Both begin with a version (i16). A newer version is read as the newest known one, because versions only add fields at the end; remaining
  bytes are ignored. The `subscriptions` module reads only topics and never fails; this one reads everything, and raises errors.
* An assignment is written in the version of the member's own subscription.

Source: Kafka's ConsumerProtocol, ConsumerProtocolSubscription.json, ConsumerProtocolAssignment.json (versions 0-3).
"""

from __future__ import annotations

from typing import TypeVar

from ottla.broker.groups.consumer_member import Assignment
from ottla.broker.groups.topics_view import TopicsView
from ottla.protocol.errors import ProtocolError
from ottla.protocol.schema import Buffer, Message, array, bytes_, decoder, encode_prefixed, int32, read_prefix, string, wire_struct

VERSION_MAX = 3


@wire_struct
class TopicPartition:
    topic: str = string()
    partitions: list[int] = array(int32)


@wire_struct
class ConsumerProtocolSubscription(Message, versions="0-3"):
    """A classic consumer's subscription: its topics and, from version 1 on, the partitions that it owns."""

    topics: list[str] = array(string)
    user_data: Buffer | None = bytes_(nullable="0+", default=None)
    owned_partitions: list[TopicPartition] = array(TopicPartition, "1+")
    generation_id: int = int32("2+", default=-1)
    rack_id: str | None = string("3+", nullable="3+", default=None)


@wire_struct
class ConsumerProtocolAssignment(Message, versions="0-3"):
    """A classic consumer's assigned partitions, as the group's leader encodes them for SyncGroup."""

    assigned_partitions: list[TopicPartition] = array(TopicPartition)
    user_data: Buffer | None = bytes_(nullable="0+", default=None)


M = TypeVar("M", bound=Message)


def read_subscription(data: Buffer) -> ConsumerProtocolSubscription:
    """Decode a classic consumer's subscription. Raises ProtocolError if the bytes are malformed."""
    return _read(ConsumerProtocolSubscription, data)


def owned_of(subscription: ConsumerProtocolSubscription, topics: TopicsView) -> Assignment:
    """Return the partitions that the subscription lists as owned, by topic id; deleted topics are left out."""
    return _by_id(subscription.owned_partitions, topics)


def read_assignment(data: Buffer, topics: TopicsView) -> Assignment:
    """Decode a classic consumer's assignment, and return the partitions by topic id; deleted topics are left out. Empty bytes mean that the
    leader assigned nothing. Raises ProtocolError if other bytes are malformed."""
    return _by_id(_read(ConsumerProtocolAssignment, data).assigned_partitions, topics) if len(data) else {}


def assigned_partitions(data: Buffer) -> list[tuple[str, int]]:
    """Decode a classic consumer's assignment for display: return (topic, partition) pairs, or an empty list if the bytes are malformed."""
    try:
        listed = _read(ConsumerProtocolAssignment, data).assigned_partitions
    except ProtocolError:
        return []
    return [(one.topic, index) for one in listed for index in one.partitions]


def carries_user_data(data: Buffer) -> bool:
    """Return whether an encoded assignment has user data, which only the assignor understands. Raises ProtocolError if the bytes are
    malformed."""
    return bool(len(data)) and bool(_read(ConsumerProtocolAssignment, data).user_data)


def write_assignment(assignment: Assignment, subscription: Buffer, topics: TopicsView) -> bytes:
    """Encode an assignment in the version in which the member encoded its `subscription`. Deleted topics are left out. Raises ProtocolError
    if that version is unknown."""
    named = [(info.name, sorted(partitions)) for topic_id, partitions in assignment.items() if (info := topics.by_id(topic_id)) is not None]
    value = ConsumerProtocolAssignment([TopicPartition(name, partitions) for name, partitions in sorted(named)])
    return encode_prefixed(value, _version(subscription)[0])


def _by_id(listed: list[TopicPartition], topics: TopicsView) -> Assignment:
    assignment: dict[bytes, frozenset[int]] = {}
    for one in listed:
        info = topics.by_name(one.topic)
        if info is not None and one.partitions:
            assignment[info.topic_id] = assignment.get(info.topic_id, frozenset()) | frozenset(one.partitions)
    return assignment


def _read(message: type[M], data: Buffer) -> M:
    version, body = _version(data)
    value: M = decoder(message, version, exact=False)(body, 0, len(body))
    return value


def _version(data: Buffer) -> tuple[int, memoryview]:
    version, body = read_prefix(data)
    if version < 0:
        raise ProtocolError(f"version {version} of the consumers' embedded protocol")
    return min(version, VERSION_MAX), body
