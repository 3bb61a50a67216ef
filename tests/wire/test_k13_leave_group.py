from __future__ import annotations

import pytest

from ottla.broker.cluster.image import ResourceType
from ottla.broker.cluster.topic_names import CONSUMER_OFFSETS
from ottla.protocol.client import Client
from ottla.protocol.error_codes import ErrorCode
from ottla.protocol.messages.k13_leave_group import LeaveGroupRequest, MemberIdentity
from ottla.protocol.messages.k44_incremental_alter_configs import AlterableConfig, AlterConfigsResource, IncrementalAlterConfigsRequest
from tests.support.group_calls import Waiting, describe, join, join_request, stable_member, wait_for_state
from tests.support.running_broker import RunningBroker

pytestmark = pytest.mark.usefixtures("coordinator")


@pytest.mark.parametrize("version", range(3))
def test_before_version_3_one_member_leaves_and_its_error_is_the_responses(client: Client, version: int) -> None:
    member_id, _ = stable_member(client)
    assert client.call(LeaveGroupRequest("g", "stranger"), version=version).error_code == ErrorCode.UNKNOWN_MEMBER_ID
    assert client.call(LeaveGroupRequest("g", member_id), version=version).error_code == 0
    assert describe(client).group_state == "Empty"


@pytest.mark.parametrize("version", range(3, 6))
def test_from_version_3_on_each_leaving_member_has_its_own_error(client: Client, version: int) -> None:
    stable_member(client, group_instance_id="i1")
    leaving = [MemberIdentity("stranger"), MemberIdentity("other", "i1"), MemberIdentity("", "i1")]
    response = client.call(LeaveGroupRequest("g", members=leaving), version=version)
    assert response.error_code == 0
    assert [(one.member_id, one.group_instance_id, one.error_code) for one in response.members] == [
        ("stranger", None, ErrorCode.UNKNOWN_MEMBER_ID),
        ("other", "i1", ErrorCode.FENCED_INSTANCE_ID),
        ("", "i1", 0),
    ]
    assert describe(client).members == []


def test_an_unknown_group_has_no_members_and_an_empty_id_is_no_group(client: Client) -> None:
    response = client.call(LeaveGroupRequest("nobody", members=[MemberIdentity("m")]), version=5)
    assert (response.error_code, response.members[0].error_code) == (0, ErrorCode.UNKNOWN_MEMBER_ID)
    assert client.call(LeaveGroupRequest("", members=[MemberIdentity("m")]), version=5).error_code == ErrorCode.INVALID_GROUP_ID


@pytest.mark.parametrize("version", range(6))
def test_a_leave_that_cannot_be_written_fails_as_a_whole(broker: RunningBroker, client: Client, version: int) -> None:
    member_id, _ = stable_member(client)
    topic = AlterConfigsResource(ResourceType.TOPIC, CONSUMER_OFFSETS, [AlterableConfig("max.message.bytes", 0, "10")])
    assert client.call(IncrementalAlterConfigsRequest([topic])).responses[0].error_code == 0
    members = [MemberIdentity(member_id)] if version >= 3 else []
    response = client.call(LeaveGroupRequest("g", "" if members else member_id, members), version=version)
    assert (response.error_code, response.members) == (ErrorCode.UNKNOWN_SERVER_ERROR, [])


def test_a_leave_completes_a_join_phase_that_waits_for_the_leaver(broker: RunningBroker, client: Client) -> None:
    member_id, _ = stable_member(client)
    newcomer = Waiting(broker, join_request(), 3)
    wait_for_state(client, "PreparingRebalance")
    client.call(LeaveGroupRequest("g", member_id), version=0)
    joined = newcomer.response()
    assert (joined.error_code, joined.leader) == (0, joined.member_id)
    assert join(client, member_id).error_code == ErrorCode.UNKNOWN_MEMBER_ID
