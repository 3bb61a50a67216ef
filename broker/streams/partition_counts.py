"""Computes the number of partitions of a topology's internal topics.

Invariants:

* A repartition topic has the count that its topology sets; otherwise the greatest count among the inputs of a subtopology that writes it.
* Topics that a subtopology joins (a copartition group) have equal counts: the count of the group's source topics; without a source topic,
  the set count of repartition topics; without a set count, the greatest count.
* A changelog topic has a partition for every task of its subtopology.

Source: Kafka's RepartitionTopics, CopartitionedTopicsEnforcer, ChangelogTopics.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence, Set
from heapq import heappop, heappush

from ottla.broker.core.java_hash import in_hash_order, string_hash
from ottla.broker.core.rejected import Rejected
from ottla.broker.streams.topology import Topology, inputs_of
from ottla.protocol.error_codes import ErrorCode
from ottla.protocol.messages.streams_group import CopartitionGroup, Subtopology

PartitionsOf = Callable[[str], int | None]
"""A function that returns the number of partitions of a topic, or None if the topic does not exist."""

Counts = dict[str, int]
"""The number of partitions of each topic, by topic name."""


class IncorrectlyPartitioned(Exception):
    """Raised when the partition counts of existing topics, or those that the topology sets, contradict each other."""


def decide_counts(topology: Topology, partitions_of: PartitionsOf) -> Counts:
    """Return the number of partitions of each internal topic. All source topics must exist.

    Raises IncorrectlyPartitioned if partition counts contradict each other, and Rejected: STREAMS_INVALID_TOPOLOGY if a topic's count
    depends on itself or on no source topic, UNKNOWN_SERVER_ERROR if a copartition group refers to a topic that does not exist.
    """
    subtopologies = list(topology.subtopologies.values())
    counts = _repartition_counts(subtopologies, partitions_of)
    for subtopology in subtopologies:
        for topic in subtopology.repartition_source_topics:
            if topic.name not in counts:
                raise _invalid(
                    "Failed to compute number of partitions for all repartition topics, because a repartition source topic is never used "
                    "as a sink topic."
                )
    fixed = {topic.name for one in subtopologies for topic in one.repartition_source_topics if topic.partitions}
    flexible = {topic.name for one in subtopologies for topic in one.repartition_source_topics if not topic.partitions}

    def count_of(topic: str) -> int:
        existing = partitions_of(topic)
        return counts[topic] if existing is None else existing

    # Kafka compares the fixed counts of the whole topology, not only those of a copartition group.
    fixed_counts = frozenset(map(count_of, fixed))
    for subtopology in subtopologies:
        repartition = [topic.name for topic in subtopology.repartition_source_topics]
        for group in subtopology.copartition_groups:
            own = {name: count_of(name) for name in _names(group, subtopology.source_topics, repartition)}
            inner = {name: count for name, count in own.items() if name in fixed or name in flexible}
            if own:
                counts |= dict.fromkeys(inner, _common_count(own, inner, fixed, fixed_counts))
    for subtopology in subtopologies:
        max_count = max(map(count_of, inputs_of(subtopology)), default=None)
        if max_count is None:
            raise _invalid(f"No source topics found for subtopology {subtopology.subtopology_id}")
        counts |= dict.fromkeys((topic.name for topic in subtopology.state_changelog_topics), max_count)
    return counts


def _repartition_counts(subtopologies: Sequence[Subtopology], partitions_of: PartitionsOf) -> Counts:
    """Return the partition counts of the repartition topics: the count that the topology sets, otherwise a computed one. Raises
    Rejected(STREAMS_INVALID_TOPOLOGY) if the count of a topic that a subtopology writes cannot be computed.

    Kafka visits all subtopologies repeatedly until every count is known. Here each subtopology is visited once, when its first input has a
    count, in Kafka's order: otherwise a chain of 10,000 subtopologies would take a minute.
    """
    counts = {topic.name: topic.partitions for one in subtopologies for topic in one.repartition_source_topics if topic.partitions}
    readers: dict[str, list[int]] = {}
    for index, one in enumerate(subtopologies):
        for topic in one.repartition_source_topics:
            readers.setdefault(topic.name, []).append(index)
    visits = [(0, index) for index, one in enumerate(subtopologies) if any(True for _ in _known_inputs(one, counts, partitions_of))]
    queued = {index for _, index in visits}
    while visits:
        turn, index = heappop(visits)
        count = max(_known_inputs(subtopologies[index], counts, partitions_of))
        for sink in subtopologies[index].repartition_sink_topics:
            if sink in counts:
                continue
            counts[sink] = count
            for reader in readers.get(sink, ()):
                if reader not in queued:
                    queued.add(reader)
                    heappush(visits, (turn + (reader <= index), reader))
    if any(sink not in counts for one in subtopologies for sink in one.repartition_sink_topics):
        raise _invalid(
            "Failed to compute number of partitions for all repartition topics. There may be loops in the topology that cannot be resolved."
        )
    return counts


def _known_inputs(subtopology: Subtopology, counts: Counts, partitions_of: PartitionsOf) -> Iterator[int]:
    """Yield the partition counts of the subtopology's inputs whose count is known."""
    for topic in subtopology.repartition_source_topics:
        if topic.name in counts:
            yield counts[topic.name]
    for name in subtopology.source_topics:
        count = partitions_of(name)
        if count is not None:
            yield count


def _common_count(own: Counts, repartition: Counts, fixed: Set[str], fixed_counts: Set[int]) -> int:
    """Return the partition count that a copartition group's repartition topics must have. Raises IncorrectlyPartitioned if counts that must
    be equal differ.

    `own` has the counts of all topics of the group, `repartition` those of its repartition topics. `fixed` has the repartition topics of
    the whole topology whose count is set, `fixed_counts` their counts.
    """
    if len(repartition) < len(own):
        outer = {name: count for name, count in own.items() if name not in repartition}
        count = _equal(outer.values(), outer)
    elif fixed:
        count = _equal(fixed_counts, repartition)
    else:
        count = max(repartition.values())
    for name, set_count in repartition.items():
        if name in fixed and set_count != count:
            raise IncorrectlyPartitioned(
                f"Number of partitions [{set_count}] of repartition topic [{name}] doesn't match number of partitions [{count}] of the "
                "source topic."
            )
    return count


def _equal(counts: Iterable[int], shown: Mapping[str, int]) -> int:
    found = set(counts)
    if len(found) > 1:
        listed = ", ".join(f"{name}={count}" for name, count in sorted(shown.items()))
        raise IncorrectlyPartitioned(f"Following topics do not have the same number of partitions: [{{{listed}}}]")
    return found.pop()


def _names(group: CopartitionGroup, sources: Sequence[str], repartition: Sequence[str]) -> list[str]:
    """Return the names of a copartition group's topics. The group has their indexes in `sources` and `repartition`. Raises
    Rejected(UNKNOWN_SERVER_ERROR), as Kafka does, for an index out of range."""
    for indexes, topics in ((group.source_topics, sources), (group.repartition_source_topics, repartition)):
        if not all(0 <= index < len(topics) for index in indexes):
            raise Rejected(ErrorCode.UNKNOWN_SERVER_ERROR)
    names = [sources[index] for index in group.source_topics] + [repartition[index] for index in group.repartition_source_topics]
    return in_hash_order(names, string_hash)


def _invalid(reason: str) -> Rejected:
    return Rejected(ErrorCode.STREAMS_INVALID_TOPOLOGY, reason)
