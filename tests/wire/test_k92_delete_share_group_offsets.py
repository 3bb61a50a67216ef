from __future__ import annotations

from typing import Any

import pytest

from ottla.protocol.client import Client
from ottla.protocol.error_codes import ErrorCode
from ottla.protocol.messages.k20_delete_topics import DeleteTopicsRequest, DeleteTopicState
from ottla.protocol.messages.k42_delete_groups import DeleteGroupsRequest
from ottla.protocol.messages.k92_delete_share_group_offsets import (
    DeleteShareGroupOffsetsRequest,
    DeleteShareGroupOffsetsRequestTopic,
)
from tests.support.running_broker import RunningBroker
from tests.support.share_group_calls import AT_ONCE, described, leave, prepare, settle, start_offsets, summary
from tests.support.topic_calls import create

pytestmark = pytest.mark.broker_settings(AT_ONCE)


def delete(client: Client, *topics: str, group_id: str = "g") -> Any:
    return client.call(DeleteShareGroupOffsetsRequest(group_id, [DeleteShareGroupOffsetsRequestTopic(topic) for topic in topics]))


def test_the_offsets_of_a_topic_are_deleted(broker: RunningBroker, client: Client) -> None:
    topic_id = prepare(client)
    create(client, "other")
    settle(client)
    leave(client)
    answer = delete(client, "t", "other", "missing")
    assert [(topic.topic_name, topic.error_code, topic.error_message) for topic in answer.responses] == [
        ("t", 0, None),
        ("other", ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, "There is no offset information to delete."),
        ("missing", ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, "This server does not host this topic-partition."),
    ]
    broker.restart(kill=True)
    with broker.client() as again:
        assert start_offsets(again) == {}
        assert summary(again, topic_id).state_epoch == 0
        settle(again)


def test_groups_with_members_and_unknown_groups_are_refused(client: Client) -> None:
    prepare(client)
    assert delete(client, "t").error_code == ErrorCode.GROUP_ID_NOT_FOUND
    settle(client)
    assert delete(client, "t").error_code == ErrorCode.NON_EMPTY_GROUP
    assert delete(client, "t", group_id="").error_code == ErrorCode.INVALID_GROUP_ID


def test_a_deleted_group_leaves_no_state(client: Client) -> None:
    topic_id = prepare(client)
    settle(client)

    def deleted() -> int:
        (result,) = client.call(DeleteGroupsRequest(["g"]), 2).results
        code: int = result.error_code
        return code

    assert deleted() == ErrorCode.NON_EMPTY_GROUP
    leave(client)
    assert deleted() == 0
    assert described(client).error_code == ErrorCode.GROUP_ID_NOT_FOUND
    assert summary(client, topic_id).state_epoch == 0


def test_a_deleted_topics_offsets_are_forgotten(client: Client) -> None:
    prepare(client)
    settle(client)
    client.call(DeleteTopicsRequest([DeleteTopicState("t")], timeout_ms=5_000), version=6)
    assert start_offsets(client) == {}
