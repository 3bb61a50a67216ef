"""The topics as groups see them: names, ids and partition counts.

Invariants:

* Groups look up topics only in the `TopicsView` that they are given. Its `version` changes with every change; its `creation_version` only
  when a topic is created.
* A regular expression is RE2's, as in Kafka, so no expression and no name makes matching slow. It must match the whole name.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from struct import Struct
from typing import Any, Protocol

from ottla.broker.core.expressions import InvalidExpression, compiled
from ottla.broker.core.rejected import Rejected
from ottla.protocol.error_codes import ErrorCode

_NO_TOPICS_HASH = 0
_TOPIC_HASH_VERSION = 0
_TOPIC_ID = Struct(">QQ")
_TOPIC_HEAD = Struct("<BQQ")
_INT = Struct("<i")
_HASH = Struct("<Q")


@dataclass(frozen=True, slots=True)
class TopicInfo:
    """One existing topic: its name, id, number of partitions, and the racks of its replicas."""

    name: str
    topic_id: bytes
    partitions: int
    racks: tuple[tuple[str, ...], ...] = ()
    """For each partition the racks of its replicas, sorted; empty if no broker has a rack."""


class TopicsView(Protocol):
    """The interface through which groups see the existing topics."""

    @property
    def version(self) -> int:
        """A number that changes when any topic changes, so that groups notice changes of their topics."""
        ...

    @property
    def creation_version(self) -> int:
        """A number that changes when a topic is created, so that groups resolve their regular expressions again."""
        ...

    def by_name(self, name: str) -> TopicInfo | None:
        """Return the topic with that name, None if there is none."""
        ...

    def by_id(self, topic_id: bytes) -> TopicInfo | None:
        """Return the topic with that id, or None if there is none."""
        ...

    def names(self) -> Iterable[str]:
        """Return the names of all existing topics."""
        ...


MayDescribe = Callable[[str], bool]
"""A function that returns whether a client may describe the topic with a given name. A regular expression matches only such topics (Kafka's
TopicRegexResolver).
"""


def every_topic(name: str) -> bool:
    """Return True for every topic name: the `MayDescribe` function of a broker without an authorizer."""
    return True


class NoTopics:
    """A `TopicsView` without topics: the default of a `GroupCoordinator` that gets no view."""

    version = 0
    creation_version = 0

    def by_name(self, name: str) -> TopicInfo | None:
        return None

    def by_id(self, topic_id: bytes) -> TopicInfo | None:
        return None

    def names(self) -> Iterable[str]:
        return ()


def check_regex(regex: str) -> None:
    """Raise Rejected(INVALID_REGULAR_EXPRESSION) if RE2 cannot compile the expression."""
    _compile(regex)


def matcher_of(regex: str) -> tuple[Callable[[str], object], int]:
    """Return a function whose result is true for a name that the expression matches, and the function's cost: the number of instructions
    that it may execute for each character of the name. Raises Rejected(INVALID_REGULAR_EXPRESSION).
    """
    pattern = _compile(regex)
    return pattern.fullmatch, pattern.programsize


def hash_of(topics: Iterable[TopicInfo]) -> int:
    """Return a signed 64-bit hash of the topics' ids, names, partitions and racks; 0 without topics.

    It equals Kafka's (the group coordinator's Utils.computeGroupHash, over XXH3 as hash4j streams it), so that a group does not rebalance
    when its coordinator changes between Kafka and Ottla.
    """
    hashes = b"".join(_HASH.pack(_xxh3(_facts_of(topic))) for topic in sorted(topics, key=lambda one: one.name))
    if not hashes:
        return _NO_TOPICS_HASH
    return int.from_bytes(_HASH.pack(_xxh3(hashes)), "little", signed=True)


def _facts_of(topic: TopicInfo) -> bytes:
    """Return the input of Kafka's computeTopicHash. Each partition is followed by its racks; the length of a rack precedes it and, as
    hash4j does it, follows it.
    """
    head = _TOPIC_HEAD.pack(_TOPIC_HASH_VERSION, *_TOPIC_ID.unpack(topic.topic_id)) + _text(topic.name) + _INT.pack(topic.partitions)
    racks = topic.racks or ((),) * topic.partitions
    return head + b"".join(_INT.pack(index) + b"".join(map(_rack, racks[index])) for index in range(topic.partitions))


def _rack(rack: str) -> bytes:
    return _INT.pack(_units(rack)) + _text(rack)


def _text(text: str) -> bytes:
    """Return the bytes that hash4j hashes for a string: its UTF-16 units, then their count."""
    return text.encode("utf-16-le") + _INT.pack(_units(text))


def _units(text: str) -> int:
    return len(text.encode("utf-16-le")) // 2


def _xxh3(data: bytes) -> int:
    from xxhash import xxh3_64_intdigest  # noqa: PLC0415 # keeps it out of the start-up time

    return xxh3_64_intdigest(data)


def _compile(regex: str) -> Any:
    """Return the compiled RE2 pattern; its type is Any, because the library has no types."""
    try:
        return compiled(regex)
    except InvalidExpression as invalid:
        message = f"SubscribedTopicRegex `{regex}` is not a valid regular expression: {invalid}."
        raise Rejected(ErrorCode.INVALID_REGULAR_EXPRESSION, message) from None
