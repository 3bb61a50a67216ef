from __future__ import annotations

from ottla.broker.cluster.image import EMPTY
from ottla.broker.cluster.image_changes import ImageChanges, TopicChange, difference, map_difference, unclean_elections
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


def test_a_changed_topic_has_its_old_and_new_image_and_changed_partitions() -> None:
    after = made_of(PartitionChangeRecord(1, ID, leader=1), PartitionRecord(2, ID, [1], [1]), image=BEFORE)
    assert difference(BEFORE, after).topics == {ID: TopicChange(BEFORE.topics[ID], after.topics[ID], frozenset({1, 2}))}


def test_a_recreated_topic_is_one_deleted_and_one_new_topic() -> None:
    after = made_of(RemoveTopicRecord(ID), TopicRecord("a", OTHER), PartitionRecord(0, OTHER, [1], [1]), image=BEFORE)
    assert difference(BEFORE, after).topics == {
        ID: TopicChange(BEFORE.topics[ID], None, frozenset({0, 1})),
        OTHER: TopicChange(None, after.topics[OTHER], frozenset({0})),
    }


def test_a_removed_entry_has_no_value() -> None:
    after = made_of(UnregisterBrokerRecord(1), ConfigRecord(2, "a", "x", "1"), ProducerIdsRecord(1, 1, 1000), image=BEFORE)
    changes = difference(BEFORE, after)
    assert (changes.brokers, changes.configs, changes.next_producer_id) == ({1: None}, {(2, "a"): {"x": "1"}}, 1000)
    assert difference(after, BEFORE).configs == {(2, "a"): None}


def test_a_map_difference_compares_values() -> None:
    assert map_difference({1: "a", 2: "b", 3: "c"}, {1: "a", 2: "x", 4: "d"}) == {2: "x", 4: "d", 3: None}


def elected(leader: int, isr: list[int], elr: list[int]) -> list[tuple[str, int, tuple[int, ...]]]:
    """Return (topic, partition, previous ISR) of each unclean election that a change to this leader and ISR is."""
    made = PartitionRecord(0, ID, [1, 2, 3], isr, leader=1, leader_epoch=4, eligible_leader_replicas=elr)
    before = made_of(TopicRecord("a", ID), made)
    after = made_of(PartitionChangeRecord(0, ID, leader=leader, isr=[leader]), image=before)
    return [(topic.name, index, was.isr) for topic, index, was in unclean_elections(difference(before, after))]


def test_electing_a_replica_outside_isr_and_elr_is_unclean() -> None:
    assert elected(3, [1, 2], []) == [("a", 0, (1, 2))]
    assert elected(2, [1, 2], []) == elected(3, [1], [3]) == elected(1, [1], []) == elected(-1, [1], []) == []


def test_a_new_or_deleted_topic_has_no_election() -> None:
    made = made_of(TopicRecord("a", ID), PartitionRecord(0, ID, [1], [1], leader=1))
    assert list(unclean_elections(difference(EMPTY, made))) == list(unclean_elections(difference(made, EMPTY))) == []
