from __future__ import annotations

import pytest

from ottla.broker.cluster.image import EMPTY, LOST, MIGRATING, UNASSIGNED
from ottla.broker.cluster.metadata_records import RegisterBrokerRecord, RemoveTopicRecord, TopicRecord
from tests.support.metadata_images import level, made_of

ID, OTHER = b"i" * 16, b"o" * 16


def test_a_topic_is_found_by_name_until_it_is_deleted() -> None:
    image = made_of(TopicRecord("a", ID), TopicRecord("b", OTHER))
    found = image.topic("a")
    assert found is not None
    assert found is image.topics[ID]
    assert made_of(RemoveTopicRecord(ID), image=image).topic("a") is None


def test_a_recreated_name_finds_the_new_topic() -> None:
    image = made_of(TopicRecord("a", ID), RemoveTopicRecord(ID), TopicRecord("a", OTHER))
    assert image.topic("a") is image.topics[OTHER]
    assert list(image.topics) == [OTHER]


def test_an_image_without_a_metadata_version_raises() -> None:
    assert made_of(level(30)).metadata_level == 30
    with pytest.raises(KeyError):
        _ = EMPTY.metadata_level


def test_the_reserved_directory_ids_are_kafkas() -> None:
    """The figures are those of Kafka 4.3.1's class `DirectoryId`."""
    assert [int.from_bytes(one, "big") for one in (MIGRATING, UNASSIGNED, LOST)] == [0, 1, 2]


@pytest.mark.parametrize(
    ("directory", "registered", "online"),
    [
        (ID, [ID], True),
        (OTHER, [ID], False),
        (OTHER, [], True),
        (MIGRATING, [ID], True),
        (UNASSIGNED, [ID], True),
        (LOST, [ID], False),
        (LOST, [], False),
    ],
)
def test_a_directory_is_online_if_its_broker_registered_it_or_none(directory: bytes, registered: list[bytes], online: bool) -> None:
    broker = made_of(RegisterBrokerRecord(1, log_dirs=registered)).brokers[1]
    assert broker.has_online(directory) is online
