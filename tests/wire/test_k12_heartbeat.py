from __future__ import annotations

import pytest

from ottla.protocol.client import Client
from ottla.protocol.error_codes import ErrorCode
from ottla.protocol.messages.k12_heartbeat import HeartbeatRequest
from tests.support.group_calls import heartbeat, join_request, stable_member, sync

pytestmark = pytest.mark.usefixtures("coordinator")


@pytest.mark.parametrize("version", range(5))
def test_a_member_is_known_by_its_id_and_generation(client: Client, version: int) -> None:
    member_id, generation = stable_member(client)
    assert heartbeat(client, member_id, generation, version=version) == 0
    assert heartbeat(client, member_id, generation + 1, version=version) == ErrorCode.ILLEGAL_GENERATION
    assert heartbeat(client, "stranger", generation, version=version) == ErrorCode.UNKNOWN_MEMBER_ID


@pytest.mark.parametrize("version", [3, 4])
def test_a_fenced_instance_gets_fenced_instance_id(client: Client, version: int) -> None:
    old = client.call(join_request(group_instance_id="i1"), version=9)
    sync(client, old.member_id, 1, {}, version=2)
    new = client.call(join_request(group_instance_id="i1"), version=9)
    assert client.call(HeartbeatRequest("g", 1, old.member_id, "i1"), version=version).error_code == ErrorCode.FENCED_INSTANCE_ID
    assert client.call(HeartbeatRequest("g", 1, new.member_id, "i1"), version=version).error_code == 0


@pytest.mark.parametrize(("group_id", "error"), [("", ErrorCode.INVALID_GROUP_ID), ("nobody", ErrorCode.UNKNOWN_MEMBER_ID)])
def test_an_unknown_group_has_no_members(client: Client, group_id: str, error: ErrorCode) -> None:
    assert client.call(HeartbeatRequest(group_id, 1, "m"), version=4).error_code == error
