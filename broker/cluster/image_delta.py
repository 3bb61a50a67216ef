"""Makes the next metadata image from an image and records: `apply` takes one record at a time, `finish` returns the image (Kafka's
`MetadataDelta`).

Invariants:
- The base image does not change. The cost of a delta is proportional to its changes, plus a shallow copy of the map of each changed part.
- The image does not depend on how records are divided into deltas.
- A record that contradicts earlier ones raises `InconsistentRecord` and leaves the delta unusable; it must be discarded.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Final, Generic, TypeVar

from ottla.broker.cluster.features import METADATA_VERSION, SUPPORTED
from ottla.broker.cluster.image import KRAFT_VERSION, MetadataImage, PartitionRegistration, ResourceType, TopicImage
from ottla.broker.cluster.image_changes import ImageChanges, TopicChange, same, topic_change
from ottla.broker.cluster.metadata_records import (
    AccessControlEntryRecord,
    BrokerRegistrationChangeRecord,
    ClearElrRecord,
    ClientQuotaRecord,
    ConfigRecord,
    DelegationTokenRecord,
    FeatureLevelRecord,
    FenceBrokerRecord,
    MetadataRecord,
    NoOpRecord,
    PartitionChangeRecord,
    PartitionRecord,
    ProducerIdsRecord,
    RegisterBrokerRecord,
    RegisterControllerRecord,
    RemoveAccessControlEntryRecord,
    RemoveDelegationTokenRecord,
    RemoveTopicRecord,
    RemoveUserScramCredentialRecord,
    TopicRecord,
    UnfenceBrokerRecord,
    UnregisterBrokerRecord,
    UnregisterControllerRecord,
    UserScramCredentialRecord,
    ZkMigrationStateRecord,
)
from ottla.broker.cluster.registrations import (
    InconsistentRecord,
    broker_of,
    changed_broker,
    changed_partition,
    controller_of,
    partition_of,
    without_elr,
)

K = TypeVar("K")
V = TypeVar("V")


class MapDelta(Generic[K, V]):
    """The changes to one of an image's mappings. The base map, that of the previous image, stays unchanged."""

    __slots__ = ("base", "changed")

    def __init__(self, base: Mapping[K, V]) -> None:
        self.base = base
        self.changed: dict[K, V | None] = {}

    def get(self, key: K) -> V | None:
        """Return the key's current value, changed or from the base map; None if there is none."""
        return self.changed[key] if key in self.changed else self.base.get(key)

    def put(self, key: K, value: V) -> None:
        """Set the key's value in the changes; the base map stays unchanged."""
        self.changed[key] = value

    def drop(self, key: K) -> None:
        """Remove the key in the changes, if it exists; the base map stays unchanged."""
        if key in self.base:
            self.changed[key] = None
        else:
            self.changed.pop(key, None)

    def items(self) -> list[tuple[K, V]]:
        """Return the keys and values of the base map with the changes applied."""
        unchanged = [(key, value) for key, value in self.base.items() if key not in self.changed]
        return unchanged + [(key, value) for key, value in self.changed.items() if value is not None]

    def differing(self) -> dict[K, V | None]:
        """Return the changes against the base map: new values by key, None for a removed key."""
        return {key: value for key, value in self.changed.items() if not same(self.base.get(key), value)}

    def finish(self) -> Mapping[K, V]:
        """Return a new map with the changes applied; the base map itself if there are none."""
        differing = self.differing()
        if not differing:
            return self.base
        made = dict(self.base)
        for key, value in differing.items():
            if value is None:
                del made[key]
            else:
                made[key] = value
        return made


class TopicDelta:
    """A topic that is new or changed in an `ImageDelta`, with its changed partitions."""

    __slots__ = ("image", "partitions")

    def __init__(self, image: TopicImage) -> None:
        self.image = image
        self.partitions: MapDelta[int, PartitionRegistration] = MapDelta(image.partitions)

    def finish(self) -> TopicImage:
        """Return the topic with its partitions' changes applied; the unchanged base topic if there are none."""
        partitions = self.partitions.finish()
        return self.image if partitions is self.image.partitions else self.image._replace(partitions=partitions)


class ImageDelta:
    """The changes from `image` to the next one. Call `apply` for each record, then `finish`."""

    def __init__(self, image: MetadataImage) -> None:
        self.image = image
        self._features = MapDelta(image.features)
        self._brokers = MapDelta(image.brokers)
        self._controllers = MapDelta(image.controllers)
        self._topics: dict[bytes, TopicDelta | None] = {}
        self._topic_ids = MapDelta(image.topic_ids)
        self._configs = MapDelta(image.configs)
        self._brokers_set: set[str] = set()
        self._quotas = MapDelta(image.client_quotas)
        self._next_producer_id = image.next_producer_id
        self._acls = MapDelta(image.acls)
        self._scram = MapDelta(image.scram)
        self._tokens = MapDelta(image.delegation_tokens)

    def apply(self, record: MetadataRecord) -> None:
        """Apply one metadata record to the delta. Raises `InconsistentRecord` if the record contradicts earlier ones, or has a type that is
        not part of an image; the delta is then unusable."""
        change = _APPLIED.get(type(record))
        if change is None:
            raise InconsistentRecord(f"{type(record).__name__} cannot be part of an image")
        change(self, record)

    def finish(self) -> MetadataImage:
        """Return the next image: the base image with all applied records."""
        return MetadataImage(
            features=self._features.finish(),
            brokers=self._brokers.finish(),
            controllers=self._controllers.finish(),
            topics=self._finished_topics(),
            topic_ids=self._topic_ids.finish(),
            configs=self._configs.finish(),
            client_quotas=self._quotas.finish(),
            next_producer_id=self._next_producer_id,
            acls=self._acls.finish(),
            scram=self._scram.finish(),
            delegation_tokens=self._tokens.finish(),
        )

    def changes(self) -> ImageChanges:
        """Return the changes from the base image to the next one. The cost depends on the changes only, not on the size of the images."""
        return ImageChanges(
            features=self._features.differing(),
            brokers=self._brokers.differing(),
            controllers=self._controllers.differing(),
            topics=self._changed_topics(),
            configs=self._configs.differing(),
            brokers_set=frozenset(self._brokers_set),
            client_quotas=self._quotas.differing(),
            next_producer_id=None if self._next_producer_id == self.image.next_producer_id else self._next_producer_id,
            acls=self._acls.differing(),
            scram=self._scram.differing(),
            delegation_tokens=self._tokens.differing(),
        )

    def _finished_topics(self) -> Mapping[bytes, TopicImage]:
        topics: MapDelta[bytes, TopicImage] = MapDelta(self.image.topics)
        for topic_id, delta in self._topics.items():
            if delta is None:
                topics.drop(topic_id)
            else:
                topics.put(topic_id, delta.finish())
        return topics.finish()

    def _changed_topics(self) -> dict[bytes, TopicChange]:
        found = {}
        for topic_id, delta in self._topics.items():
            before = self.image.topics.get(topic_id)
            after = None if delta is None else delta.finish()
            if delta is not None and delta.image is before:
                change = TopicChange(before, after, frozenset(delta.partitions.differing()))
            else:
                change = topic_change(before, after)
            if not same(change.before, change.after):
                found[topic_id] = change
        return found

    def _topic(self, topic_id: bytes) -> TopicDelta:
        if topic_id not in self._topics and topic_id in self.image.topics:
            self._topics[topic_id] = TopicDelta(self.image.topics[topic_id])
        topic = self._topics.get(topic_id)
        if topic is None:
            raise InconsistentRecord(f"topic {topic_id.hex()} does not exist")
        return topic

    def _add_topic(self, record: TopicRecord) -> None:
        taken = self._topics[record.topic_id] is not None if record.topic_id in self._topics else record.topic_id in self.image.topics
        if taken or self._topic_ids.get(record.name) is not None:
            raise InconsistentRecord(f"topic {record.name} or its id {record.topic_id.hex()} exists already")
        self._topics[record.topic_id] = TopicDelta(TopicImage(record.name, record.topic_id))
        self._topic_ids.put(record.name, record.topic_id)

    def _remove_topic(self, record: RemoveTopicRecord) -> None:
        name = self._topic(record.topic_id).image.name
        if record.topic_id in self.image.topics:
            self._topics[record.topic_id] = None
        else:
            del self._topics[record.topic_id]
        self._topic_ids.drop(name)
        self._configs.drop((ResourceType.TOPIC, name))

    def _add_partition(self, record: PartitionRecord) -> None:
        self._topic(record.topic_id).partitions.put(record.partition_id, partition_of(record))

    def _change_partition(self, record: PartitionChangeRecord) -> None:
        partitions = self._topic(record.topic_id).partitions
        before = partitions.get(record.partition_id)
        if before is None:
            raise InconsistentRecord(f"topic {record.topic_id.hex()} has no partition {record.partition_id}")
        partitions.put(record.partition_id, changed_partition(before, record))

    def _clear_elr(self, record: ClearElrRecord) -> None:
        named = self._topic_ids.get(record.topic_name)
        if record.topic_name and named is None:
            raise InconsistentRecord(f"topic {record.topic_name} does not exist")
        for topic_id in [topic_id for _, topic_id in self._topic_ids.items()] if named is None else [named]:
            partitions = self._topic(topic_id).partitions
            for index, before in partitions.items():
                if (cleared := without_elr(before)) is not before:
                    partitions.put(index, cleared)

    def _add_broker(self, record: RegisterBrokerRecord) -> None:
        self._brokers.put(record.broker_id, broker_of(record))

    def _remove_broker(self, record: UnregisterBrokerRecord) -> None:
        self._brokers.drop(record.broker_id)

    def _change_broker(self, record: BrokerRegistrationChangeRecord) -> None:
        before = self._brokers.get(record.broker_id)
        if before is None or before.epoch != record.broker_epoch:
            found = "is not registered" if before is None else f"has epoch {before.epoch}"
            raise InconsistentRecord(f"broker {record.broker_id} of epoch {record.broker_epoch} changes, but {found}")
        self._brokers.put(record.broker_id, changed_broker(before, record))

    def _fence(self, record: FenceBrokerRecord) -> None:
        self._change_broker(BrokerRegistrationChangeRecord(record.id, record.epoch, fenced=1))

    def _unfence(self, record: UnfenceBrokerRecord) -> None:
        self._change_broker(BrokerRegistrationChangeRecord(record.id, record.epoch, fenced=-1))

    def _add_controller(self, record: RegisterControllerRecord) -> None:
        self._controllers.put(record.controller_id, controller_of(record))

    def _remove_controller(self, record: UnregisterControllerRecord) -> None:
        self._controllers.drop(record.controller_id)

    def _set_level(self, record: FeatureLevelRecord) -> None:
        lowest, highest = SUPPORTED[METADATA_VERSION]
        if record.name == METADATA_VERSION and not lowest <= record.feature_level <= highest:
            raise InconsistentRecord(f"metadata.version {record.feature_level} is not supported by this broker ({lowest} to {highest})")
        if record.name == KRAFT_VERSION:
            return  # it belongs to Raft; a bug of older Kafkas wrote it here (KAFKA-18979)
        if record.feature_level:
            self._features.put(record.name, record.feature_level)
        else:
            self._features.drop(record.name)

    def _set_config(self, record: ConfigRecord) -> None:
        if record.resource_type == ResourceType.BROKER:
            self._brokers_set.add(record.resource_name)
        _set_in(self._configs, (record.resource_type, record.resource_name), record.name, record.value)

    def _set_quota(self, record: ClientQuotaRecord) -> None:
        target = frozenset((part.entity_type, part.entity_name) for part in record.entity)
        _set_in(self._quotas, target, record.key, None if record.remove else record.value)

    def _set_producer_ids(self, record: ProducerIdsRecord) -> None:
        self._next_producer_id = record.next_producer_id

    def _add_acl(self, record: AccessControlEntryRecord) -> None:
        self._acls.put(record.id, record)

    def _remove_acl(self, record: RemoveAccessControlEntryRecord) -> None:
        if self._acls.get(record.id) is None:
            raise InconsistentRecord(f"ACL {record.id.hex()} does not exist")
        self._acls.drop(record.id)

    def _add_credential(self, record: UserScramCredentialRecord) -> None:
        self._scram.put((record.mechanism, record.name), record)

    def _remove_credential(self, record: RemoveUserScramCredentialRecord) -> None:
        self._scram.drop((record.mechanism, record.name))

    def _add_token(self, record: DelegationTokenRecord) -> None:
        self._tokens.put(record.token_id, record)

    def _remove_token(self, record: RemoveDelegationTokenRecord) -> None:
        self._tokens.drop(record.token_id)

    def _nothing(self, record: MetadataRecord) -> None:
        """Do nothing: the record does not change the image, only its offset."""


def _set_in(maps: MapDelta[K, Mapping[str, V]], key: K, name: str, value: V | None) -> None:
    """Set the entry `name` of the map that `maps` has for `key` to `value`, or remove the entry if `value` is None. An empty inner map is
    removed.

    The inner map is copied once in a delta, not for each record: a broker may have any number of settings.
    """
    changed = maps.changed.get(key)
    inner = changed if isinstance(changed, dict) else dict(maps.get(key) or {})
    if value is None:
        inner.pop(name, None)
    else:
        inner[name] = value
    if inner:
        maps.put(key, inner)
    else:
        maps.drop(key)


_APPLIED: Final[Mapping[type[MetadataRecord], Callable[[ImageDelta, Any], None]]] = {
    RegisterBrokerRecord: ImageDelta._add_broker,
    UnregisterBrokerRecord: ImageDelta._remove_broker,
    BrokerRegistrationChangeRecord: ImageDelta._change_broker,
    FenceBrokerRecord: ImageDelta._fence,
    UnfenceBrokerRecord: ImageDelta._unfence,
    RegisterControllerRecord: ImageDelta._add_controller,
    UnregisterControllerRecord: ImageDelta._remove_controller,
    TopicRecord: ImageDelta._add_topic,
    RemoveTopicRecord: ImageDelta._remove_topic,
    PartitionRecord: ImageDelta._add_partition,
    PartitionChangeRecord: ImageDelta._change_partition,
    ClearElrRecord: ImageDelta._clear_elr,
    ConfigRecord: ImageDelta._set_config,
    FeatureLevelRecord: ImageDelta._set_level,
    ClientQuotaRecord: ImageDelta._set_quota,
    ProducerIdsRecord: ImageDelta._set_producer_ids,
    AccessControlEntryRecord: ImageDelta._add_acl,
    RemoveAccessControlEntryRecord: ImageDelta._remove_acl,
    UserScramCredentialRecord: ImageDelta._add_credential,
    RemoveUserScramCredentialRecord: ImageDelta._remove_credential,
    DelegationTokenRecord: ImageDelta._add_token,
    RemoveDelegationTokenRecord: ImageDelta._remove_token,
    NoOpRecord: ImageDelta._nothing,
    ZkMigrationStateRecord: ImageDelta._nothing,
}
"""The method that applies a record of each type to an `ImageDelta`. The records that begin, end or abort a metadata transaction are
missing, because the `MetadataLoader` handles them."""
