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


def changes_of(*records: MetadataRecord, image: MetadataImage = THERE) -> dict[str, list[tuple[str, bytes, int]]]:
    """Return the local changes that the records cause, without the empty ones."""
    local = local_changes(difference(image, made_of(*records, image=image)), NODE)
    return {kind: named(getattr(local, kind)) for kind in KINDS if getattr(local, kind)}


def moved(**changes: object) -> PartitionChangeRecord:
    return PartitionChangeRecord(0, ID, **changes)  # type: ignore[arg-type]  # fields by name


PLACE = [("t", ID, 0)]


def test_a_new_local_partition_is_led_or_followed() -> None:
    followed = PartitionRecord(1, ID, [2, 1], [2, 1], leader=2, leader_epoch=0, partition_epoch=0)
    elsewhere = PartitionRecord(2, ID, [2, 3], [2, 3], leader=2, leader_epoch=0, partition_epoch=0)
    assert changes_of(*BORN, followed, elsewhere, image=EMPTY) == {"leaders": PLACE, "elected": PLACE, "followers": [("t", ID, 1)]}


def test_an_isr_change_keeps_the_leader_without_an_election() -> None:
    assert changes_of(moved(isr=[1])) == {"leaders": PLACE}


def test_the_same_leader_in_a_new_epoch_is_elected() -> None:
    assert changes_of(moved(leader=1)) == {"leaders": PLACE, "elected": PLACE}


def test_a_former_leader_follows_the_new_one_or_none() -> None:
    assert changes_of(moved(leader=2)) == {"followers": PLACE}
    assert changes_of(moved(leader=-1)) == {"followers": PLACE}


def test_intermediate_changes_are_not_reported() -> None:
    assert changes_of(moved(leader=2), moved(leader=1)) == {"leaders": PLACE, "elected": PLACE}


def test_a_reassigned_replica_is_removed() -> None:
    assert changes_of(moved(replicas=[2, 3], leader=2)) == {"removed": PLACE}
    (gone,) = local_changes(difference(THERE, made_of(moved(replicas=[2], leader=2), image=THERE)), NODE).removed
    assert gone.partition.replicas == (1, 2)


def test_only_local_replicas_of_a_deleted_topic_are_removed() -> None:
    elsewhere = PartitionRecord(1, ID, [2], [2], leader=2, leader_epoch=0, partition_epoch=0)
    assert changes_of(RemoveTopicRecord(ID), image=made_of(elsewhere, image=THERE)) == {"removed": PLACE}


def test_a_recreated_topic_is_removed_by_its_old_id_and_led_by_its_new_id() -> None:
    again = PartitionRecord(0, NEW_ID, [1], [1], leader=1, leader_epoch=0, partition_epoch=0)
    new = [("t", NEW_ID, 0)]
    assert changes_of(RemoveTopicRecord(ID), TopicRecord("t", NEW_ID), again) == {"removed": PLACE, "leaders": new, "elected": new}


def test_a_topic_created_and_deleted_between_images_is_no_change() -> None:
    assert changes_of(*BORN, RemoveTopicRecord(ID), image=EMPTY) == {}


def test_a_partition_of_the_same_partition_epoch_has_not_changed() -> None:
    again = PartitionRecord(0, ID, [1, 2], [1], leader=1, leader_epoch=0, partition_epoch=0)
    assert changes_of(again) == {}


def test_configs_and_remote_partitions_cause_no_local_changes() -> None:
    elsewhere = PartitionRecord(1, ID, [2], [2], leader=2, leader_epoch=0, partition_epoch=0)
    assert changes_of(ConfigRecord(2, "t", "retention.ms", "1"), elsewhere) == {}
