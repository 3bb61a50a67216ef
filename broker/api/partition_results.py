"""Per-partition error codes of a response, collected in Kafka's order (KAFKA OffsetCommitResponse.Builder and its siblings).

Rules:
- Topics and partitions that are rejected before the group coordinator is asked come first; the coordinator's results follow.
- A topic of which no partition is accepted is not passed to the coordinator. It is in the response only if it was rejected.
- A topic that was rejected in part has one entry. If nothing was rejected, the response has the coordinator's results unchanged, even if a
  topic occurs in them twice.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from typing import TypeVar

from ottla.protocol.error_codes import ErrorCode

TopicKey = tuple[str, bytes]
"""The name and the id with which a request names a topic; one of them may be empty."""
Result = tuple[int, ErrorCode]
"""A partition index, and the error code for this partition."""
T = TypeVar("T")


class PartitionResults:
    """The partitions of one request: those that are rejected with an error, and those that are passed to the group coordinator."""

    def __init__(self) -> None:
        self.rejected: dict[TopicKey, list[Result]] = {}
        self.accepted: list[tuple[TopicKey, list[int]]] = []

    def reject(self, topic: TopicKey, partitions: Iterable[int], error: ErrorCode) -> None:
        """Reject these partitions of the topic with `error`. If `partitions` is empty, the topic still gets an entry in the response."""
        self.rejected.setdefault(topic, []).extend((index, error) for index in partitions)

    def sort_out(self, topic: TopicKey, partitions: Iterable[int], known: Iterable[int]) -> None:
        """Accept the partitions of an existing topic that are in `known`, and reject the others with UNKNOWN_TOPIC_OR_PARTITION."""
        accepted = []
        for index in partitions:
            if index in known:
                accepted.append(index)
            else:
                self.reject(topic, (index,), ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)
        if accepted:
            self.accepted.append((topic, accepted))

    def with_errors(self, errors: Iterator[ErrorCode], make: Callable[[TopicKey, list[Result]], T]) -> list[T]:
        """Return the topic entries of the response: `make` makes one from a topic and the error codes of its partitions. `errors` are the
        coordinator's results, one for each accepted partition, in order."""
        decided = [(topic, [(index, next(errors)) for index in partitions]) for topic, partitions in self.accepted]
        if not self.rejected:
            return [make(topic, results) for topic, results in decided]
        merged = {topic: list(results) for topic, results in self.rejected.items()}
        for topic, results in decided:
            merged.setdefault(topic, []).extend(results)
        return [make(topic, results) for topic, results in merged.items()]
