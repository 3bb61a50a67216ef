from __future__ import annotations

import pytest

from ottla.broker.api.k75_describe_topic_partitions import PARTITIONS_MAX
from ottla.protocol.client import Client
from ottla.protocol.error_codes import ErrorCode
from ottla.protocol.messages.k75_describe_topic_partitions import (
    Cursor,
    DescribeTopicPartitionsRequest,
    DescribeTopicPartitionsResponse,
    TopicRequest,
)
from tests.support.topic_calls import create


def ask(client: Client, *names: str, limit: int = 2000, cursor: Cursor | None = None) -> DescribeTopicPartitionsResponse:
    return client.call(DescribeTopicPartitionsRequest([TopicRequest(name) for name in names], limit, cursor))  # type: ignore[no-any-return] # Client.call is typed by the request class


def test_named_topics_are_sorted_by_name_and_have_their_partitions(client: Client) -> None:
    created = create(client, "b", 2)
    response = ask(client, "b", "a", "a b")
    assert [(topic.name, topic.error_code) for topic in response.topics] == [
        ("a", ErrorCode.UNKNOWN_TOPIC_OR_PARTITION),
        ("a b", ErrorCode.INVALID_TOPIC_EXCEPTION),
        ("b", 0),
    ]
    assert response.topics[2].topic_id == created.topic_id
    assert [(p.partition_index, p.leader_id, p.replica_nodes) for p in response.topics[2].partitions] == [(0, 1, [1]), (1, 1, [1])]
    assert response.next_cursor is None


@pytest.mark.parametrize("limit", [1, 2, 3, 4, 100, 0])
def test_following_the_cursor_gives_every_partition_once(client: Client, limit: int) -> None:
    create(client, "a", 3)
    create(client, "b", 1)
    create(client, "c", 2)
    seen: list[tuple[str | None, int]] = []
    cursor = None
    for _ in range(7):
        page = ask(client, limit=limit, cursor=cursor)
        described = [(topic.name, partition.partition_index) for topic in page.topics for partition in topic.partitions]
        assert len(described) <= max(limit, 1)
        seen += described
        cursor = page.next_cursor
        if cursor is None:
            break
    assert seen == [("a", 0), ("a", 1), ("a", 2), ("b", 0), ("c", 0), ("c", 1)]


def test_a_cursor_outside_the_request_is_an_invalid_request(client: Client) -> None:
    create(client, "a", 3)
    for cursor in (Cursor("zz", 0), Cursor("a", -1)):
        response = ask(client, "a", cursor=cursor)
        assert [topic.error_code for topic in response.topics] == [ErrorCode.INVALID_REQUEST]


def test_an_unknown_topic_has_authorized_operations_too(client: Client) -> None:
    (topic,) = ask(client, "absent").topics
    assert (topic.error_code, topic.topic_authorized_operations) == (ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, 3576)


def test_the_unknown_topics_of_a_page_are_limited(client: Client) -> None:
    names = [f"absent-{number:04}" for number in range(PARTITIONS_MAX + 3)]
    page = ask(client, *reversed(names))
    assert [topic.name for topic in page.topics] == names[:PARTITIONS_MAX]
    assert page.next_cursor == Cursor(names[PARTITIONS_MAX], 0)
    rest = ask(client, *names, cursor=page.next_cursor)
    assert [topic.name for topic in rest.topics] == names[PARTITIONS_MAX:]
    assert rest.next_cursor is None
