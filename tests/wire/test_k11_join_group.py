from __future__ import annotations

import pytest

from ottla.protocol.client import Client
from ottla.protocol.error_codes import ErrorCode
from ottla.protocol.messages.k11_join_group import JoinGroupRequestProtocol
from tests.support.classic_groups import subscription
from tests.support.group_calls import (
    Waiting,
    describe,
    heartbeat,
    join,
    join_request,
    stable_member,
    sync,
    wait_for_state,
    wait_until,
)
from tests.support.running_broker import RunningBroker

pytestmark = pytest.mark.usefixtures("coordinator")


@pytest.mark.parametrize("version", range(4))
def test_before_version_4_a_new_member_joins_at_once(client: Client, version: int) -> None:
    joined = client.call(join_request(), version=version)
    assert (joined.error_code, joined.generation_id, joined.protocol_name) == (0, 1, "range")
    assert joined.leader == joined.member_id
    assert joined.member_id.startswith("test-")
    assert [(member.member_id, bytes(member.metadata)) for member in joined.members] == [(joined.member_id, subscription("t"))]


@pytest.mark.parametrize("version", range(4, 10))
def test_from_version_4_on_a_new_member_gets_its_id_first(client: Client, version: int) -> None:
    first = client.call(join_request(), version=version)
    assert (first.error_code, first.generation_id, first.leader, first.members) == (ErrorCode.MEMBER_ID_REQUIRED, -1, "", [])
    second = client.call(join_request(first.member_id), version=version)
    assert (second.error_code, second.member_id, second.generation_id) == (0, first.member_id, 1)
    assert second.protocol_type == ("consumer" if version >= 7 else None)


@pytest.mark.parametrize("version", range(5, 10))
def test_a_static_member_joins_in_one_round_with_an_id_that_begins_with_its_instance(client: Client, version: int) -> None:
    joined = client.call(join_request(group_instance_id="i1"), version=version)
    assert joined.error_code == 0
    assert joined.member_id.startswith("i1-")
    assert [member.group_instance_id for member in joined.members] == ["i1"]


@pytest.mark.parametrize("version", range(10))
def test_a_rejected_join_has_generation_minus_one_and_no_protocol(client: Client, version: int) -> None:
    refused = client.call(join_request("stranger"), version=version)
    assert (refused.error_code, refused.generation_id, refused.leader, refused.member_id) == (
        ErrorCode.UNKNOWN_MEMBER_ID,
        -1,
        "",
        "stranger",
    )
    assert refused.protocol_name == (None if version >= 7 else "")


def test_version_0_uses_the_session_timeout_as_the_rebalance_timeout(client: Client) -> None:
    assert client.call(join_request(session_timeout_ms=6_000), version=0).error_code == 0


@pytest.mark.parametrize(
    ("changes", "error"),
    [
        ({"group_id": ""}, ErrorCode.INVALID_GROUP_ID),
        ({"session_timeout_ms": 1}, ErrorCode.INVALID_SESSION_TIMEOUT),
        ({"session_timeout_ms": 10**9}, ErrorCode.INVALID_SESSION_TIMEOUT),
        ({"protocols": []}, ErrorCode.INCONSISTENT_GROUP_PROTOCOL),
        ({"protocol_type": ""}, ErrorCode.INCONSISTENT_GROUP_PROTOCOL),
    ],
)
def test_an_inconsistent_join_is_rejected(client: Client, changes: dict[str, object], error: ErrorCode) -> None:
    assert client.call(join_request(**changes), version=9).error_code == error


def test_a_second_member_waits_until_the_first_has_rejoined(broker: RunningBroker, client: Client) -> None:
    first, generation = stable_member(client)
    newcomer = Waiting(broker, join_request(), 3)
    wait_for_state(client, "PreparingRebalance")
    assert heartbeat(client, first, generation) == ErrorCode.REBALANCE_IN_PROGRESS
    rejoined = join(client, first)
    second = newcomer.response()
    assert rejoined.generation_id == second.generation_id == generation + 1
    assert {member.member_id for member in rejoined.members} == {first, second.member_id}
    assert (second.members, second.leader) == ([], first)


def test_a_disconnected_client_delays_others_at_most_for_the_rebalance_timeout(broker: RunningBroker, client: Client) -> None:
    first, _ = stable_member(client)
    gone = Waiting(broker, join_request(), 3)
    wait_for_state(client, "PreparingRebalance")
    gone.hang_up()
    rejoined = join(client, first)
    assert (rejoined.error_code, len(rejoined.members)) == (0, 2)
    wait_until(lambda: broker.call(lambda running: running.waiting_requests == 0), "nothing waits")


def test_a_restarted_static_leader_rejoins_without_a_rebalance(client: Client) -> None:
    old = client.call(join_request(group_instance_id="i1"), version=9)
    assert sync(client, old.member_id, 1, {old.member_id: b"mine"}, version=2).error_code == 0
    back = client.call(join_request(group_instance_id="i1"), version=9)
    assert (back.error_code, back.generation_id, back.skip_assignment, back.leader) == (0, 1, True, back.member_id)
    assert back.member_id != old.member_id
    assert bytes(sync(client, back.member_id, 1).assignment) == b"mine"
    assert heartbeat(client, old.member_id, 1) == ErrorCode.UNKNOWN_MEMBER_ID


def test_the_selected_protocol_is_supported_by_all_members(broker: RunningBroker, client: Client) -> None:
    both = [JoinGroupRequestProtocol("sticky", b""), JoinGroupRequestProtocol("range", subscription("t"))]
    first = client.call(join_request(protocols=both), version=3)
    assert first.protocol_name == "sticky"
    newcomer = Waiting(broker, join_request(), 3)
    wait_for_state(client, "PreparingRebalance")
    assert client.call(join_request(first.member_id, protocols=both), version=3).protocol_name == "range"
    newcomer.response()


def test_a_client_without_a_client_id_gets_a_member_id(broker: RunningBroker) -> None:
    with broker.client(client_id=None) as nameless:
        joined = join(nameless, group_id="h")
        assert joined.error_code == 0
        assert describe(nameless, "h").members[0].client_id == ""


def test_a_static_members_id_begins_with_its_instance_id_even_if_that_is_empty(client: Client) -> None:
    assert client.call(join_request(group_instance_id=""), version=9).member_id.startswith("-")


def test_a_protocol_without_a_name_is_null_since_version_7(client: Client) -> None:
    request = join_request(group_instance_id="me", protocols=[JoinGroupRequestProtocol("", b"")])
    assert client.call(request, version=7).protocol_name is None
