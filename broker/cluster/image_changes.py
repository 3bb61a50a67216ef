"""The difference between two metadata images, part by part: the changes that a broker has to apply."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import NamedTuple, TypeVar

from ottla.broker.cluster.image import (
    NONE,
    BrokerRegistration,
    ConfigResource,
    ControllerRegistration,
    MetadataImage,
    PartitionRegistration,
    QuotaTarget,
    ResourceType,
    ScramUser,
    TopicImage,
)
from ottla.broker.cluster.metadata_records import NO_LEADER, AccessControlEntryRecord, DelegationTokenRecord, UserScramCredentialRecord

K = TypeVar("K")
V = TypeVar("V")


class TopicChange(NamedTuple):
    """The change of one topic. `before` is None if the topic is new, `after` is None if it was deleted. A topic that was deleted and
    created again has two changes, one for each topic id.
    """

    before: TopicImage | None
    after: TopicImage | None
    partitions: frozenset[int]
    """Indexes of the partitions that were created, deleted or changed."""


class ImageChanges(NamedTuple):
    """The changes of each part of an image: a mapping from each changed key to its new value, None if the key was removed. Unchanged keys
    are absent.
    """

    features: Mapping[str, int | None] = NONE
    brokers: Mapping[int, BrokerRegistration | None] = NONE
    controllers: Mapping[int, ControllerRegistration | None] = NONE
    topics: Mapping[bytes, TopicChange] = NONE
    configs: Mapping[ConfigResource, Mapping[str, str] | None] = NONE
    client_quotas: Mapping[QuotaTarget, Mapping[str, float] | None] = NONE
    next_producer_id: int | None = None
    acls: Mapping[bytes, AccessControlEntryRecord | None] = NONE
    scram: Mapping[ScramUser, UserScramCredentialRecord | None] = NONE
    delegation_tokens: Mapping[str, DelegationTokenRecord | None] = NONE
    brokers_set: frozenset[str] = frozenset()
    """The node ids, as text, of the brokers for which a setting was written, even if its value is unchanged. Such a broker reloads the
    files that its settings name, such as keystores (KAFKA-14136)."""


def difference(before: MetadataImage, after: MetadataImage) -> ImageChanges:
    """Return the difference between two images, part by part. A part is compared entry by entry, except if it is the same object in both
    images.
    """
    configs = map_difference(before.configs, after.configs)
    return ImageChanges(
        features=map_difference(before.features, after.features),
        brokers=map_difference(before.brokers, after.brokers),
        controllers=map_difference(before.controllers, after.controllers),
        topics={
            topic_id: topic_change(before.topics.get(topic_id), after.topics.get(topic_id))
            for topic_id in map_difference(before.topics, after.topics)
        },
        configs=configs,
        brokers_set=frozenset(name for kind, name in configs if kind == ResourceType.BROKER),
        client_quotas=map_difference(before.client_quotas, after.client_quotas),
        next_producer_id=None if before.next_producer_id == after.next_producer_id else after.next_producer_id,
        acls=map_difference(before.acls, after.acls),
        scram=map_difference(before.scram, after.scram),
        delegation_tokens=map_difference(before.delegation_tokens, after.delegation_tokens),
    )


def unclean_elections(changes: ImageChanges) -> Iterator[tuple[TopicImage, int, PartitionRegistration]]:
    """Yield topic, index and former state of each partition whose new leader was neither in the ISR nor in the ELR, so that it may lack
    acknowledged records."""
    for change in changes.topics.values():
        if change.before is None or change.after is None:
            continue
        for index in sorted(change.partitions & change.before.partitions.keys() & change.after.partitions.keys()):
            before, after = change.before.partitions[index], change.after.partitions[index]
            if after.leader_epoch > before.leader_epoch and after.leader not in {NO_LEADER, before.leader, *before.isr, *before.elr}:
                yield change.after, index, before


def map_difference(before: Mapping[K, V], after: Mapping[K, V]) -> dict[K, V | None]:
    """Return the keys whose values differ, each with its value in `after`, or None if `after` lacks the key."""
    if before is after:
        return {}
    changed: dict[K, V | None] = {key: value for key, value in after.items() if key not in before or not same(before[key], value)}
    changed.update((key, None) for key in before if key not in after)
    return changed


def same(one: object, other: object) -> bool:
    """Return whether two values are equal. Identical objects are not compared, which saves time for large values."""
    return one is other or one == other


def topic_change(before: TopicImage | None, after: TopicImage | None) -> TopicChange:
    """Return the change of one topic from `before` (None: it is new) to `after` (None: it was deleted)."""
    old = {} if before is None else before.partitions
    new = {} if after is None else after.partitions
    return TopicChange(before, after, frozenset(map_difference(old, new)))
