"""What topics, settings and producer-id blocks exist: the state that `__cluster_metadata-0` describes, and the only code that changes it.

Rules that hold inside:
- Only `Catalog.apply` changes state, one record at a time, so replaying the log gives exactly the state that running gave (KRaft's replay).
- A topic is found by name and by id, and both always lead to the same object; a name that is created again has a new id.
- A record of a topic that is gone, and a record of a kind we do not use (a Kafka's own log has many), changes nothing.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from enum import IntEnum

from ottla.broker.cluster.catalog_records import (
    ConfigRecord,
    FeatureLevelRecord,
    MetadataRecord,
    PartitionChangeRecord,
    PartitionRecord,
    ProducerIdsRecord,
    RemoveTopicRecord,
    TopicRecord,
)
from ottla.broker.cluster.metadata_records import LEADER_UNCHANGED
from ottla.broker.cluster.topic_names import collision_key, has_collision_chars, is_internal


class ResourceType(IntEnum):
    """What a configuration belongs to (Kafka's `ConfigResource.Type`)."""

    UNKNOWN = 0
    TOPIC = 2
    BROKER = 4
    BROKER_LOGGER = 8
    CLIENT_METRICS = 16
    GROUP = 32


@dataclass(frozen=True, slots=True)
class PartitionState:
    """Who holds a partition. `leader_epoch` grows with each election, `partition_epoch` with each change of any kind."""

    replicas: tuple[int, ...]
    isr: tuple[int, ...]
    leader: int
    leader_epoch: int
    partition_epoch: int


@dataclass(slots=True)
class Topic:
    """One topic; `partitions` by index, without gaps once the topic's creation is applied whole."""

    name: str
    topic_id: bytes
    partitions: dict[int, PartitionState] = field(default_factory=dict)

    @property
    def is_internal(self) -> bool:
        """Whether the broker itself writes it."""
        return is_internal(self.name)

    @property
    def replication_factor(self) -> int:
        """Replicas of the first partition, as Kafka counts it; 0 while there is no partition."""
        return len(self.partitions[0].replicas) if 0 in self.partitions else 0


class Catalog:
    """The applied state. Reading is free; changing goes through `apply`."""

    def __init__(self) -> None:
        self._by_name: dict[str, Topic] = {}
        self._by_id: dict[bytes, Topic] = {}
        self._collisions: dict[str, set[str]] = {}
        self._configs: dict[tuple[int, str], dict[str, str]] = {}
        self.features: dict[str, int] = {}
        self.next_producer_id = 0
        self.changes = 0
        """Another number after every change of a topic or its partitions."""

    def topic(self, name: str) -> Topic | None:
        """The topic of that name, or None."""
        return self._by_name.get(name)

    def has_partition(self, place: tuple[str, int]) -> bool:
        """Whether this partition, by topic and index, is one of a topic that was not deleted, be it online or not."""
        topic = self._by_name.get(place[0])
        return topic is not None and place[1] in topic.partitions

    def partition_count(self, name: str) -> int:
        """How many partitions the topic has, be they online or not; 0 where there is no such topic."""
        topic = self._by_name.get(name)
        return 0 if topic is None else len(topic.partitions)

    def topic_by_id(self, topic_id: bytes) -> Topic | None:
        """The topic of that id, or None."""
        return self._by_id.get(bytes(topic_id))

    def topics(self) -> list[Topic]:
        """All topics in the order of their names."""
        return [self._by_name[name] for name in sorted(self._by_name)]

    def __len__(self) -> int:
        return len(self._by_name)

    def colliding(self, name: str) -> str | None:
        """An existing topic whose name metrics could not tell from `name`, or None."""
        if not has_collision_chars(name):
            return None
        return min(self._collisions.get(collision_key(name), ()), default=None)

    def configs(self, resource_type: int, resource_name: str) -> Mapping[str, str]:
        """What was set on one resource: names and values as text, without defaults."""
        return self._configs.get((resource_type, resource_name), {})

    def configured_resources(self, resource_type: int) -> list[str]:
        """Names of the resources of one type on which anything is set, sorted."""
        return sorted(name for kind, name in self._configs if kind == resource_type)

    def apply(self, record: MetadataRecord) -> None:
        """Makes what the record says true."""
        if isinstance(record, TopicRecord | PartitionRecord | PartitionChangeRecord | RemoveTopicRecord):
            self.changes += 1
        match record:
            case TopicRecord():
                self._add_topic(Topic(record.name, bytes(record.topic_id)))
            case PartitionRecord():
                if (topic := self.topic_by_id(record.topic_id)) is not None:
                    topic.partitions[record.partition_id] = PartitionState(
                        tuple(record.replicas), tuple(record.isr), record.leader, record.leader_epoch, record.partition_epoch
                    )
            case PartitionChangeRecord():
                if (topic := self.topic_by_id(record.topic_id)) is not None and record.partition_id in topic.partitions:
                    topic.partitions[record.partition_id] = _changed(topic.partitions[record.partition_id], record)
            case RemoveTopicRecord():
                self._remove_topic(record.topic_id)
            case ConfigRecord():
                self._set_config(record)
            case ProducerIdsRecord():
                self.next_producer_id = max(self.next_producer_id, record.next_producer_id)
            case FeatureLevelRecord():
                self._set_level(record.name, record.feature_level)

    def _set_level(self, feature: str, level: int) -> None:
        if level:
            self.features[feature] = level
        else:
            self.features.pop(feature, None)

    def _add_topic(self, topic: Topic) -> None:
        assert topic.name not in self._by_name, f"topic {topic.name} created twice"
        assert topic.topic_id not in self._by_id, f"topic id of {topic.name} used twice"
        self._by_name[topic.name] = topic
        self._by_id[topic.topic_id] = topic
        if has_collision_chars(topic.name):
            self._collisions.setdefault(collision_key(topic.name), set()).add(topic.name)

    def _remove_topic(self, topic_id: bytes) -> None:
        topic = self._by_id.pop(bytes(topic_id), None)
        if topic is None:
            return
        del self._by_name[topic.name]
        self._configs.pop((ResourceType.TOPIC, topic.name), None)
        if has_collision_chars(topic.name):
            key = collision_key(topic.name)
            self._collisions[key].discard(topic.name)
            if not self._collisions[key]:
                del self._collisions[key]

    def _set_config(self, record: ConfigRecord) -> None:
        key = (record.resource_type, record.resource_name)
        values = self._configs.setdefault(key, {})
        if record.value is None:
            values.pop(record.name, None)
        else:
            values[record.name] = record.value
        if not values:
            del self._configs[key]


def _changed(state: PartitionState, record: PartitionChangeRecord) -> PartitionState:
    """Kafka's `PartitionRegistration.merge`: naming a leader starts a new leader epoch, even when it is the same leader."""
    elected = record.leader != LEADER_UNCHANGED
    return replace(
        state,
        replicas=state.replicas if record.replicas is None else tuple(record.replicas),
        isr=state.isr if record.isr is None else tuple(record.isr),
        leader=record.leader if elected else state.leader,
        leader_epoch=state.leader_epoch + elected,
        partition_epoch=state.partition_epoch + 1,
    )
