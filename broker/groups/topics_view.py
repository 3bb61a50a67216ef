"""What groups know of topics: names, ids, and how many partitions there are.

Rules that hold here:

* Groups never look topics up elsewhere. Whoever runs them hands in a `TopicsView`, whose `version` changes whenever anything in it does.
* A regular expression is RE2's (as Kafka's is), so no expression and no name makes matching slow; it has to match the whole name.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from functools import lru_cache
from hashlib import blake2b
from struct import Struct
from typing import Any, Protocol

from broker.core.rejected import Rejected
from protocol.error_codes import ErrorCode

PATTERNS_KEPT = 256
"""Compiled expressions kept, each of at most RE2's 8 MiB and mostly of some kilobytes."""

_NO_TOPICS_HASH = 0
_HASH = Struct(">q")
_COUNT = Struct(">i")


@dataclass(frozen=True, slots=True)
class TopicInfo:
    """One topic."""

    name: str
    topic_id: bytes
    partitions: int


class TopicsView(Protocol):
    """The topics there are now."""

    @property
    def version(self) -> int:
        """Another number after every change."""
        ...

    def by_name(self, name: str) -> TopicInfo | None:
        """The topic of that name."""
        ...

    def by_id(self, topic_id: bytes) -> TopicInfo | None:
        """The topic of that id."""
        ...

    def names(self) -> Iterable[str]:
        """All of them."""
        ...


class NoTopics:
    """A view without topics, for groups that are only looked at."""

    version = 0

    def by_name(self, name: str) -> TopicInfo | None:
        return None

    def by_id(self, topic_id: bytes) -> TopicInfo | None:
        return None

    def names(self) -> Iterable[str]:
        return ()


def check_regex(regex: str) -> None:
    """Raises Rejected(INVALID_REGULAR_EXPRESSION)."""
    _compile(regex)


def topics_matching(regex: str, topics: TopicsView) -> list[str]:
    """The names that the expression stands for, sorted. Raises Rejected(INVALID_REGULAR_EXPRESSION)."""
    pattern = _compile(regex)
    return sorted(name for name in topics.names() if pattern.fullmatch(name))


def hash_of(topics: Iterable[TopicInfo]) -> int:
    """A signed 64-bit number that differs when the topics, or their partitions, do; 0 without topics.

    Kafka's number for the same topics is another one; both are compared with themselves only.
    """
    digest = blake2b(digest_size=_HASH.size)
    empty = True
    for topic in sorted(topics, key=lambda one: one.name):
        empty = False
        digest.update(topic.topic_id + _COUNT.pack(topic.partitions) + topic.name.encode() + b"\0")
    return _NO_TOPICS_HASH if empty else int(_HASH.unpack(digest.digest())[0])


@lru_cache(maxsize=PATTERNS_KEPT)
def _compile(regex: str) -> Any:
    """A compiled pattern; Any, because the library has no types."""
    import re2  # noqa: PLC0415 # 5 ms that a start need not spend: few groups subscribe by expression

    options = re2.Options()
    options.log_errors = False
    try:
        return re2.compile(regex, options)
    except re2.error as error:
        reason = error.args[0] if error.args else b""
        text = reason.decode(errors="replace") if isinstance(reason, bytes) else str(reason)
        message = f"SubscribedTopicRegex `{regex}` is not a valid regular expression: {text}."
        raise Rejected(ErrorCode.INVALID_REGULAR_EXPRESSION, message) from None
