"""Configures a topology with the existing topics: the tasks of its subtopologies, missing internal topics, and contradictions.

Source: Kafka's InternalTopicManager, ConfiguredTopology.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from enum import IntEnum

from ottla.broker.core import limits
from ottla.broker.core.java_hash import in_hash_order, string_hash
from ottla.broker.core.rejected import Rejected
from ottla.broker.streams.partition_counts import Counts, IncorrectlyPartitioned, PartitionsOf, decide_counts
from ottla.broker.streams.topology import Topology, inputs_of
from ottla.protocol.error_codes import ErrorCode
from ottla.protocol.messages import k89_streams_group_describe as k89
from ottla.protocol.messages.streams_group import KeyValue, Subtopology, TopicInfo

_TOPICS_NAMED = 3
"""The maximum number of topics that an error message names, as in Kafka."""


class Status(IntEnum):
    """A condition that a streams group reports to its members, with the code of Kafka's StreamsGroupHeartbeatResponse.Status."""

    STALE_TOPOLOGY = 0
    MISSING_SOURCE_TOPICS = 1
    INCORRECTLY_PARTITIONED_TOPICS = 2
    MISSING_INTERNAL_TOPICS = 3
    SHUTDOWN_APPLICATION = 4
    ASSIGNMENT_DELAYED = 5
    MISSING_CLIENT_TAGS = 6


@dataclass(frozen=True, slots=True)
class InternalTopic:
    """A repartition or changelog topic. A `replication_factor` of 0 stands for the broker's default."""

    name: str
    partitions: int
    replication_factor: int
    configs: Mapping[str, str]

    def described(self) -> TopicInfo:
        """Return the topic as StreamsGroupDescribe lists it."""
        configs = [KeyValue(name, value) for name, value in self.configs.items()]
        return TopicInfo(self.name, self.partitions, self.replication_factor, configs)


@dataclass(frozen=True, slots=True)
class ConfiguredSubtopology:
    """A subtopology with its internal topics, by name, and their computed partition counts."""

    number_of_tasks: int
    source_topics: frozenset[str] = frozenset()
    repartition_sink_topics: frozenset[str] = frozenset()
    repartition_source_topics: Mapping[str, InternalTopic] = field(default_factory=dict)
    state_changelog_topics: Mapping[str, InternalTopic] = field(default_factory=dict)

    @property
    def is_stateful(self) -> bool:
        return bool(self.state_changelog_topics)

    def described(self, subtopology_id: str) -> k89.Subtopology:
        """Return the subtopology as StreamsGroupDescribe lists it."""
        return k89.Subtopology(
            subtopology_id,
            sorted(self.source_topics),
            sorted(self.repartition_sink_topics),
            [topic.described() for _, topic in sorted(self.state_changelog_topics.items())],
            [topic.described() for _, topic in sorted(self.repartition_source_topics.items())],
        )


Subtopologies = Mapping[str, ConfiguredSubtopology]
"""The subtopologies of a topology by id, in the order of their ids."""


@dataclass(frozen=True, slots=True)
class ConfiguredTopology:
    """A topology configured with the topics that existed at one time; `metadata_hash` is the hash of these topics' metadata.

    `subtopologies` is None if source topics are missing or partition counts contradict each other. `problem` is the status code and its
    detail that the members get, None if the topology is ready.
    """

    epoch: int
    metadata_hash: int
    subtopologies: Subtopologies | None
    internal_topics_to_create: Mapping[str, InternalTopic] = field(default_factory=dict)
    problem: tuple[Status, str] | None = None

    @property
    def is_ready(self) -> bool:
        """Whether all source and internal topics exist with the required partition counts."""
        return self.problem is None

    def described(self) -> k89.Topology:
        """Return the topology with the computed partition counts, as StreamsGroupDescribe lists it."""
        return k89.Topology(self.epoch, [one.described(name) for name, one in (self.subtopologies or {}).items()])


def configure(topology: Topology, metadata_hash: int, partitions_of: PartitionsOf) -> ConfiguredTopology:
    """Compute a topology's tasks and internal topics from the existing topics. If topics are missing or have contradicting partition
    counts, the result's `problem` says so.

    Raises Rejected: STREAMS_INVALID_TOPOLOGY if the topology contradicts itself or has more than `limits.STREAMS_TASKS` tasks,
    UNKNOWN_SERVER_ERROR for numbers that are out of range.
    """
    sources = {name for one in topology.subtopologies.values() for name in one.source_topics}
    missing_sources = sorted(name for name in sources if partitions_of(name) is None)
    if missing_sources:
        detail = f"Source topics {_summary(missing_sources)} are missing."
        return ConfiguredTopology(topology.epoch, metadata_hash, None, problem=(Status.MISSING_SOURCE_TOPICS, detail))
    try:
        counts = decide_counts(topology, partitions_of)
        subtopologies = {name: _configured(one, counts, partitions_of) for name, one in sorted(topology.subtopologies.items())}
        missing = _missing_topics(topology, subtopologies, partitions_of)
        tasks = sum(one.number_of_tasks for one in subtopologies.values())
        if tasks > limits.STREAMS_TASKS:
            reason = f"The topology has {tasks} tasks, more than the maximum of {limits.STREAMS_TASKS}."
            raise Rejected(ErrorCode.STREAMS_INVALID_TOPOLOGY, reason)
    except IncorrectlyPartitioned as error:
        return ConfiguredTopology(topology.epoch, metadata_hash, None, problem=(Status.INCORRECTLY_PARTITIONED_TOPICS, str(error)))
    problem = (Status.MISSING_INTERNAL_TOPICS, f"Internal topics are missing: {_summary(list(missing))}") if missing else None
    return ConfiguredTopology(topology.epoch, metadata_hash, subtopologies, missing, problem)


def _configured(subtopology: Subtopology, counts: Counts, partitions_of: PartitionsOf) -> ConfiguredSubtopology:
    existing = {name: partitions_of(name) for name in inputs_of(subtopology)}
    return ConfiguredSubtopology(
        max(counts[name] if count is None else count for name, count in existing.items()),
        frozenset(subtopology.source_topics),
        frozenset(subtopology.repartition_sink_topics),
        _internal(subtopology.repartition_source_topics, counts),
        _internal(subtopology.state_changelog_topics, counts),
    )


def _internal(topics: Iterable[TopicInfo], counts: Counts) -> dict[str, InternalTopic]:
    """Return internal topics by name, with their partition counts: the count that the topology sets, otherwise the one in `counts`. Raises
    Rejected(UNKNOWN_SERVER_ERROR), as Kafka does, for a count below 1."""
    found = {}
    for topic in topics:
        partitions = topic.partitions or counts[topic.name]
        if partitions < 1:
            raise Rejected(ErrorCode.UNKNOWN_SERVER_ERROR)
        configs = {config.key: config.value for config in topic.topic_configs}
        ordered = {key: configs[key] for key in in_hash_order(configs, string_hash)}
        found[topic.name] = InternalTopic(topic.name, partitions, topic.replication_factor, ordered)
    return {name: found[name] for name in in_hash_order(found, string_hash)}


def _missing_topics(topology: Topology, subtopologies: Subtopologies, partitions_of: PartitionsOf) -> dict[str, InternalTopic]:
    wanted: dict[str, InternalTopic] = {}
    for subtopology in subtopologies.values():
        wanted |= subtopology.repartition_source_topics
        wanted |= subtopology.state_changelog_topics
    for name in in_hash_order(topology.topics(), string_hash):
        existing = partitions_of(name)
        if name in wanted and existing not in {None, wanted[name].partitions}:
            raise IncorrectlyPartitioned(
                f"Existing topic {name} has different number of partitions: expected {wanted[name].partitions}, found {existing}"
            )
    return {name: wanted[name] for name in in_hash_order(wanted, string_hash) if partitions_of(name) is None}


def _summary(topics: list[str]) -> str:
    more = len(topics) - _TOPICS_NAMED
    return ", ".join(topics[:_TOPICS_NAMED]) + (f" and {more} additional topics" if more > 0 else "")
