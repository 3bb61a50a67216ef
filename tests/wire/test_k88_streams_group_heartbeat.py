from __future__ import annotations

import pytest

from ottla.broker.core.acl import Operation, Resource
from ottla.protocol.client import Client
from ottla.protocol.error_codes import ErrorCode
from ottla.protocol.messages.k16_list_groups import ListGroupsRequest
from ottla.protocol.messages.k42_delete_groups import DeleteGroupsRequest
from ottla.protocol.messages.k57_update_features import FeatureUpdateKey, UpdateFeaturesRequest
from ottla.protocol.messages.k88_streams_group_heartbeat import StreamsGroupHeartbeatRequest, Topology
from ottla.protocol.messages.streams_group import Subtopology, TaskIds, TaskOffset, TopicInfo
from tests.support import consumer_calls
from tests.support.access import GUARDED, acl, allow, ann, bob
from tests.support.running_broker import RunningBroker
from tests.support.share_calls import configure
from tests.support.streams_group_calls import AT_ONCE, beat, described, prepare
from tests.support.streams_groups import topology

pytestmark = pytest.mark.broker_settings(AT_ONCE)


@pytest.fixture(autouse=True)
def _topic(request: pytest.FixtureRequest) -> None:
    if "client" in request.fixturenames:
        prepare(request.getfixturevalue("client"))


def test_a_member_joins_heartbeats_and_leaves(client: Client) -> None:
    joined = beat(client)
    assert (joined.error_code, joined.member_id, joined.member_epoch, joined.heartbeat_interval_ms) == (0, "m", 2, 5_000)
    assert (joined.active_tasks, joined.standby_tasks, joined.warmup_tasks) == ([TaskIds("0", [0, 1])], [], [])
    again = beat(client, 2)
    assert (again.error_code, again.member_epoch, again.active_tasks, again.status) == (0, 2, None, [])
    left = beat(client, -1)
    assert (left.error_code, left.member_epoch, left.status) == (0, -1, [])
    assert beat(client, 2).error_code == ErrorCode.UNKNOWN_MEMBER_ID


def test_an_invalid_heartbeat_is_refused_with_a_message(client: Client) -> None:
    refused = beat(client, topology=None)
    assert (refused.error_code, refused.error_message) == (ErrorCode.INVALID_REQUEST, "Topology must be non-null when (re-)joining.")


@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("__consumer_offsets", "Use of Kafka internal topics __consumer_offsets in a Kafka Streams topology is prohibited."),
        ("a b", "Topic names a b are not valid topic names."),
    ],
)
def test_a_topology_with_a_topic_that_clients_may_not_use_is_invalid(client: Client, name: str, message: str) -> None:
    for subtopology in (Subtopology("0", [name]), Subtopology("0", ["t"], state_changelog_topics=[TopicInfo(name)])):
        refused = beat(client, topology=Topology(0, [subtopology]))
        assert (refused.error_code, refused.error_message) == (ErrorCode.STREAMS_INVALID_TOPOLOGY, message)


def test_the_message_about_very_many_names_fits_its_field(client: Client) -> None:
    refused = beat(client, topology=Topology(0, [Subtopology("0", [f"{'a b' * 1000}{number}" for number in range(30)])]))
    assert refused.error_code == ErrorCode.STREAMS_INVALID_TOPOLOGY
    assert refused.error_message.startswith("Topic names a ba b")
    assert refused.error_message.endswith("…")


def test_a_group_of_another_type_is_not_found(client: Client) -> None:
    consumer_calls.join(client, "m")
    refused = beat(client)
    assert (refused.error_code, refused.error_message) == (ErrorCode.GROUP_ID_NOT_FOUND, "Group g is not a streams group.")


def test_members_and_tasks_survive_a_crash(broker: RunningBroker, client: Client) -> None:
    beat(client)
    broker.restart(kill=True)
    with broker.client() as again:
        kept = beat(again, 2)
        assert (kept.error_code, kept.member_epoch, kept.active_tasks) == (0, 2, None)
        assert described(again).members[0].assignment.active_tasks == [TaskIds("0", [0, 1])]


def test_the_group_is_listed_and_deleted_as_a_streams_group(client: Client) -> None:
    beat(client)
    (listed,) = client.call(ListGroupsRequest(types_filter=["Streams"]), 5).groups
    assert (listed.group_id, listed.protocol_type, listed.group_state, listed.group_type) == ("g", "streams", "Stable", "streams")
    assert client.call(DeleteGroupsRequest(["g"])).results[0].error_code == ErrorCode.NON_EMPTY_GROUP
    beat(client, -1)
    assert client.call(DeleteGroupsRequest(["g"])).results[0].error_code == ErrorCode.NONE
    assert client.call(ListGroupsRequest(), 5).groups == []


def test_a_group_that_is_not_ready_is_listed_by_that_state(client: Client) -> None:
    beat(client, topology=topology(["nowhere"]))
    (listed,) = client.call(ListGroupsRequest(states_filter=["NotReady"]), 5).groups
    assert (listed.group_id, listed.group_state) == ("g", "NotReady")
    assert client.call(ListGroupsRequest(states_filter=["Stable"]), 5).groups == []


def test_without_the_feature_streams_groups_are_not_served(client: Client) -> None:
    assert client.call(UpdateFeaturesRequest(1_000, [FeatureUpdateKey("streams.version", 0, upgrade_type=2)])).error_code == 0
    assert beat(client).error_code == ErrorCode.UNSUPPORTED_VERSION
    assert described(client).error_code == ErrorCode.UNSUPPORTED_VERSION


@pytest.mark.broker_settings({"group.coordinator.rebalance.protocols": "classic,consumer"})
def test_without_the_protocol_streams_groups_are_not_served(client: Client) -> None:
    assert beat(client).error_code == ErrorCode.UNSUPPORTED_VERSION
    assert described(client).error_code == ErrorCode.UNSUPPORTED_VERSION


@pytest.mark.broker_settings(AT_ONCE | GUARDED)
def test_the_rights_to_the_group_and_to_all_topics_are_checked(broker: RunningBroker) -> None:
    with bob(broker) as admin, ann(broker) as client:
        prepare(admin)
        assert beat(client).error_code == ErrorCode.GROUP_AUTHORIZATION_FAILED
        assert described(client).error_code == ErrorCode.GROUP_AUTHORIZATION_FAILED
        allow(admin, acl(Resource.GROUP, "g", Operation.READ), acl(Resource.TOPIC, "t", Operation.DESCRIBE))
        with_log = topology(changelogs=["log"])
        assert beat(client, topology=with_log).error_code == ErrorCode.TOPIC_AUTHORIZATION_FAILED
        assert beat(client).error_code == ErrorCode.NONE
        beat(admin, -1)
        beat(admin, topology=with_log, group_id="h")
        allow(admin, acl(Resource.GROUP, "h", Operation.DESCRIBE))
        hidden = described(client, "h")
        assert (hidden.error_code, hidden.topology) == (ErrorCode.TOPIC_AUTHORIZATION_FAILED, None)
        assert hidden.error_message == "The described group uses topics that the client is not authorized to describe."


@pytest.mark.broker_settings(AT_ONCE | GUARDED)
def test_the_status_about_very_many_topics_fits_its_field(broker: RunningBroker) -> None:
    with bob(broker) as admin, ann(broker) as client:
        prepare(admin)
        allow(admin, acl(Resource.GROUP, "g", Operation.READ), acl(Resource.TOPIC, "*", Operation.DESCRIBE))
        (status,) = beat(client, topology=topology(changelogs=[f"{number:0240}" for number in range(200)])).status or ()
        assert "Unauthorized to CREATE on topics 0" in status.status_detail
        assert status.status_detail.endswith("…")


def test_since_4_4_members_are_told_how_to_report_offsets_and_may_be_static(client: Client) -> None:
    joined = beat(client, instance_id="i")
    assert (joined.error_code, joined.task_offset_interval_ms, joined.acceptable_recovery_lag) == (0, 60_000, 10_000)
    assert beat(client, 2, task_offsets=[TaskOffset("0", 0, 5)], task_end_offsets=[TaskOffset("0", 0, 9)]).error_code == 0
    (reported,) = described(client).members
    assert (reported.task_offsets, reported.task_end_offsets) == ([TaskOffset("0", 0, 5)], [TaskOffset("0", 0, 9)])
    left = beat(client, -2, instance_id="i")
    assert (left.error_code, left.member_epoch, left.task_offset_interval_ms, left.acceptable_recovery_lag) == (0, -2, 0, -1)
    again = beat(client, member_id="n", instance_id="i")
    assert (again.member_epoch, again.active_tasks) == (2, [TaskIds("0", [0, 1])])
    assert [(member.member_id, member.instance_id) for member in described(client).members] == [("n", "i")]


@pytest.mark.broker_like("4.3")
def test_until_4_3_members_report_no_offsets(client: Client) -> None:
    joined = beat(client)
    assert (joined.task_offset_interval_ms, joined.topology_description_required) == (0, False)
    assert beat(client, instance_id="i").error_message == "Static membership is not yet supported."


def test_version_0_does_not_know_the_status_of_missing_client_tags(client: Client) -> None:
    configure(client, "g", streams__rack__aware__assignment__tags="zone")
    joined = beat(client)
    assert [status.status_code for status in joined.status] == [6]
    request = StreamsGroupHeartbeatRequest(group_id="g", member_id="m", member_epoch=joined.member_epoch)
    assert [len(client.call(request, version=version).status) for version in (0, 1)] == [0, 1]
