"""Functions for the handlers of several streams group APIs: they tell whether streams groups are enabled, and return the topics of a
subtopology."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Protocol

from ottla.broker.api.context import Context
from ottla.broker.api.services import CoordinationServices
from ottla.broker.cluster.features import streams_groups_enabled


class _Topic(Protocol):
    name: str


class _Subtopology(Protocol):
    source_topics: list[str]
    repartition_sink_topics: list[str]

    @property
    def repartition_source_topics(self) -> Sequence[_Topic]: ...
    @property
    def state_changelog_topics(self) -> Sequence[_Topic]: ...


def enabled(ctx: Context[CoordinationServices]) -> bool:
    """Return whether streams groups are enabled, by both `group.coordinator.rebalance.protocols` and the cluster's level of the feature
    streams.version."""
    listed = "streams" in ctx.services.settings.group_coordinator_rebalance_protocols
    return listed and streams_groups_enabled(ctx.services.topics.features)


def topics_of(subtopology: _Subtopology) -> Iterator[str]:
    """Yield every topic that the subtopology reads or writes."""
    yield from subtopology.source_topics
    yield from subtopology.repartition_sink_topics
    yield from (topic.name for topic in subtopology.repartition_source_topics)
    yield from (topic.name for topic in subtopology.state_changelog_topics)
