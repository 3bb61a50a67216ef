from __future__ import annotations

from ottla.broker.cluster.catalog import Catalog, ResourceType
from ottla.broker.cluster.catalog_records import (
    ConfigRecord,
    MetadataRecord,
    PartitionRecord,
    ProducerIdsRecord,
    RemoveTopicRecord,
    TopicRecord,
)
from ottla.broker.cluster.delta import Delta, delta_of

OLD, NEW = b"o" * 16, b"n" * 16


def with_old() -> Catalog:
    catalog = Catalog()
    for record in (TopicRecord("old", OLD), PartitionRecord(0, OLD, [1], [1])):
        catalog.apply(record)
    return catalog


def test_a_new_topic_is_created_and_not_grown_by_its_own_partitions() -> None:
    records: list[MetadataRecord] = [TopicRecord("new", NEW), PartitionRecord(0, NEW, [1], [1])]
    assert delta_of(with_old(), records) == Delta(created=("new",))


def test_more_partitions_of_a_topic_that_is_there_make_it_grow() -> None:
    assert delta_of(with_old(), [PartitionRecord(1, OLD, [1], [1]), PartitionRecord(2, OLD, [1], [1])]) == Delta(grown=("old",))


def test_a_removed_topic_is_told_with_its_partitions_though_it_will_be_gone() -> None:
    (removed,) = delta_of(with_old(), [RemoveTopicRecord(OLD)]).removed
    assert (removed.name, list(removed.partitions)) == ("old", [0])


def test_the_removal_of_a_topic_that_is_not_there_changes_nothing() -> None:
    assert delta_of(with_old(), [RemoveTopicRecord(NEW)]) == Delta()


def test_settings_are_told_by_their_resource() -> None:
    records = [ConfigRecord(ResourceType.TOPIC, "old", "retention.ms", "1"), ConfigRecord(ResourceType.TOPIC, "old", "segment.ms", "2")]
    assert delta_of(with_old(), records) == Delta(configured=frozenset({(ResourceType.TOPIC, "old")}))


def test_a_block_of_producer_ids_is_nothing_to_carry_out() -> None:
    assert delta_of(with_old(), [ProducerIdsRecord(1, -1, 1000)]) == Delta()
