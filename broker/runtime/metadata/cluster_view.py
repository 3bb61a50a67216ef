"""What is known of a partition's place: who leads it, who has it, and which replicas are out of reach.

What topics exist is the catalog's to say, in the cluster's words; whether this broker can serve one of its own replicas, the registry's.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import TYPE_CHECKING

from ottla.broker.cluster.metadata_records import NO_LEADER
from ottla.broker.groups.topics_view import TopicInfo
from ottla.protocol.error_codes import ErrorCode

if TYPE_CHECKING:
    from ottla.broker.cluster.catalog import Catalog
    from ottla.broker.cluster.image import PartitionRegistration, TopicImage
    from ottla.broker.runtime.replicas.partitions import Partitions


@dataclass(frozen=True, slots=True)
class Place:
    """One partition as clients are told of it."""

    state: PartitionRegistration
    leader: int
    """`NO_LEADER` where nobody can serve it."""
    offline: tuple[int, ...]
    """Replicas that are out of reach."""

    @property
    def error(self) -> ErrorCode:
        """What is said where there is no leader."""
        return ErrorCode.LEADER_NOT_AVAILABLE if self.leader == NO_LEADER else ErrorCode.NONE


class ClusterView:
    """The cluster as this broker knows it. Also the `TopicsView` of groups; `rack` is the broker's."""

    def __init__(self, catalog: Catalog, partitions: Partitions, node_id: int, rack: str | None = None) -> None:
        self._catalog = catalog
        self._partitions = partitions
        self._node_id = node_id
        self._rack = rack

    def place(self, topic: TopicImage, index: int) -> Place:
        """Where a partition of a topic of the catalog is."""
        state = topic.partitions[index]
        served = self._partitions.by_name(topic.name)
        if served is not None and index in served.partitions:
            return Place(state, state.leader, ())
        offline = tuple(node for node in state.replicas if node == self._node_id)
        return Place(state, NO_LEADER if state.leader in offline else state.leader, offline)

    def partition_count(self, topic: str) -> int:
        """How many partitions a topic has, served or not; 0 where there is no such topic."""
        return self._catalog.partition_count(topic)

    # --- for groups -----------------------------------------------------------------------------------------------------------

    @property
    def version(self) -> int:
        """Another number after every change of a topic."""
        return self._catalog.changes

    def by_name(self, name: str) -> TopicInfo | None:
        """The topic of that name, or None."""
        return self._info(self._catalog.topic(name))

    def by_id(self, topic_id: bytes) -> TopicInfo | None:
        """The topic of that id, or None."""
        return self._info(self._catalog.topic_by_id(topic_id))

    def names(self) -> Iterable[str]:
        """All topics."""
        return [topic.name for topic in self._catalog.topics()]

    def _info(self, topic: TopicImage | None) -> TopicInfo | None:
        return None if topic is None else TopicInfo(topic.name, topic.topic_id, len(topic.partitions), self._rack)
