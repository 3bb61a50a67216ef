"""Converts a metadata image to records, which are the contents of a snapshot (Kafka's `MetadataImage.write`).

Invariants:
- The record of `metadata.version` comes first, because this level decides how the others are written. The parts follow in Kafka's order,
  each sorted by key, so equal images give equal records.
- State that the image's level cannot express is an error, not a silent loss. Only eligible leader replicas are left out, as in Kafka, if
  the cluster does not use them.
"""

from __future__ import annotations

from collections.abc import Iterator

from ottla.broker.cluster.features import METADATA_VERSION
from ottla.broker.cluster.image import ELR_VERSION, MIGRATING, BrokerRegistration, MetadataImage, QuotaTarget
from ottla.broker.cluster.metadata_records import (
    ClientQuotaRecord,
    ConfigRecord,
    FeatureLevelRecord,
    MetadataRecord,
    PartitionRecord,
    ProducerIdsRecord,
    QuotaEntity,
    TopicRecord,
)
from ottla.broker.cluster.record_versions import CORDONED_DIRECTORIES, DIRECTORIES, MIGRATION, NotWritable
from ottla.broker.cluster.registrations import broker_record, controller_record, partition_record


def to_records(image: MetadataImage) -> Iterator[MetadataRecord]:
    """Yield the records that describe the image, to be written at its `metadata.version`. Raises `NotWritable` if that level cannot express
    them; KeyError for an image without a level.
    """
    yield from _features(image)
    yield from _cluster(image)
    yield from _topics(image)
    for (kind, resource), values in sorted(image.configs.items()):
        for name, value in sorted(values.items()):
            yield ConfigRecord(kind, resource, name, value)
    for target in sorted(image.client_quotas, key=_order):
        entity = [QuotaEntity(kind, name) for kind, name in sorted(target, key=_part_order)]
        for key, limit in sorted(image.client_quotas[target].items()):
            yield ClientQuotaRecord(entity, key, limit)
    if image.next_producer_id >= 0:
        yield ProducerIdsRecord(-1, -1, image.next_producer_id)
    yield from (image.acls[acl_id] for acl_id in sorted(image.acls))
    yield from (image.scram[user] for user in sorted(image.scram))
    yield from (image.delegation_tokens[token_id] for token_id in sorted(image.delegation_tokens))


def _features(image: MetadataImage) -> Iterator[MetadataRecord]:
    yield FeatureLevelRecord(METADATA_VERSION, image.metadata_level)
    for name, level in sorted(image.features.items()):
        if name != METADATA_VERSION:
            yield FeatureLevelRecord(name, level)


def _cluster(image: MetadataImage) -> Iterator[MetadataRecord]:
    for broker_id in sorted(image.brokers):
        broker = image.brokers[broker_id]
        _refuse_loss(broker, image.metadata_level)
        yield broker_record(broker)
    yield from (controller_record(image.controllers[controller_id]) for controller_id in sorted(image.controllers))


def _topics(image: MetadataImage) -> Iterator[MetadataRecord]:
    with_elr = image.features.get(ELR_VERSION, 0) >= 1
    with_directories = image.metadata_level >= DIRECTORIES
    for name in sorted(image.topic_ids):
        topic = image.topics[image.topic_ids[name]]
        yield TopicRecord(name, topic.topic_id)
        for index in sorted(topic.partitions):
            record = partition_record(topic.topic_id, index, topic.partitions[index], with_elr=with_elr)
            yield record if with_directories else _without_directories(record)


def _without_directories(record: PartitionRecord) -> PartitionRecord:
    if any(directory != MIGRATING for directory in record.directories):
        raise NotWritable("directories of replicas cannot be written below metadata.version 17")
    record.directories = []
    return record


def _refuse_loss(broker: BrokerRegistration, level: int) -> None:
    kept = {
        "the ZooKeeper migration state": (broker.is_migrating_zk_broker, MIGRATION),
        "the directories": (bool(broker.directories), DIRECTORIES),
        "the cordoned directories": (broker.cordoned_directories is not None, CORDONED_DIRECTORIES),
    }
    for what, (there, since) in kept.items():
        if there and level < since:
            raise NotWritable(f"{what} of broker {broker.broker_id} cannot be written below metadata.version {since}")


def _part_order(part: tuple[str, str | None]) -> tuple[str, bool, str]:
    """Return the sort key of a quota entity's component (type and name): types in order and, within a type, the default, whose name is
    None, first.
    """
    return part[0], part[1] is not None, part[1] or ""


def _order(target: QuotaTarget) -> list[tuple[str, bool, str]]:
    return sorted(map(_part_order, target))
