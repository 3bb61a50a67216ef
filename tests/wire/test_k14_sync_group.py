from __future__ import annotations

import pytest

from ottla.protocol.client import Client
from ottla.protocol.error_codes import ErrorCode
from ottla.protocol.messages.k14_sync_group import SyncGroupRequest
from tests.support.group_calls import (
    Waiting,
    describe,
    heartbeat,
    join,
    join_request,
    stable_member,
    sync,
    wait_for_state,
)
from tests.support.running_broker import RunningBroker

pytestmark = pytest.mark.usefixtures("coordinator")


@pytest.mark.parametrize("version", range(6))
def test_the_leader_gets_its_own_assignment(client: Client, version: int) -> None:
    joined = join(client)
    answer = sync(client, joined.member_id, joined.generation_id, {joined.member_id: b"mine"}, version=version)
    assert (answer.error_code, bytes(answer.assignment)) == (0, b"mine")
    assert (answer.protocol_type, answer.protocol_name) == (("consumer", "range") if version >= 5 else (None, None))


def test_a_follower_waits_for_the_leaders_assignment(broker: RunningBroker, client: Client) -> None:
    leader, generation = stable_member(client)
    newcomer = Waiting(broker, join_request(), 3)
    wait_for_state(client, "PreparingRebalance")
    join(client, leader)
    follower = newcomer.response().member_id
    waiting = Waiting(broker, SyncGroupRequest("g", generation + 1, follower), 3)
    sync(client, leader, generation + 1, {leader: b"L", follower: b"F"})
    assert bytes(waiting.response().assignment) == b"F"
    assert describe(client).group_state == "Stable"


@pytest.mark.parametrize(
    ("member_id", "generation", "protocol_type", "protocol_name", "error"),
    [
        ("stranger", 1, "consumer", "range", ErrorCode.UNKNOWN_MEMBER_ID),
        ("", 9, "consumer", "range", ErrorCode.ILLEGAL_GENERATION),
        ("", 1, "connect", "range", ErrorCode.INCONSISTENT_GROUP_PROTOCOL),
        ("", 1, "consumer", "sticky", ErrorCode.INCONSISTENT_GROUP_PROTOCOL),
        ("", 1, "consumer", "range", ErrorCode.NONE),
    ],
)
def test_an_inconsistent_sync_is_rejected(  # noqa: PLR0917 # the columns of the table above
    client: Client, member_id: str, generation: int, protocol_type: str, protocol_name: str, error: ErrorCode
) -> None:
    known, _ = stable_member(client)
    request = SyncGroupRequest("g", generation, member_id or known, protocol_type=protocol_type, protocol_name=protocol_name)
    assert client.call(request, version=5).error_code == error


@pytest.mark.parametrize(("group_id", "error"), [("", ErrorCode.INVALID_GROUP_ID), ("nobody", ErrorCode.UNKNOWN_MEMBER_ID)])
def test_a_sync_with_an_unknown_group_is_rejected(client: Client, group_id: str, error: ErrorCode) -> None:
    assert client.call(SyncGroupRequest(group_id, 1, "m", None, "consumer", "range"), version=5).error_code == error


@pytest.mark.parametrize("kill", [False, True])
def test_a_stable_group_survives_a_restart_without_a_rebalance(broker: RunningBroker, client: Client, kill: bool) -> None:
    member_id, generation = stable_member(client)
    broker.restart(kill=kill)
    with broker.client() as again:
        assert heartbeat(again, member_id, generation) == 0
        assert bytes(sync(again, member_id, generation).assignment) == b"all"


def test_a_stopping_broker_answers_pending_requests(broker: RunningBroker, client: Client) -> None:
    stable_member(client)
    newcomer = Waiting(broker, join_request(), 3)
    wait_for_state(client, "PreparingRebalance")
    broker.stop()
    assert newcomer.response().error_code == ErrorCode.NOT_COORDINATOR


@pytest.mark.parametrize("unsaid", ["protocol_type", "protocol_name"])
def test_from_version_5_on_a_member_must_send_its_protocol(client: Client, unsaid: str) -> None:
    joined = join(client)
    handed_out = {joined.member_id: b"mine"}
    refused = sync(client, joined.member_id, joined.generation_id, handed_out, **{unsaid: None})
    assert refused.error_code == ErrorCode.INCONSISTENT_GROUP_PROTOCOL
    assert sync(client, joined.member_id, joined.generation_id, handed_out, version=4).error_code == 0
