"""Handling of requests that name a topic or a partition several times. Kafka keeps the entries of many requests in a map from partitions.
Therefore the last entry of a partition counts, and a topic without partitions is ignored.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import TypeVar

TopicT = TypeVar("TopicT")
EntryT = TypeVar("EntryT")


def last_entries(entries: Iterable[tuple[TopicT, int, EntryT]]) -> dict[TopicT, dict[int, EntryT]]:
    """Return the last entry of each partition, by topic and partition index. `entries` are (topic, partition index, entry), in the order of
    the request; the topics and partitions of the result are in the order in which they are named first.
    """
    last: dict[TopicT, dict[int, EntryT]] = {}
    for topic, index, entry in entries:
        last.setdefault(topic, {})[index] = entry
    return last
