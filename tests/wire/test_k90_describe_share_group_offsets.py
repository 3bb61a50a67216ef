from __future__ import annotations

import pytest

from ottla.protocol.client import Client
from ottla.protocol.error_codes import ErrorCode
from ottla.protocol.messages.k90_describe_share_group_offsets import DescribeShareGroupOffsetsRequestTopic as RequestedTopic
from tests.support.access import GUARDED, ann
from tests.support.running_broker import RunningBroker
from tests.support.share_group_calls import AT_ONCE, initialize, offsets, prepare, settle, start_offsets, write
from tests.support.topic_calls import produce

pytestmark = pytest.mark.broker_settings(AT_ONCE)


@pytest.mark.parametrize(("version", "lag"), [(0, -1), (1, 3)])
def test_lag_counts_records_whose_delivery_is_not_complete(client: Client, version: int, lag: int) -> None:
    topic_id = prepare(client)
    for _ in range(5):
        produce(client, "t", b"x")
    initialize(client, topic_id)
    write(client, topic_id, start_offset=1, delivery_complete_count=1)
    (topic,) = offsets(client, [RequestedTopic("t", [0, 1])], version=version).topics
    assert (topic.topic_name, topic.topic_id) == ("t", topic_id)
    assert [(part.partition_index, part.start_offset, part.lag, part.error_code) for part in topic.partitions] == [
        (0, 1, lag, 0),
        (1, -1, -1, 0),
    ]


def test_all_partitions_of_the_group_are_those_with_state(client: Client) -> None:
    prepare(client)
    assert offsets(client).topics == []
    settle(client)
    assert start_offsets(client) == {0: -1, 1: -1}


def test_a_topic_that_does_not_exist_has_no_offset_and_no_error(client: Client) -> None:
    prepare(client)
    (topic,) = offsets(client, [RequestedTopic("missing", [3])]).topics
    assert (topic.topic_id, [(part.partition_index, part.start_offset, part.error_code) for part in topic.partitions]) == (
        bytes(16),
        [(3, -1, 0)],
    )
    assert offsets(client, []).topics == []


def test_a_topic_that_is_named_twice_has_one_entry_with_all_its_partitions(client: Client) -> None:
    prepare(client)
    (topic,) = offsets(client, [RequestedTopic("t", [0, 0]), RequestedTopic("t", [1, 0])]).topics
    assert [part.partition_index for part in topic.partitions] == [0, 1]


def test_named_topics_of_a_group_without_a_name_are_refused(client: Client) -> None:
    prepare(client)
    assert offsets(client, [RequestedTopic("t", [0])], group_id="").error_code == ErrorCode.INVALID_GROUP_ID
    assert offsets(client, group_id="").error_code == 0


@pytest.mark.broker_settings(GUARDED)
def test_a_client_without_rights_is_refused(broker: RunningBroker) -> None:
    with ann(broker) as client:
        assert offsets(client).error_code == ErrorCode.GROUP_AUTHORIZATION_FAILED
