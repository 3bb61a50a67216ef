"""The effect of single records on an image; the comparison with Kafka is in `tests/golden/test_metadata_images.py`."""

from __future__ import annotations

import pytest

from ottla.broker.cluster.image import EMPTY
from ottla.broker.cluster.image_changes import ImageChanges
from ottla.broker.cluster.image_delta import ImageDelta, MapDelta
from ottla.broker.cluster.metadata_records import (
    BeginTransactionRecord,
    BrokerRegistrationChangeRecord,
    ClearElrRecord,
    ClientQuotaRecord,
    ConfigRecord,
    FeatureLevelRecord,
    FenceBrokerRecord,
    MetadataRecord,
    PartitionChangeRecord,
    PartitionRecord,
    QuotaEntity,
    RegisterBrokerRecord,
    RemoveAccessControlEntryRecord,
    RemoveTopicRecord,
    TopicRecord,
    UnfenceBrokerRecord,
)
from ottla.broker.cluster.registrations import InconsistentRecord
from tests.support.metadata_images import level, made_of

ID, OTHER, THIRD = b"i" * 16, b"o" * 16, b"t" * 16
TOPICS = made_of(
    TopicRecord("a", ID),
    PartitionRecord(0, ID, [1], [1], eligible_leader_replicas=[2]),
    TopicRecord("b", OTHER),
    PartitionRecord(0, OTHER, [1], [1], last_known_elr=[2]),
    ConfigRecord(2, "a", "x", "1"),
)


def test_a_delta_shares_every_part_that_it_does_not_change() -> None:
    image = made_of(PartitionChangeRecord(0, ID, isr=[]), image=TOPICS)
    assert image.topics[OTHER] is TOPICS.topics[OTHER]
    assert image.configs is TOPICS.configs
    assert image.topic_ids is TOPICS.topic_ids
    assert made_of(FeatureLevelRecord("x", 1), image=TOPICS).topics is TOPICS.topics


def test_removing_a_topic_removes_its_configs_also_of_the_same_delta() -> None:
    assert made_of(RemoveTopicRecord(ID), image=TOPICS).configs == {}
    image = made_of(TopicRecord("c", THIRD), ConfigRecord(2, "c", "x", "1"), RemoveTopicRecord(THIRD), image=TOPICS)
    assert image == TOPICS


def test_a_topic_created_and_deleted_in_one_delta_is_no_change() -> None:
    delta = ImageDelta(TOPICS)
    for record in (TopicRecord("c", THIRD), RemoveTopicRecord(THIRD), FeatureLevelRecord("x", 1), FeatureLevelRecord("x", 0)):
        delta.apply(record)
    assert delta.changes() == ImageChanges()


def test_eligible_leader_replicas_of_one_topic_or_of_all_are_cleared() -> None:
    one = made_of(ClearElrRecord("a"), image=TOPICS)
    assert one.topics[ID].partitions[0].elr == ()
    assert one.topics[OTHER] is TOPICS.topics[OTHER]
    every = made_of(ClearElrRecord(), image=TOPICS)
    assert [every.topics[topic_id].partitions[0].last_known_elr for topic_id in (ID, OTHER)] == [(), ()]


def test_a_resource_without_configs_is_absent() -> None:
    assert made_of(ConfigRecord(2, "a", "x", None), ConfigRecord(4, "", "y", None), image=TOPICS).configs == {}


def test_the_settings_of_a_resource_are_copied_once_in_a_delta() -> None:
    delta = ImageDelta(TOPICS)
    delta.apply(ConfigRecord(2, "a", "y", "2"))
    copied = delta.changes().configs[2, "a"]
    for name, value in (("z", "3"), ("x", None)):
        delta.apply(ConfigRecord(2, "a", name, value))
    assert delta.changes().configs[2, "a"] is copied
    assert (TOPICS.configs, delta.finish().configs) == ({(2, "a"): {"x": "1"}}, {(2, "a"): {"y": "2", "z": "3"}})


def test_the_order_of_a_quota_entitys_parts_does_not_matter() -> None:
    user, client = QuotaEntity("user", "u"), QuotaEntity("client-id", None)
    image = made_of(ClientQuotaRecord([user, client], "x", 1.0), ClientQuotaRecord([client, user], "y", 2.0))
    assert image.client_quotas == {frozenset({("user", "u"), ("client-id", None)}): {"x": 1.0, "y": 2.0}}
    removed = [ClientQuotaRecord([user, client], key, 0.0, remove=True) for key in "xy"]
    assert made_of(*removed, image=image) == EMPTY


def test_fence_and_unfence_records_equal_the_registration_change_record() -> None:
    image = made_of(RegisterBrokerRecord(1, broker_epoch=7))
    unfenced = made_of(UnfenceBrokerRecord(1, 7), image=image)
    assert unfenced == made_of(BrokerRegistrationChangeRecord(1, 7, fenced=-1), image=image)
    assert made_of(FenceBrokerRecord(1, 7), image=unfenced) == image


def test_kraft_version_is_not_part_of_an_image() -> None:
    assert made_of(FeatureLevelRecord("kraft.version", 1)) == EMPTY


@pytest.mark.parametrize(
    "record",
    [
        PartitionRecord(0, THIRD, [1], [1]),
        PartitionChangeRecord(0, THIRD),
        PartitionChangeRecord(7, ID),
        RemoveTopicRecord(THIRD),
        TopicRecord("a", THIRD),
        TopicRecord("c", ID),
        ClearElrRecord("c"),
        BrokerRegistrationChangeRecord(1, 7, fenced=1),
        RemoveAccessControlEntryRecord(ID),
        BeginTransactionRecord(),
        level(6),
        level(34),
        level(0),
    ],
    ids=repr,
)
def test_a_record_that_contradicts_the_image_is_refused(record: MetadataRecord) -> None:
    with pytest.raises(InconsistentRecord):
        ImageDelta(TOPICS).apply(record)


def test_a_registration_change_of_another_broker_epoch_is_refused() -> None:
    with pytest.raises(InconsistentRecord, match="has epoch 7"):
        made_of(RegisterBrokerRecord(1, broker_epoch=7), BrokerRegistrationChangeRecord(1, 6, fenced=1))


def test_a_map_delta_does_not_change_its_map() -> None:
    base = {"a": 1, "b": 2}
    delta = MapDelta(base)
    assert delta.finish() is base
    delta.put("c", 3)
    delta.drop("a")
    delta.drop("never")
    assert (delta.get("a"), delta.get("b"), sorted(delta.items())) == (None, 2, [("b", 2), ("c", 3)])
    assert delta.differing() == {"c": 3, "a": None}
    assert (delta.finish(), base) == ({"b": 2, "c": 3}, {"a": 1, "b": 2})
