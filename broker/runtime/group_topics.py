"""The topics as groups see them: those that this broker serves."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING

from broker.groups.topics_view import TopicInfo

if TYPE_CHECKING:
    from broker.runtime.partitions import Partitions, TopicPartitions


class GroupTopics:
    """A `broker.groups.topics_view.TopicsView` of the registry of partitions."""

    def __init__(self, partitions: Partitions, rack: str | None = None) -> None:
        """`rack` is the broker's."""
        self._partitions = partitions
        self._rack = rack

    @property
    def version(self) -> int:
        return self._partitions.changes

    def by_name(self, name: str) -> TopicInfo | None:
        return self._info(self._partitions.by_name(name))

    def by_id(self, topic_id: bytes) -> TopicInfo | None:
        return self._info(self._partitions.by_topic_id(topic_id))

    def names(self) -> Iterable[str]:
        return self._partitions.topic_names()

    def _info(self, topic: TopicPartitions | None) -> TopicInfo | None:
        return None if topic is None else TopicInfo(topic.name, topic.topic_id, topic.count, self._rack)
