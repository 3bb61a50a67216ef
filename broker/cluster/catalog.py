"""The newest metadata image, with look-ups of topics, settings and producer-id blocks.

Invariants:
- The image is immutable and is only replaced: by the result of a controller's records (`apply`), or by an image that was read from the
  metadata log (`publish`).
- A topic's name and id always lead to the same object. A topic that is created again under the same name has a new id.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from ottla.broker.cluster.image import EMPTY, MetadataImage, TopicImage
from ottla.broker.cluster.image_changes import ImageChanges
from ottla.broker.cluster.image_delta import ImageDelta
from ottla.broker.cluster.metadata_records import NO_LEADER, MetadataRecord
from ottla.broker.cluster.topic_names import collision_key, has_collision_chars


class Catalog:
    """Look-ups in the node's newest metadata image. Only `apply` and `publish` replace the image."""

    def __init__(self) -> None:
        self.image: MetadataImage = EMPTY
        self.changes = 0
        """A counter that increases with every change of a topic or its partitions. Groups compare it to notice changes of their topics."""
        self.creations = 0
        """A counter that increases with every creation of a topic. Groups compare it to notice new topics that a regular expression may
        match."""
        self._collisions: dict[str, set[str]] = {}

    def topic(self, name: str) -> TopicImage | None:
        """Return the topic with that name, or None."""
        return self.image.topic(name)

    def has_partition(self, place: tuple[str, int]) -> bool:
        """Return whether the partition `place` (topic name, index) exists, online or not."""
        topic = self.image.topic(place[0])
        return topic is not None and place[1] in topic.partitions

    def leader_of(self, place: tuple[str, int]) -> int:
        """Return the node id of the leader of the partition `place` (topic name, index); `NO_LEADER` if it has none or does not exist."""
        topic = self.image.topic(place[0])
        partition = None if topic is None else topic.partitions.get(place[1])
        return NO_LEADER if partition is None else partition.leader

    def partition_count(self, name: str) -> int:
        """Return the topic's partition count, online or not; 0 if the topic does not exist."""
        topic = self.image.topic(name)
        return 0 if topic is None else len(topic.partitions)

    def topic_by_id(self, topic_id: bytes) -> TopicImage | None:
        """Return the topic with that id, or None."""
        return self.image.topics.get(topic_id)

    def topics(self) -> list[TopicImage]:
        """Return all topics, sorted by name."""
        image = self.image
        return [image.topics[image.topic_ids[name]] for name in sorted(image.topic_ids)]

    def __len__(self) -> int:
        return len(self.image.topics)

    def colliding(self, name: str) -> str | None:
        """Return an existing topic whose metrics would collide with those of a topic `name`, because the two names differ only in `.` and
        `_`. Return None if there is none.
        """
        if not has_collision_chars(name):
            return None
        return min(self._collisions.get(collision_key(name), ()), default=None)

    def configs(self, resource_type: int, resource_name: str) -> Mapping[str, str]:
        """Return the settings that were set for one resource, by name, as text; defaults are not included."""
        return self.image.configs.get((resource_type, resource_name), {})

    def configured_resources(self, resource_type: int) -> list[str]:
        """Return the names of the resources of one type that have any setting, sorted."""
        return sorted(name for kind, name in self.image.configs if kind == resource_type)

    @property
    def features(self) -> Mapping[str, int]:
        """The finalized feature levels above 0, by feature name."""
        return self.image.features

    @property
    def next_producer_id(self) -> int:
        """The first producer id that is in no block allocated to a broker."""
        return max(self.image.next_producer_id, 0)

    def apply(self, records: Iterable[MetadataRecord]) -> ImageChanges:
        """Apply metadata records to the image as one change, and return the changes of the image. Raises `InconsistentRecord` if a record
        contradicts earlier ones; the image is then unchanged."""
        image, changes = self.following(records)
        self.publish(image, changes)
        return changes

    def following(self, records: Iterable[MetadataRecord]) -> tuple[MetadataImage, ImageChanges]:
        """Return the image that follows with these records, and its changes. The catalog's image is unchanged. Raises `InconsistentRecord`
        if a record contradicts earlier ones."""
        delta = ImageDelta(self.image)
        for record in records:
            delta.apply(record)
        changes = delta.changes()
        return delta.finish(), changes

    def publish(self, image: MetadataImage, changes: ImageChanges) -> None:
        """Replace the image by `image`, which differs from the current one by `changes`."""
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
