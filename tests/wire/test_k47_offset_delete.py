from __future__ import annotations

import pytest

from ottla.protocol.client import Client
from ottla.protocol.error_codes import ErrorCode
from ottla.protocol.messages.k11_join_group import JoinGroupRequestProtocol
from ottla.protocol.messages.k47_offset_delete import OffsetDeleteRequest, OffsetDeleteRequestPartition, OffsetDeleteRequestTopic
from tests.support.group_calls import commit, fetch, find_coordinator, stable_member
from tests.support.topic_calls import create


@pytest.fixture(autouse=True)
def _topics(client: Client) -> None:
    create(client, "t", partitions=2)
    create(client, "u")
    find_coordinator(client)


def delete(client: Client, *partitions: tuple[str, int], group_id: str = "g") -> tuple[int, list[int]]:
    """Send OffsetDelete; return the top-level error code and each partition's."""
    topics = [OffsetDeleteRequestTopic(topic, [OffsetDeleteRequestPartition(partition)]) for topic, partition in partitions]
    response = client.call(OffsetDeleteRequest(group_id, topics), version=0)
    return response.error_code, [topic.partitions[0].error_code for topic in response.topics]


def test_offsets_are_deleted_one_by_one(client: Client) -> None:
    assert commit(client, 1) == 0
    assert commit(client, 2, partition=1) == 0
    assert delete(client, ("t", 0), ("u", 0)) == (0, [0, 0])
    assert (fetch(client)[0], fetch(client, partition=1)[0]) == (-1, 2)


def test_offsets_of_a_subscribed_topic_are_kept(client: Client) -> None:
    assert commit(client, 1) == 0
    assert commit(client, 2, topic="u") == 0
    stable_member(client)
    assert delete(client, ("t", 0), ("u", 0)) == (0, [ErrorCode.GROUP_SUBSCRIBED_TO_TOPIC, 0])
    assert (fetch(client)[0], fetch(client, topic="u")[0]) == (1, -1)


def test_an_active_group_of_another_protocol_type_is_rejected(client: Client) -> None:
    stable_member(client, protocol_type="connect", protocols=[JoinGroupRequestProtocol("range", b"")])
    assert delete(client, ("t", 0)) == (ErrorCode.NON_EMPTY_GROUP, [])


@pytest.mark.parametrize(("group_id", "error"), [("nobody", ErrorCode.GROUP_ID_NOT_FOUND), ("", ErrorCode.INVALID_GROUP_ID)])
def test_an_unknown_group_is_rejected(client: Client, group_id: str, error: ErrorCode) -> None:
    assert delete(client, ("t", 0), group_id=group_id) == (error, [])


def test_unknown_partitions_are_rejected_one_by_one(client: Client) -> None:
    assert commit(client, 1) == 0
    assert delete(client, ("t", 9), ("no", 0)) == (0, [ErrorCode.UNKNOWN_TOPIC_OR_PARTITION] * 2)


def test_unknown_partitions_precede_the_others_of_their_topic(client: Client) -> None:
    assert commit(client, 1) == 0
    named = [("t", [0, 9]), ("u", []), ("no", []), ("t", [-1, 1])]
    topics = [OffsetDeleteRequestTopic(name, [OffsetDeleteRequestPartition(index) for index in indexes]) for name, indexes in named]
    answered = client.call(OffsetDeleteRequest("g", topics), version=0).topics
    unknown = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    assert [(topic.name, [(one.partition_index, one.error_code) for one in topic.partitions]) for topic in answered] == [
        ("t", [(9, unknown), (-1, unknown), (0, 0), (1, 0)]),
        ("no", []),
    ]
