"""Decodes the topics of a classic consumer's subscription, from the protocol metadata in its JoinGroup.

Only the part that all versions have in common is read: version (i16), then the topics. The coordinator does not need the remaining fields.
Bytes in another format are legal; then the topics are unknown.

Source: Kafka's ConsumerProtocolSubscription (version 0 is a prefix of all), ClassicGroup.computeSubscribedTopics.
"""

from collections.abc import Iterable
from struct import Struct

from ottla.broker.core import limits

_HEAD = Struct(">hi")
_STRING_LENGTH = Struct(">h")


def union_of_topics(subscriptions: Iterable[bytes]) -> frozenset[str] | None:
    """Return the topics of all encoded subscriptions together. Return None if one of them cannot be decoded, or if the distinct ones list
    more than SUBSCRIBED_TOPICS topics in total."""
    topics: set[str] = set()
    left = limits.SUBSCRIBED_TOPICS
    lists: dict[bytes, bytes] = {}
    for subscription in subscriptions:
        head = subscription[: _HEAD.size]
        if head in lists and subscription.startswith(lists[head]):
            continue
        read = _topics_and_end(subscription, left)
        if read is None:
            return None
        topics.update(read[0])
        left -= len(read[0])
        lists[head] = subscription[: read[1]]
    return frozenset(topics)


def topics_of(subscription: bytes, max_count: int = limits.SUBSCRIBED_TOPICS) -> list[str] | None:
    """Return the topics of one subscription, or None if it cannot be decoded or lists more than `max_count` topics."""
    read = _topics_and_end(subscription, max_count)
    return None if read is None else read[0]


def _topics_and_end(subscription: bytes, max_count: int) -> tuple[list[str], int] | None:
    if len(subscription) < _HEAD.size:
        return None
    version, count = _HEAD.unpack_from(subscription)
    if version < 0 or not 0 <= count <= max_count or count * _STRING_LENGTH.size > len(subscription) - _HEAD.size:
        return None
    topics = []
    pos = _HEAD.size
    for _ in range(count):
        end = pos + _STRING_LENGTH.size
        if end > len(subscription):
            return None
        (length,) = _STRING_LENGTH.unpack_from(subscription, pos)
        pos = end + length
        if length < 0 or pos > len(subscription):
            return None
        try:
            topics.append(subscription[end:pos].decode())
        except UnicodeDecodeError:
            return None
    return topics, pos
