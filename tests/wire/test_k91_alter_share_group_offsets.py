from __future__ import annotations

from typing import Any

import pytest

from ottla.protocol.client import Client
from ottla.protocol.error_codes import ErrorCode
from ottla.protocol.messages.k91_alter_share_group_offsets import (
    AlterShareGroupOffsetsRequest,
    AlterShareGroupOffsetsRequestPartition,
    AlterShareGroupOffsetsRequestTopic,
)
from tests.support.running_broker import RunningBroker
from tests.support.share_group_calls import AT_ONCE, leave, prepare, settle, start_offsets

pytestmark = pytest.mark.broker_settings(AT_ONCE)


def alter(client: Client, *parts: tuple[int, int], topic: str = "t", group_id: str = "g") -> Any:
    partitions = [AlterShareGroupOffsetsRequestPartition(*part) for part in parts]
    return client.call(AlterShareGroupOffsetsRequest(group_id, [AlterShareGroupOffsetsRequestTopic(topic, partitions)]))


def test_the_offsets_of_an_empty_group_are_altered(broker: RunningBroker, client: Client) -> None:
    topic_id = prepare(client)
    settle(client)
    leave(client)
    answer = alter(client, (0, 7), (5, 1))
    assert answer.error_code == 0
    (topic,) = answer.responses
    assert (topic.topic_id, [(part.partition_index, part.error_code) for part in topic.partitions]) == (
        topic_id,
        [(0, 0), (5, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)],
    )
    broker.restart(kill=True)
    with broker.client() as again:
        assert start_offsets(again) == {0: 7, 1: -1}


def test_a_group_need_not_exist(client: Client) -> None:
    prepare(client)
    assert alter(client, (1, 3)).error_code == 0
    assert start_offsets(client) == {1: 3}


def test_a_group_with_members_is_refused(client: Client) -> None:
    prepare(client)
    settle(client)
    assert alter(client, (0, 7)).error_code == ErrorCode.NON_EMPTY_GROUP


def test_unknown_topics_and_nameless_groups_are_refused(client: Client) -> None:
    prepare(client)
    (topic,) = alter(client, (0, 1), topic="missing").responses
    assert [part.error_code for part in topic.partitions] == [ErrorCode.UNKNOWN_TOPIC_OR_PARTITION]
    assert alter(client, (0, 1), group_id="").error_code == ErrorCode.INVALID_GROUP_ID
