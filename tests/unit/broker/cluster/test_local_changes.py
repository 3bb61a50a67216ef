from __future__ import annotations

from ottla.broker.cluster.image import EMPTY, MetadataImage
from ottla.broker.cluster.image_changes import difference
from ottla.broker.cluster.local_changes import LocalReplica, local_changes
from ottla.broker.cluster.metadata_records import (
    ConfigRecord,
    MetadataRecord,
    PartitionChangeRecord,
    PartitionRecord,
    RemoveTopicRecord,
    TopicRecord,
)
from tests.support.metadata_images import made_of

NODE = 1
KINDS = ("removed", "leaders", "elected", "followers")
ID, NEW_ID = b"i" * 16, b"n" * 16
BORN = [TopicRecord("t", ID), PartitionRecord(0, ID, [1, 2], [1, 2], leader=1, leader_epoch=0, partition_epoch=0)]
THERE = made_of(*BORN)


def named(replicas: list[LocalReplica]) -> list[tuple[str, bytes, int]]:
    return [(replica.topic.name, replica.topic.topic_id, replica.index) for replica in replicas]


def told(*records: MetadataRecord, image: MetadataImage = THERE) -> dict[str, list[tuple[str, bytes, int]]]:
    """What the records mean for this broker, without what is empty."""
    local = local_changes(difference(image, made_of(*records, image=image)), NODE)
    return {kind: named(getattr(local, kind)) for kind in KINDS if getattr(local, kind)}


def moved(**changes: object) -> PartitionChangeRecord:
    return PartitionChangeRecord(0, ID, **changes)  # type: ignore[arg-type]  # fields by name


PLACE = [("t", ID, 0)]


def test_a_new_partition_is_led_or_followed_by_who_has_a_replica() -> None:
    followed = PartitionRecord(1, ID, [2, 1], [2, 1], leader=2, leader_epoch=0, partition_epoch=0)
    elsewhere = PartitionRecord(2, ID, [2, 3], [2, 3], leader=2, leader_epoch=0, partition_epoch=0)
    assert told(*BORN, followed, elsewhere, image=EMPTY) == {"leaders": PLACE, "elected": PLACE, "followers": [("t", ID, 1)]}


def test_a_leader_whose_in_sync_set_changes_leads_on_and_is_not_elected() -> None:
    assert told(moved(isr=[1])) == {"leaders": PLACE}


def test_the_same_leader_in_a_new_epoch_is_elected() -> None:
    assert told(moved(leader=1)) == {"leaders": PLACE, "elected": PLACE}


def test_a_leader_that_is_one_no_more_follows_whoever_leads_or_nobody() -> None:
    assert told(moved(leader=2)) == {"followers": PLACE}
    assert told(moved(leader=-1)) == {"followers": PLACE}


def test_what_happened_in_between_is_not_told() -> None:
    assert told(moved(leader=2), moved(leader=1)) == {"leaders": PLACE, "elected": PLACE}


def test_a_replica_that_was_assigned_elsewhere_is_removed_as_it_was() -> None:
    assert told(moved(replicas=[2, 3], leader=2)) == {"removed": PLACE}
    (gone,) = local_changes(difference(THERE, made_of(moved(replicas=[2], leader=2), image=THERE)), NODE).removed
    assert gone.partition.replicas == (1, 2)


def test_the_replicas_of_a_deleted_topic_are_removed_and_only_those_that_were_here() -> None:
    elsewhere = PartitionRecord(1, ID, [2], [2], leader=2, leader_epoch=0, partition_epoch=0)
    assert told(RemoveTopicRecord(ID), image=made_of(elsewhere, image=THERE)) == {"removed": PLACE}


def test_a_name_that_is_created_again_is_removed_under_its_old_id_and_led_under_the_new_one() -> None:
    again = PartitionRecord(0, NEW_ID, [1], [1], leader=1, leader_epoch=0, partition_epoch=0)
    new = [("t", NEW_ID, 0)]
    assert told(RemoveTopicRecord(ID), TopicRecord("t", NEW_ID), again) == {"removed": PLACE, "leaders": new, "elected": new}


def test_a_topic_that_came_and_went_in_between_leaves_no_trace() -> None:
    assert told(*BORN, RemoveTopicRecord(ID), image=EMPTY) == {}


def test_a_partition_of_the_same_partition_epoch_has_not_changed() -> None:
    again = PartitionRecord(0, ID, [1, 2], [1], leader=1, leader_epoch=0, partition_epoch=0)
    assert told(again) == {}


def test_settings_and_the_partitions_of_others_are_nothing_to_do() -> None:
    elsewhere = PartitionRecord(1, ID, [2], [2], leader=2, leader_epoch=0, partition_epoch=0)
    assert told(ConfigRecord(2, "t", "retention.ms", "1"), elsewhere) == {}
