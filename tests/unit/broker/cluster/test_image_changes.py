from __future__ import annotations

from ottla.broker.cluster.image import EMPTY
from ottla.broker.cluster.image_changes import ImageChanges, TopicChange, difference, map_difference
from ottla.broker.cluster.metadata_records import (
    ConfigRecord,
    PartitionChangeRecord,
    PartitionRecord,
    ProducerIdsRecord,
    RegisterBrokerRecord,
    RemoveTopicRecord,
    TopicRecord,
    UnregisterBrokerRecord,
)
from tests.support.metadata_images import made_of

ID, OTHER = b"i" * 16, b"o" * 16
BEFORE = made_of(TopicRecord("a", ID), PartitionRecord(0, ID, [1], [1]), PartitionRecord(1, ID, [1], [1]), RegisterBrokerRecord(1))


def test_equal_images_have_no_difference() -> None:
    assert difference(BEFORE, BEFORE) == difference(EMPTY, EMPTY) == ImageChanges()
    again = made_of(TopicRecord("a", ID), RegisterBrokerRecord(1), PartitionRecord(1, ID, [1], [1]), PartitionRecord(0, ID, [1], [1]))
    assert difference(BEFORE, again) == ImageChanges()


def test_a_changed_topic_is_told_before_and_after_with_the_partitions_that_changed() -> None:
    after = made_of(PartitionChangeRecord(1, ID, leader=1), PartitionRecord(2, ID, [1], [1]), image=BEFORE)
    assert difference(BEFORE, after).topics == {ID: TopicChange(BEFORE.topics[ID], after.topics[ID], frozenset({1, 2}))}


def test_a_name_that_was_created_again_is_one_topic_gone_and_one_new() -> None:
    after = made_of(RemoveTopicRecord(ID), TopicRecord("a", OTHER), PartitionRecord(0, OTHER, [1], [1]), image=BEFORE)
    assert difference(BEFORE, after).topics == {
        ID: TopicChange(BEFORE.topics[ID], None, frozenset({0, 1})),
        OTHER: TopicChange(None, after.topics[OTHER], frozenset({0})),
    }


def test_what_is_gone_is_told_without_a_value() -> None:
    after = made_of(UnregisterBrokerRecord(1), ConfigRecord(2, "a", "x", "1"), ProducerIdsRecord(1, 1, 1000), image=BEFORE)
    changes = difference(BEFORE, after)
    assert (changes.brokers, changes.configs, changes.next_producer_id) == ({1: None}, {(2, "a"): {"x": "1"}}, 1000)
    assert difference(after, BEFORE).configs == {(2, "a"): None}


def test_a_map_is_compared_by_its_values() -> None:
    assert map_difference({1: "a", 2: "b", 3: "c"}, {1: "a", 2: "x", 4: "d"}) == {2: "x", 4: "d", 3: None}
