"""What topics, settings and producer-id blocks exist: the newest image of the cluster's metadata, and what is asked of it.

Rules that hold inside:
- Here the image is only replaced: by what records make of it (`apply`, where this process decides), or by the one that was read from the
  cluster's log (`publish`).
- A topic is found by name and by id, and both always lead to the same object; a name that is created again has a new id.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from ottla.broker.cluster.image import EMPTY, MetadataImage, TopicImage
from ottla.broker.cluster.image_changes import ImageChanges
from ottla.broker.cluster.image_delta import ImageDelta
from ottla.broker.cluster.metadata_records import NO_LEADER, MetadataRecord
from ottla.broker.cluster.topic_names import collision_key, has_collision_chars


class Catalog:
    """Reading is free; changing goes through `apply` or `publish`."""

    def __init__(self) -> None:
        self.image: MetadataImage = EMPTY
        self.changes = 0
        """Another number after every change of a topic or its partitions."""
        self.creations = 0
        """Another number after every creation of a topic."""
        self._collisions: dict[str, set[str]] = {}

    def topic(self, name: str) -> TopicImage | None:
        """The topic of that name, or None."""
        return self.image.topic(name)

    def has_partition(self, place: tuple[str, int]) -> bool:
        """Whether this partition, by topic and index, is one of a topic that was not deleted, be it online or not."""
        topic = self.image.topic(place[0])
        return topic is not None and place[1] in topic.partitions

    def leader_of(self, place: tuple[str, int]) -> int:
        """The broker that leads this partition, by topic and index; `NO_LEADER` where none does, or there is no such partition."""
        topic = self.image.topic(place[0])
        partition = None if topic is None else topic.partitions.get(place[1])
        return NO_LEADER if partition is None else partition.leader

    def partition_count(self, name: str) -> int:
        """How many partitions the topic has, be they online or not; 0 where there is no such topic."""
        topic = self.image.topic(name)
        return 0 if topic is None else len(topic.partitions)

    def topic_by_id(self, topic_id: bytes) -> TopicImage | None:
        """The topic of that id, or None."""
        return self.image.topics.get(topic_id)

    def topics(self) -> list[TopicImage]:
        """All topics in the order of their names."""
        image = self.image
        return [image.topics[image.topic_ids[name]] for name in sorted(image.topic_ids)]

    def __len__(self) -> int:
        return len(self.image.topics)

    def colliding(self, name: str) -> str | None:
        """An existing topic whose name metrics could not tell from `name`, or None."""
        if not has_collision_chars(name):
            return None
        return min(self._collisions.get(collision_key(name), ()), default=None)

    def configs(self, resource_type: int, resource_name: str) -> Mapping[str, str]:
        """What was set on one resource: names and values as text, without defaults."""
        return self.image.configs.get((resource_type, resource_name), {})

    def configured_resources(self, resource_type: int) -> list[str]:
        """Names of the resources of one type on which anything is set, sorted."""
        return sorted(name for kind, name in self.image.configs if kind == resource_type)

    @property
    def features(self) -> Mapping[str, int]:
        """The finalized levels above 0, by the features' names."""
        return self.image.features

    @property
    def next_producer_id(self) -> int:
        """The first producer id of which no block was given out."""
        return max(self.image.next_producer_id, 0)

    def apply(self, records: Iterable[MetadataRecord]) -> ImageChanges:
        """Makes what the records say true, all at once; what that changed. Raises `InconsistentRecord`, and then nothing has changed."""
        delta = ImageDelta(self.image)
        for record in records:
            delta.apply(record)
        changes = delta.changes()
        self.publish(delta.finish(), changes)
        return changes

    def publish(self, image: MetadataImage, changes: ImageChanges) -> None:
        """Takes `image` in the place of the present one, from which it differs by `changes`."""
        self.image = image
        self.changes += bool(changes.topics)
        self.creations += any(change.before is None for change in changes.topics.values())
        for change in changes.topics.values():
            if change.before is not None:
                self._forget(change.before.name)
        for change in changes.topics.values():
            if change.after is not None and has_collision_chars(change.after.name):
                self._collisions.setdefault(collision_key(change.after.name), set()).add(change.after.name)

    def _forget(self, name: str) -> None:
        alike = self._collisions.get(collision_key(name), set())
        alike.discard(name)
        if not alike:
            self._collisions.pop(collision_key(name), None)
