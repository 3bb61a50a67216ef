"""What is different between two images of the cluster, part by part: what a broker has to carry out."""

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
    """One topic: `before` is None where it is new, `after` where it is gone. A name that was created again is two of these."""

    before: TopicImage | None
    after: TopicImage | None
    partitions: frozenset[int]
    """Indexes of the partitions that are not as before: new, gone, or changed."""


class ImageChanges(NamedTuple):
    """By part the new value of each key whose value is another, None where it is gone. What is as before is not named."""

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
    """Brokers of which a setting was written, be it another or the same: then they look again at the files that it names (KAFKA-14136)."""


def difference(before: MetadataImage, after: MetadataImage) -> ImageChanges:
    """What is different. Reads both images whole, but skips what they share."""
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
    """The topic, the index, and what the partition was before, of each leader that was neither in sync nor eligible: it may lack records
    that were acknowledged."""
    for change in changes.topics.values():
        if change.before is None or change.after is None:
            continue
        for index in sorted(change.partitions & change.before.partitions.keys() & change.after.partitions.keys()):
            before, after = change.before.partitions[index], change.after.partitions[index]
            if after.leader_epoch > before.leader_epoch and after.leader not in {NO_LEADER, before.leader, *before.isr, *before.elr}:
                yield change.after, index, before


def map_difference(before: Mapping[K, V], after: Mapping[K, V]) -> dict[K, V | None]:
    """The keys whose values are not equal, with the value in `after`, None where it has none."""
    if before is after:
        return {}
    changed: dict[K, V | None] = {key: value for key, value in after.items() if key not in before or not same(before[key], value)}
    changed.update((key, None) for key in before if key not in after)
    return changed


def same(one: object, other: object) -> bool:
    """Whether they are equal, without a look inside where they are one object."""
    return one is other or one == other


def topic_change(before: TopicImage | None, after: TopicImage | None) -> TopicChange:
    """What became of one topic."""
    old = {} if before is None else before.partitions
    new = {} if after is None else after.partitions
    return TopicChange(before, after, frozenset(map_difference(old, new)))
