from __future__ import annotations

import pytest

from ottla.broker.cluster.image import EMPTY, LOST, MIGRATING, UNASSIGNED
from ottla.broker.cluster.metadata_records import RegisterBrokerRecord, RemoveTopicRecord, TopicRecord
from tests.support.metadata_images import level, made_of

ID, OTHER = b"i" * 16, b"o" * 16


def test_a_topic_is_found_by_its_name_while_it_is_there() -> None:
    image = made_of(TopicRecord("a", ID), TopicRecord("b", OTHER))
    found = image.topic("a")
    assert found is not None
    assert found is image.topics[ID]
    assert made_of(RemoveTopicRecord(ID), image=image).topic("a") is None


def test_a_name_that_was_created_again_leads_to_the_new_topic() -> None:
    image = made_of(TopicRecord("a", ID), RemoveTopicRecord(ID), TopicRecord("a", OTHER))
    assert image.topic("a") is image.topics[OTHER]
    assert list(image.topics) == [OTHER]


def test_an_image_without_a_level_says_so() -> None:
    assert made_of(level(30)).metadata_level == 30
    with pytest.raises(KeyError):
        _ = EMPTY.metadata_level


def test_the_ids_of_no_directory_are_kafkas() -> None:
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
def test_a_directory_is_online_where_its_broker_has_it_or_none_is_known(directory: bytes, registered: list[bytes], online: bool) -> None:
    broker = made_of(RegisterBrokerRecord(1, log_dirs=registered)).brokers[1]
    assert broker.has_online(directory) is online
