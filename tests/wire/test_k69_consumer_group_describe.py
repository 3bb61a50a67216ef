from __future__ import annotations

import pytest

from ottla.protocol.client import Client
from ottla.protocol.error_codes import ErrorCode
from ottla.protocol.messages.k20_delete_topics import DeleteTopicsRequest, DeleteTopicState
from tests.support import group_calls
from tests.support.consumer_calls import beat, describe, join
from tests.support.group_calls import find_coordinator
from tests.support.topic_calls import create


@pytest.fixture(autouse=True)
def _topic(client: Client) -> None:
    find_coordinator(client)
    create(client, "t", partitions=2)


@pytest.mark.broker_settings({"group.consumer.assignment.interval.ms": "0"})
@pytest.mark.parametrize("version", [0, 1])
def test_a_group_is_described_with_current_and_target_assignments(client: Client, version: int) -> None:
    join(client, "a", instance_id="i", rack_id="r", subscribed_topic_regex="x.*")
    join(client, "b")
    group = describe(client, version=version)
    assert (group.error_code, group.group_state, group.group_epoch, group.assignment_epoch) == (0, "Reconciling", 3, 3)
    assert group.assignor_name == "uniform"
    a, b = sorted(group.members, key=lambda member: member.member_id)
    assert (a.member_id, a.instance_id, a.rack_id, a.member_epoch, a.client_id) == ("a", "i", "r", 2, "test")
    assert a.client_host.startswith("/127.")
    assert (a.subscribed_topic_names, a.subscribed_topic_regex) == (["t"], "x.*")
    assert [(one.topic_name, one.partitions) for one in a.assignment.topic_partitions] == [("t", [0, 1])]
    assert [len(one.partitions) for one in a.target_assignment.topic_partitions] == [1]
    assert b.assignment.topic_partitions == []
    assert b.subscribed_topic_regex == ""
    assert a.member_type == (1 if version >= 1 else -1)


def test_an_empty_group_and_an_assigning_one_have_their_states(client: Client) -> None:
    join(client, "a")
    join(client, "b")
    beat(client, "b", -1)
    assert describe(client).group_state == "Assigning"
    beat(client, "a", -1)
    assert describe(client).group_state == "Empty"
    assert describe(client).members == []


def test_members_of_both_protocols_are_distinguished(client: Client) -> None:
    join(client, "new")
    old = group_calls.join(client)
    types = {member.member_id: member.member_type for member in describe(client).members}
    assert types == {"new": 1, old.member_id: 0}


def test_an_unknown_or_classic_group_is_not_found(client: Client) -> None:
    group = describe(client, "nobody")
    assert (group.error_code, group.group_id) == (ErrorCode.GROUP_ID_NOT_FOUND, "nobody")
    assert group.error_message
    group_calls.stable_member(client)
    assert describe(client).error_code == ErrorCode.GROUP_ID_NOT_FOUND
    assert describe(client, "").error_code == ErrorCode.INVALID_GROUP_ID
    assert describe(client, "x" * 30_000).error_code == ErrorCode.GROUP_ID_NOT_FOUND


def test_partitions_of_a_deleted_topic_are_omitted(client: Client) -> None:
    join(client, "a")
    client.call(DeleteTopicsRequest(topics=[DeleteTopicState("t")], timeout_ms=5_000), version=6)
    (member,) = describe(client).members
    assert member.assignment.topic_partitions == []


def test_operations_are_returned_on_request(client: Client) -> None:
    join(client, "a")
    assert describe(client).authorized_operations == -0x80000000
    assert describe(client, include_authorized_operations=True).authorized_operations > 0


@pytest.mark.broker_settings({"group.coordinator.rebalance.protocols": "classic,streams"})
def test_without_the_consumer_protocol_no_group_is_described(client: Client) -> None:
    assert describe(client).error_code == ErrorCode.UNSUPPORTED_VERSION
