from __future__ import annotations

import pytest

from ottla.protocol.client import Client
from ottla.protocol.error_codes import ErrorCode
from ottla.protocol.messages.k16_list_groups import ListGroupsRequest
from ottla.protocol.messages.k57_update_features import FeatureUpdateKey, UpdateFeaturesRequest
from tests.support import consumer_calls
from tests.support.access import GUARDED, ann
from tests.support.running_broker import RunningBroker
from tests.support.share_group_calls import AT_ONCE, beat, described, leave, prepare, settle

pytestmark = pytest.mark.broker_settings(AT_ONCE)


@pytest.fixture(autouse=True)
def _topic(request: pytest.FixtureRequest) -> None:
    if "client" in request.fixturenames:
        prepare(request.getfixturevalue("client"))


def test_a_member_joins_heartbeats_and_leaves(client: Client) -> None:
    joined = beat(client)
    assert (joined.error_code, joined.member_id, joined.member_epoch, joined.heartbeat_interval_ms) == (0, "m", 2, 5_000)
    assert joined.assignment is not None
    epoch = settle(client)
    again = beat(client, epoch=epoch)
    assert (again.error_code, again.member_epoch, again.assignment) == (0, epoch, None)
    left = beat(client, epoch=-1)
    assert (left.error_code, left.member_epoch) == (0, -1)
    assert beat(client, epoch=epoch).error_code == ErrorCode.UNKNOWN_MEMBER_ID


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"member_id": ""}, None),
        ({"member_id": "x" * 37}, None),
        ({"group_id": ""}, "GroupId can't be empty."),
        ({"subscribed_topic_names": []}, "SubscribedTopicNames must be set in first request."),
        ({"member_epoch": -2}, "MemberEpoch is invalid."),
    ],
)
def test_an_invalid_heartbeat_is_refused(client: Client, changes: dict[str, object], message: str | None) -> None:
    refused = beat(client, **changes)  # type: ignore[arg-type] # the fields of the request
    assert (refused.error_code, refused.error_message) == (ErrorCode.INVALID_REQUEST, message)


def test_a_group_of_another_type_is_not_found(client: Client) -> None:
    consumer_calls.join(client, "m")
    assert beat(client).error_code == ErrorCode.GROUP_ID_NOT_FOUND


def test_members_and_assignments_survive_a_crash(broker: RunningBroker, client: Client) -> None:
    epoch = settle(client)
    broker.restart(kill=True)
    with broker.client() as again:
        assert (beat(again, epoch=epoch).error_code, described(again).members[0].member_epoch) == (0, epoch)


def test_the_group_is_listed_as_a_share_group(client: Client) -> None:
    settle(client)
    (listed,) = client.call(ListGroupsRequest(types_filter=["Share"]), 5).groups
    assert (listed.group_id, listed.protocol_type, listed.group_state, listed.group_type) == ("g", "share", "Stable", "share")
    leave(client)
    (listed,) = client.call(ListGroupsRequest(states_filter=["empty"]), 5).groups
    assert listed.group_state == "Empty"
    assert client.call(ListGroupsRequest(types_filter=["consumer"]), 5).groups == []


def test_without_the_feature_share_groups_are_not_served(client: Client) -> None:
    assert client.call(UpdateFeaturesRequest(1_000, [FeatureUpdateKey("share.version", 0, upgrade_type=2)])).error_code == 0
    assert beat(client).error_code == ErrorCode.UNSUPPORTED_VERSION
    assert described(client).error_code == ErrorCode.UNSUPPORTED_VERSION


@pytest.mark.broker_settings(GUARDED)
def test_a_client_without_rights_is_refused(broker: RunningBroker) -> None:
    with ann(broker) as client:
        assert beat(client).error_code == ErrorCode.GROUP_AUTHORIZATION_FAILED
        assert described(client).error_code == ErrorCode.GROUP_AUTHORIZATION_FAILED
