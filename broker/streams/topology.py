"""The topology of a Kafka Streams application, as a member sends it and `__consumer_offsets` stores it.

Source: Kafka's StreamsTopology, StreamsCoordinatorRecordHelpers.convertToStreamsGroupTopologyRecord.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass

from ottla.broker.core.java_hash import in_hash_order, string_hash
from ottla.broker.core.rejected import Rejected
from ottla.protocol.error_codes import ErrorCode
from ottla.protocol.messages import k88_streams_group_heartbeat as k88
from ottla.protocol.messages import k89_streams_group_describe as k89
from ottla.protocol.messages.streams_group import Subtopology, TopicInfo
from ottla.protocol.streams_group_log import StreamsGroupTopologyValue


@dataclass(frozen=True, slots=True)
class Topology:
    """A topology: its subtopologies by id, in the order of Java's hash map, in which Kafka processes them."""

    epoch: int
    subtopologies: Mapping[str, Subtopology]

    @classmethod
    def of(cls, value: StreamsGroupTopologyValue) -> Topology:
        """Return the topology that a record stores. Raises Rejected(UNKNOWN_SERVER_ERROR), as Kafka does, for a duplicate subtopology id or
        a negative epoch."""
        by_id = {subtopology.subtopology_id: subtopology for subtopology in value.subtopologies}
        if len(by_id) < len(value.subtopologies) or value.epoch < 0:
            raise Rejected(ErrorCode.UNKNOWN_SERVER_ERROR)
        return cls(value.epoch, {name: by_id[name] for name in in_hash_order(by_id, string_hash)})

    @property
    def source_topics(self) -> frozenset[str]:
        """The topics that the application reads: its source topics and its repartition topics."""
        return frozenset(name for subtopology in self.subtopologies.values() for name in inputs_of(subtopology))

    @property
    def required_topics(self) -> frozenset[str]:
        """The topics that must exist before tasks are assigned: `source_topics` and the changelog topics."""
        return frozenset(self.topics())

    def topics(self) -> Iterator[str]:
        """Yield the names of all topics that the topology needs: source, repartition and changelog topics. A name may occur several
        times."""
        for subtopology in self.subtopologies.values():
            yield from inputs_of(subtopology)
            for topic in subtopology.state_changelog_topics:
                yield topic.name

    def described(self) -> k89.Topology:
        """Return the topology in the form in which the client sent it, for StreamsGroupDescribe."""
        return k89.Topology(
            self.epoch,
            [
                k89.Subtopology(
                    name,
                    sorted(subtopology.source_topics),
                    sorted(subtopology.repartition_sink_topics),
                    _described(subtopology.state_changelog_topics),
                    _described(subtopology.repartition_source_topics),
                )
                for name, subtopology in sorted(self.subtopologies.items())
            ],
        )


def inputs_of(subtopology: Subtopology) -> Iterator[str]:
    """Yield the topics that a subtopology reads: source topics and repartition topics."""
    yield from subtopology.source_topics
    for topic in subtopology.repartition_source_topics:
        yield topic.name


def topology_value(topology: k88.Topology) -> StreamsGroupTopologyValue:
    """Return the record value for a topology that a member sent; the order of its lists is kept."""
    return StreamsGroupTopologyValue(topology.epoch, topology.subtopologies)


def _described(topics: Iterable[TopicInfo]) -> list[TopicInfo]:
    return sorted(topics, key=lambda topic: topic.name)
