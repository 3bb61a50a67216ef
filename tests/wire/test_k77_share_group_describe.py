from __future__ import annotations

import pytest

from ottla.protocol.client import Client
from ottla.protocol.error_codes import ErrorCode
from ottla.protocol.messages.k20_delete_topics import DeleteTopicsRequest, DeleteTopicState
from ottla.protocol.messages.k77_share_group_describe import ShareGroupDescribeRequest
from tests.support.group_calls import commit
from tests.support.share_group_calls import AT_ONCE, described, prepare, settle

pytestmark = pytest.mark.broker_settings(AT_ONCE)


def test_a_group_is_described_with_its_members(client: Client) -> None:
    topic_id = prepare(client)
    epoch = settle(client)
    group = described(client, include_authorized_operations=True)
    assert (group.error_code, group.group_state, group.assignor_name) == (0, "Stable", "simple")
    assert group.group_epoch == group.assignment_epoch == epoch
    (member,) = group.members
    assert (member.member_id, member.member_epoch, member.client_id, member.subscribed_topic_names) == ("m", epoch, "test", ["t"])
    assert member.client_host.startswith("/")
    ((topic,),) = [member.assignment.topic_partitions]
    assert (topic.topic_id, topic.topic_name, topic.partitions) == (topic_id, "t", [0, 1])
    assert group.authorized_operations > 0


def test_partitions_of_a_deleted_topic_are_omitted(client: Client) -> None:
    prepare(client)
    settle(client)
    client.call(DeleteTopicsRequest([DeleteTopicState("t")], timeout_ms=5_000), version=6)
    assert described(client).members[0].assignment.topic_partitions == []


def test_unknown_groups_and_those_of_other_types_are_not_found(client: Client) -> None:
    prepare(client)
    commit(client, 1, group_id="classic")
    groups = client.call(ShareGroupDescribeRequest(["nobody", "classic", "", "nobody"])).groups
    assert [(group.error_code, group.error_message) for group in groups] == [
        (ErrorCode.GROUP_ID_NOT_FOUND, "Group nobody not found."),
        (ErrorCode.GROUP_ID_NOT_FOUND, "Group classic is not a share group."),
        (ErrorCode.INVALID_GROUP_ID, None),
    ]
