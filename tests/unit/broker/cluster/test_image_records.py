"""Writing an image as records; that they restore an equal image is tested in `tests/property/test_metadata_image.py`."""

from __future__ import annotations

import pytest

from ottla.broker.cluster.image import ELR_VERSION, EMPTY, MIGRATING
from ottla.broker.cluster.image_records import to_records
from ottla.broker.cluster.metadata_records import (
    AccessControlEntryRecord,
    ClientQuotaRecord,
    ConfigRecord,
    DelegationTokenRecord,
    FeatureLevelRecord,
    MetadataRecord,
    PartitionRecord,
    ProducerIdsRecord,
    QuotaEntity,
    RegisterBrokerRecord,
    RegisterControllerRecord,
    TopicRecord,
    UserScramCredentialRecord,
)
from ottla.broker.cluster.record_versions import NotWritable
from tests.support.metadata_images import level, made_of

ID, DIRECTORY = b"i" * 16, b"d" * 16


def test_image_records_are_in_kafkas_order_with_features_first() -> None:
    records: list[MetadataRecord] = [
        level(30),
        FeatureLevelRecord("group.version", 1),
        RegisterBrokerRecord(1),
        RegisterControllerRecord(3),
        TopicRecord("a", ID),
        PartitionRecord(0, ID, [1], [1], directories=[DIRECTORY]),
        ConfigRecord(2, "a", "x", "1"),
        ClientQuotaRecord([QuotaEntity("user", None)], "x", 1.0),
        ProducerIdsRecord(-1, -1, 1000),
        AccessControlEntryRecord(ID),
        UserScramCredentialRecord("u", 1),
        DelegationTokenRecord(token_id="t"),
    ]
    assert list(to_records(made_of(*reversed(records[:5]), *records[5:]))) == records


def test_quota_records_are_ordered_by_entity() -> None:
    parts = [[QuotaEntity("ip", "1")], [QuotaEntity("user")], [QuotaEntity("user", "")], [QuotaEntity("user", "a")]]
    image = made_of(level(30), *(ClientQuotaRecord(part, "x", 1.0) for part in reversed(parts)))
    assert [record.entity for record in to_records(image) if isinstance(record, ClientQuotaRecord)] == parts


def test_unassigned_directories_are_omitted_at_older_levels() -> None:
    image = made_of(level(16), TopicRecord("a", ID), PartitionRecord(0, ID, [1], [1]))
    assert image.topics[ID].partitions[0].directories == (MIGRATING,)
    partition = list(to_records(image))[-1]
    assert isinstance(partition, PartitionRecord)
    assert partition.directories == []


def test_eligible_leader_replicas_are_omitted_if_the_feature_is_off() -> None:
    image = made_of(level(30), TopicRecord("a", ID), PartitionRecord(0, ID, [1], [1], eligible_leader_replicas=[2]))
    without = list(to_records(image))[-1]
    assert isinstance(without, PartitionRecord)
    assert without.eligible_leader_replicas is None
    with_them = list(to_records(made_of(FeatureLevelRecord(ELR_VERSION, 1), image=image)))[-1]
    assert isinstance(with_them, PartitionRecord)
    assert with_them.eligible_leader_replicas == [2]


@pytest.mark.parametrize(
    ("at", "records", "lost"),
    [
        (16, [TopicRecord("a", ID), PartitionRecord(0, ID, [1], [1], directories=[DIRECTORY])], "directories of replicas"),
        (16, [RegisterBrokerRecord(1, log_dirs=[DIRECTORY])], "the directories"),
        (29, [RegisterBrokerRecord(1, cordoned_log_dirs=[])], "the cordoned directories"),
        (7, [RegisterBrokerRecord(1, is_migrating_zk_broker=True)], "migration"),
    ],
)
def test_an_image_that_the_level_cannot_express_is_refused(at: int, records: list[MetadataRecord], lost: str) -> None:
    with pytest.raises(NotWritable, match=lost):
        list(to_records(made_of(level(at), *records)))
    list(to_records(made_of(level(30), *records)))


def test_an_image_without_a_metadata_version_cannot_be_written() -> None:
    with pytest.raises(KeyError):
        list(to_records(EMPTY))
