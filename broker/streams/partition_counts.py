"""How many partitions the internal topics of a topology must have.

Invariants:

* A repartition topic has the count that its topology sets; otherwise the greatest count among the inputs of a subtopology that writes it.
* Topics that a subtopology joins (a copartition group) have equal counts. The topics of the user decide; without one, the repartition
  topics with a set count; without these, the greatest count.
* A changelog has a partition for every task of its subtopology.

Source: Kafka's RepartitionTopics, CopartitionedTopicsEnforcer, ChangelogTopics.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping

from ottla.broker.core.java_hash import in_hash_order, string_hash
from ottla.broker.core.rejected import Rejected
from ottla.broker.streams.topology import Topology, inputs_of
from ottla.protocol.error_codes import ErrorCode
from ottla.protocol.messages.streams_group import CopartitionGroup, Subtopology

PartitionsOf = Callable[[str], int | None]
"""Returns the number of partitions of an existing topic, else None."""

Counts = dict[str, int]
"""Numbers of partitions by topic."""


class IncorrectlyPartitioned(Exception):
    """Existing topics, or counts that the topology sets, contradict each other."""


def decide_counts(topology: Topology, partitions_of: PartitionsOf) -> Counts:
    """Return the number of partitions of each internal topic. All source topics of the user must exist.

    Raises IncorrectlyPartitioned, or Rejected(STREAMS_INVALID_TOPOLOGY) if a count depends on itself or on nothing.
    """
    subtopologies = topology.subtopologies.values()
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

    for subtopology in subtopologies:
        for group in subtopology.copartition_groups:
            counts |= _copartitioned(_names(subtopology, group), fixed, flexible, count_of)
    for subtopology in subtopologies:
        most = max(map(count_of, inputs_of(subtopology)), default=None)
        if most is None:
            raise _invalid(f"No source topics found for subtopology {subtopology.subtopology_id}")
        counts |= dict.fromkeys((topic.name for topic in subtopology.state_changelog_topics), most)
    return counts


def _repartition_counts(subtopologies: Iterable[Subtopology], partitions_of: PartitionsOf) -> Counts:
    counts = {topic.name: topic.partitions for one in subtopologies for topic in one.repartition_source_topics if topic.partitions}
    missing = True
    while missing:
        missing = progress = False
        for subtopology in subtopologies:
            for sink in subtopology.repartition_sink_topics:
                if sink in counts:
                    continue
                known = [counts[topic.name] for topic in subtopology.repartition_source_topics if topic.name in counts]
                known += [count for topic in subtopology.source_topics if (count := partitions_of(topic)) is not None]
                if known:
                    counts[sink] = max(known)
                    progress = True
                else:
                    missing = True
        if missing and not progress:
            raise _invalid(
                "Failed to compute number of partitions for all repartition topics. There may be loops in the topology that cannot be "
                "resolved."
            )
    return counts


def _copartitioned(names: list[str], fixed: set[str], flexible: set[str], count_of: Callable[[str], int]) -> Counts:
    """Return the counts of the repartition topics among `names`, which must have equal counts."""
    repartition = {name: count_of(name) for name in names if name in fixed or name in flexible}
    others = {name: count_of(name) for name in names if name not in repartition}
    if not names:
        return {}
    if others:
        count = _equal(others.values(), others)
    elif fixed:
        # Kafka compares the fixed counts of the whole topology, not only those of the group.
        count = _equal(map(count_of, fixed), repartition)
    else:
        count = max(repartition.values())
    for name, own in repartition.items():
        if name in fixed and own != count:
            raise IncorrectlyPartitioned(
                f"Number of partitions [{own}] of repartition topic [{name}] doesn't match number of partitions [{count}] of the source "
                "topic."
            )
    return dict.fromkeys(repartition, count)


def _equal(counts: Iterable[int], shown: Mapping[str, int]) -> int:
    found = set(counts)
    if len(found) > 1:
        listed = ", ".join(f"{name}={count}" for name, count in sorted(shown.items()))
        raise IncorrectlyPartitioned(f"Following topics do not have the same number of partitions: [{{{listed}}}]")
    return found.pop()


def _names(subtopology: Subtopology, group: CopartitionGroup) -> list[str]:
    """Return the topics of a copartition group. Raises Rejected(UNKNOWN_SERVER_ERROR) for an index without a topic, as Kafka answers."""
    sources = subtopology.source_topics
    repartition = [topic.name for topic in subtopology.repartition_source_topics]
    for indexes, topics in ((group.source_topics, sources), (group.repartition_source_topics, repartition)):
        if not all(0 <= index < len(topics) for index in indexes):
            raise Rejected(ErrorCode.UNKNOWN_SERVER_ERROR)
    names = [sources[index] for index in group.source_topics] + [repartition[index] for index in group.repartition_source_topics]
    return in_hash_order(names, string_hash)


def _invalid(reason: str) -> Rejected:
    return Rejected(ErrorCode.STREAMS_INVALID_TOPOLOGY, reason)
