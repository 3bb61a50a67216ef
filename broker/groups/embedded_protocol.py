"""What classic consumers send each other through their coordinator: subscriptions to the leader, assignments from it.

Rules that hold here:

* Both begin with a version (i16). A version above ours is read as ours, because versions only ever add at the end; bytes that are left
  over are not looked at. The `subscriptions` module reads no more than topics, and never fails; this one reads all, and says when
  it cannot.
* An assignment is written in the version of the member's own subscription.

Source: KAFKA ConsumerProtocol, ConsumerProtocolSubscription.json, ConsumerProtocolAssignment.json (versions 0-3).
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
    """What a classic consumer wants, and from version 1 on what it has."""

    topics: list[str] = array(string)
    user_data: Buffer | None = bytes_(nullable="0+", default=None)
    owned_partitions: list[TopicPartition] = array(TopicPartition, "1+")
    generation_id: int = int32("2+", default=-1)
    rack_id: str | None = string("3+", nullable="3+", default=None)


@wire_struct
class ConsumerProtocolAssignment(Message, versions="0-3"):
    """What a classic consumer gets."""

    assigned_partitions: list[TopicPartition] = array(TopicPartition)
    user_data: Buffer | None = bytes_(nullable="0+", default=None)


M = TypeVar("M", bound=Message)


def read_subscription(data: Buffer) -> ConsumerProtocolSubscription:
    """Raises ProtocolError."""
    return _read(ConsumerProtocolSubscription, data)


def owned_of(subscription: ConsumerProtocolSubscription, topics: TopicsView) -> Assignment:
    """What the member says it has, by topic id; topics that are not there any more are left out."""
    return _by_id(subscription.owned_partitions, topics)


def read_assignment(data: Buffer, topics: TopicsView) -> Assignment:
    """The partitions by topic id; none in an empty one, which a leader gives to a member that it forgot. Raises ProtocolError."""
    return _by_id(_read(ConsumerProtocolAssignment, data).assigned_partitions, topics) if len(data) else {}


def assigned_places(data: Buffer) -> list[tuple[str, int]]:
    """The (topic, partition) pairs as they are named, for a reader; none when the bytes are not a consumer's."""
    try:
        listed = _read(ConsumerProtocolAssignment, data).assigned_partitions
    except ProtocolError:
        return []
    return [(one.topic, index) for one in listed for index in one.partitions]


def carries_user_data(data: Buffer) -> bool:
    """Whether an assignment has bytes that mean something to the assignor alone. Raises ProtocolError."""
    return bool(len(data)) and bool(_read(ConsumerProtocolAssignment, data).user_data)


def write_assignment(assignment: Assignment, subscription: Buffer, topics: TopicsView) -> bytes:
    """The bytes that a member which sent `subscription` understands. Raises ProtocolError when nobody can tell which."""
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
