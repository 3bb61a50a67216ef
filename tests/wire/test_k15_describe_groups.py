from __future__ import annotations

import pytest

from ottla.protocol.client import Client
from ottla.protocol.error_codes import ErrorCode
from ottla.protocol.messages.k15_describe_groups import DescribeGroupsRequest
from tests.support.classic_groups import subscription
from tests.support.group_calls import describe, join, stable_member

pytestmark = pytest.mark.usefixtures("coordinator")


@pytest.mark.parametrize("version", range(7))
def test_a_stable_group_has_its_protocol_and_members(client: Client, version: int) -> None:
    member_id, _ = stable_member(client, group_instance_id="i1")
    group = describe(client, version=version)
    assert (group.error_code, group.group_state, group.protocol_type, group.protocol_data) == (0, "Stable", "consumer", "range")
    (member,) = group.members
    assert (member.member_id, member.client_id, member.client_host) == (member_id, "test", "/127.0.0.1")
    assert (bytes(member.member_metadata), bytes(member.member_assignment)) == (subscription("t"), b"all")
    assert member.group_instance_id == ("i1" if version >= 4 else None)


def test_before_the_sync_neither_protocol_nor_subscription_is_returned(client: Client) -> None:
    join(client)
    group = describe(client)
    assert (group.group_state, group.protocol_data, bytes(group.members[0].member_metadata)) == ("CompletingRebalance", "", b"")


@pytest.mark.parametrize("version", range(6))
def test_an_unknown_group_is_dead_without_an_error(client: Client, version: int) -> None:
    group = describe(client, "nobody", version=version)
    assert (group.group_id, group.error_code, group.group_state) == ("nobody", 0, "Dead")


def test_from_version_6_on_an_unknown_group_is_not_found(client: Client) -> None:
    group = describe(client, "nobody", version=6)
    assert (group.error_code, group.group_state) == (ErrorCode.GROUP_ID_NOT_FOUND, "Dead")
    assert group.error_message == "Group nobody not found."


@pytest.mark.parametrize(("with_operations", "operations"), [(True, 0b110101001000), (False, -0x80000000)])
def test_operations_are_returned_on_request(client: Client, with_operations: bool, operations: int) -> None:
    stable_member(client)
    (group,) = client.call(DescribeGroupsRequest(["g"], with_operations), version=6).groups
    assert group.authorized_operations == operations
