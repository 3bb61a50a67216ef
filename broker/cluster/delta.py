"""What a batch of metadata records changes, told before it is applied: who carries it out needs to know what was there."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from ottla.broker.cluster.catalog import Catalog, Topic
from ottla.broker.cluster.catalog_records import ConfigRecord, MetadataRecord, PartitionRecord, RemoveTopicRecord, TopicRecord


@dataclass(frozen=True, slots=True)
class Delta:
    """Topics by name where they will be there, whole where they will be gone."""

    created: tuple[str, ...] = ()
    grown: tuple[str, ...] = ()
    """Topics that were there, with more partitions."""
    removed: tuple[Topic, ...] = ()
    configured: frozenset[tuple[int, str]] = frozenset()
    """Resources (type and name) of which a setting changes."""


def delta_of(catalog: Catalog, records: Iterable[MetadataRecord]) -> Delta:
    """What `records` will change in `catalog`."""
    created: dict[bytes, str] = {}
    grown: dict[str, None] = {}
    removed: list[Topic] = []
    configured: set[tuple[int, str]] = set()
    for record in records:
        match record:
            case TopicRecord():
                created[bytes(record.topic_id)] = record.name
            case PartitionRecord():
                if (topic := catalog.topic_by_id(record.topic_id)) is not None:
                    grown[topic.name] = None
            case RemoveTopicRecord():
                if (topic := catalog.topic_by_id(record.topic_id)) is not None:
                    removed.append(topic)
            case ConfigRecord():
                configured.add((record.resource_type, record.resource_name))
    return Delta(tuple(created.values()), tuple(grown), tuple(removed), frozenset(configured))
