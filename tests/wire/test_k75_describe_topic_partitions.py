from __future__ import annotations

import pytest

from ottla.broker.api.k75_describe_topic_partitions import PARTITIONS_MAX
from ottla.broker.core.acl import Operation, Resource
from ottla.protocol.client import Client
from ottla.protocol.error_codes import ErrorCode
from ottla.protocol.messages.k19_create_topics import CreatableTopic, CreateTopicsRequest
from ottla.protocol.messages.k75_describe_topic_partitions import (
    Cursor,
    DescribeTopicPartitionsRequest,
    DescribeTopicPartitionsResponse,
    TopicRequest,
)
from tests.support.access import GUARDED, acl, allow, ann, bob
from tests.support.running_broker import RunningBroker
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


def test_topics_that_do_not_exist_use_nothing_of_the_limit(client: Client) -> None:
    create(client, "z")
    names = [f"absent-{number:04}" for number in range(PARTITIONS_MAX + 3)]
    page = ask(client, *reversed(names), "z", limit=1)
    assert [topic.name for topic in page.topics] == [*names, "z"]
    assert page.next_cursor is None


@pytest.mark.broker_settings(GUARDED)
def test_the_cursor_never_names_a_topic_that_the_client_may_not_describe(broker: RunningBroker) -> None:
    names = [f"t-{number:04}" for number in range(PARTITIONS_MAX + 2)]
    with bob(broker) as admin, ann(broker) as client:
        for some in (names[:1_000], names[1_000:]):
            assert (
                admin.call(CreateTopicsRequest([CreatableTopic(name, 1, 1) for name in some], timeout_ms=30_000)).topics[0].error_code == 0
            )
        page = ask(client)
        assert (page.topics, page.next_cursor) == ([], None)
        allow(admin, acl(Resource.TOPIC, names[0], Operation.DESCRIBE), acl(Resource.TOPIC, names[-1], Operation.DESCRIBE))
        page = ask(client, limit=1)
        assert ([topic.name for topic in page.topics], page.next_cursor) == ([names[0]], Cursor(names[-1], 0))
        page = ask(client, limit=1, cursor=page.next_cursor)
        assert ([topic.name for topic in page.topics], page.next_cursor) == ([names[-1]], None)


@pytest.mark.broker_settings(GUARDED)
def test_named_topics_that_the_client_may_not_describe_are_denied_up_to_the_cursor(broker: RunningBroker) -> None:
    with bob(broker) as admin, ann(broker) as client:
        create(admin, "b")
        create(admin, "d")
        allow(admin, acl(Resource.TOPIC, "b", Operation.DESCRIBE), acl(Resource.TOPIC, "d", Operation.DESCRIBE))
        page = ask(client, "a", "b", "c", "d", "e", limit=1)
        denied = ErrorCode.TOPIC_AUTHORIZATION_FAILED
        assert [(topic.name, topic.error_code) for topic in page.topics] == [("b", 0), ("a", denied), ("c", denied)]
        assert page.next_cursor == Cursor("d", 0)


def test_a_page_of_more_topics_than_are_described_at_once_ends_at_its_limit(client: Client) -> None:
    names = [f"t-{number:03}" for number in range(250)]
    client.call(CreateTopicsRequest([CreatableTopic(name, 1, 1) for name in names], timeout_ms=30_000))
    page = ask(client, limit=120)
    assert ([topic.name for topic in page.topics], page.next_cursor) == (names[:120], Cursor(names[120], 0))
    page = ask(client, cursor=page.next_cursor)
    assert ([topic.name for topic in page.topics], page.next_cursor) == (names[120:], None)
