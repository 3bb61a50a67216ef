"""What a classic consumer subscribes to, read from the opaque metadata that it sends to its leader.

Only the part that all versions begin with is read: version (i16), then the topics. The coordinator never needs the rest, and bytes that
do not follow the format are the client's own business: then nobody knows the topics.

Source: KAFKA ConsumerProtocolSubscription (version 0 is a prefix of all), ClassicGroup.computeSubscribedTopics.
"""

from collections.abc import Iterable
from struct import Struct

_HEAD = Struct(">hi")
_STRING_LENGTH = Struct(">h")


def union_of_topics(subscriptions: Iterable[bytes]) -> frozenset[str] | None:
    """The topics of all subscriptions together, or None when one cannot be read."""
    topics: set[str] = set()
    for subscription in subscriptions:
        read = topics_of(subscription)
        if read is None:
            return None
        topics.update(read)
    return frozenset(topics)


def topics_of(subscription: bytes) -> list[str] | None:
    """The topics of one subscription, or None when it cannot be read."""
    if len(subscription) < _HEAD.size:
        return None
    version, count = _HEAD.unpack_from(subscription)
    if version < 0 or count < 0 or count * _STRING_LENGTH.size > len(subscription) - _HEAD.size:
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
    return topics
