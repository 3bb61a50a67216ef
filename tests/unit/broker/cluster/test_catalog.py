from __future__ import annotations

import pytest

from ottla.broker.cluster.catalog import Catalog
from ottla.broker.cluster.image import ResourceType
from ottla.broker.cluster.image_changes import difference
from ottla.broker.cluster.metadata_records import (
    ConfigRecord,
    FeatureLevelRecord,
    PartitionChangeRecord,
    PartitionRecord,
    ProducerIdsRecord,
    RemoveTopicRecord,
    TopicRecord,
)
from ottla.broker.cluster.registrations import InconsistentRecord
from tests.support.metadata_images import made_of

ID = b"\x01" * 16
OTHER = b"\x02" * 16


def with_topic(name: str = "a.b", topic_id: bytes = ID) -> Catalog:
    catalog = Catalog()
    catalog.apply([TopicRecord(name, topic_id)])
    catalog.apply([PartitionRecord(partition_id=0, topic_id=topic_id, replicas=[1], isr=[1], leader=1, leader_epoch=0, partition_epoch=0)])
    return catalog


def test_a_topic_is_found_by_name_and_by_id() -> None:
    catalog = with_topic()
    assert catalog.topic("a.b") is catalog.topic_by_id(ID)
    assert catalog.topic("a.b").replication_factor == 1  # type: ignore[union-attr] # the line above shows that it exists
    assert catalog.topic("a_b") is None
    assert catalog.topic_by_id(OTHER) is None


def test_removing_a_topic_removes_its_configs_and_frees_colliding_names() -> None:
    catalog = with_topic()
    catalog.apply([ConfigRecord(ResourceType.TOPIC, "a.b", "retention.ms", "1")])
    catalog.apply([RemoveTopicRecord(ID)])
    assert len(catalog) == 0
    assert catalog.topic("a.b") is None
    assert catalog.topic_by_id(ID) is None
    assert catalog.colliding("a_b") is None
    assert catalog.configs(ResourceType.TOPIC, "a.b") == {}


def test_a_recreated_topic_has_only_its_new_id() -> None:
    catalog = with_topic()
    catalog.apply([RemoveTopicRecord(ID)])
    catalog.apply([TopicRecord("a.b", OTHER)])
    assert catalog.topic_by_id(ID) is None
    assert catalog.topic_by_id(OTHER) is catalog.topic("a.b")


def test_a_colliding_topic_is_found_only_for_names_with_dots_or_underscores() -> None:
    catalog = with_topic()
    assert catalog.colliding("a_b") == "a.b"
    assert catalog.colliding("a-b") is None


def test_setting_a_leader_raises_the_leader_epoch_and_any_change_the_partition_epoch() -> None:
    catalog = with_topic()
    catalog.apply([PartitionChangeRecord(partition_id=0, topic_id=ID, leader=1)])
    catalog.apply([PartitionChangeRecord(partition_id=0, topic_id=ID, isr=[])])
    topic = catalog.topic("a.b")
    assert topic is not None
    state = topic.partitions[0]
    assert (state.leader, state.leader_epoch, state.partition_epoch, state.isr) == (1, 1, 2, ())


def test_a_record_that_contradicts_earlier_ones_changes_nothing() -> None:
    catalog = with_topic()
    before = catalog.image
    with pytest.raises(InconsistentRecord):
        catalog.apply([PartitionChangeRecord(partition_id=0, topic_id=ID, leader=1), RemoveTopicRecord(OTHER)])
    assert catalog.image is before


def test_a_null_value_deletes_a_config_and_the_last_one_its_resource() -> None:
    catalog = with_topic()
    catalog.apply([ConfigRecord(ResourceType.BROKER, "1", "message.max.bytes", "1")])
    assert catalog.configured_resources(ResourceType.BROKER) == ["1"]
    catalog.apply([ConfigRecord(ResourceType.BROKER, "1", "message.max.bytes", None)])
    assert catalog.configured_resources(ResourceType.BROKER) == []


def test_the_next_producer_id_is_0_before_any_block_is_allocated() -> None:
    catalog = Catalog()
    assert catalog.next_producer_id == 0
    catalog.apply([ProducerIdsRecord(1, -1, 2000)])
    assert catalog.next_producer_id == 2000


def test_features_are_kept_by_name() -> None:
    catalog = Catalog()
    catalog.apply([FeatureLevelRecord("group.version", 1)])
    assert catalog.features == {"group.version": 1}
    catalog.apply([FeatureLevelRecord("group.version", 0)])
    assert catalog.features == {}


def test_records_applied_together_are_one_change() -> None:
    catalog = with_topic()
    before, count = catalog.image, catalog.changes
    changes = catalog.apply([RemoveTopicRecord(ID), TopicRecord("a.b", OTHER), ConfigRecord(ResourceType.BROKER, "1", "x", "y")])
    assert catalog.changes == count + 1
    assert changes == difference(before, catalog.image)
    catalog.apply([ProducerIdsRecord(1, -1, 2000)])
    assert catalog.changes == count + 1, "of topics"


def test_a_published_image_replaces_the_previous_one() -> None:
    catalog = with_topic()
    image = made_of(TopicRecord("c.d", OTHER))
    catalog.publish(image, difference(catalog.image, image))
    assert [topic.name for topic in catalog.topics()] == ["c.d"]
    assert (catalog.colliding("a_b"), catalog.colliding("c_d")) == (None, "c.d")


def test_a_name_recreated_in_one_change_still_collides() -> None:
    catalog = with_topic()
    catalog.apply([RemoveTopicRecord(ID), TopicRecord("a.b", OTHER)])
    assert catalog.colliding("a_b") == "a.b"


def test_an_unknown_partition_has_no_leader() -> None:
    catalog = Catalog()
    catalog.apply([TopicRecord("t", ID), PartitionRecord(0, ID, [4], [4], leader=4), PartitionRecord(1, ID, [4], [4], leader=-1)])
    assert [catalog.leader_of(place) for place in (("t", 0), ("t", 1), ("t", 2), ("u", 0))] == [4, -1, -1, -1]
