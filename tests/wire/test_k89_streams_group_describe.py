from __future__ import annotations

import pytest

from ottla.protocol.client import Client
from ottla.protocol.error_codes import ErrorCode
from ottla.protocol.messages.k89_streams_group_describe import Assignment, StreamsGroupDescribeRequest
from ottla.protocol.messages.streams_group import Endpoint, KeyValue, TaskIds
from tests.support.group_calls import commit
from tests.support.streams_group_calls import AT_ONCE, beat, described, prepare
from tests.support.streams_groups import topology
from tests.support.topic_calls import create

pytestmark = pytest.mark.broker_settings(AT_ONCE)


def test_a_group_is_described_with_its_topology_and_members(client: Client) -> None:
    prepare(client)
    create(client, "log", partitions=2)
    beat(client, topology=topology(changelogs=["log"]), user_endpoint=Endpoint("h", 80), client_tags=[KeyValue("k", "v")])
    group = described(client, include_authorized_operations=True)
    assert (group.error_code, group.group_state, group.group_epoch, group.assignment_epoch) == (0, "Stable", 2, 2)
    assert group.topology is not None
    (subtopology,) = group.topology.subtopologies or ()
    assert (subtopology.source_topics, subtopology.state_changelog_topics[0].partitions) == (["t"], 0), "as in Kafka after one heartbeat"
    (member,) = group.members
    assert (member.member_id, member.member_epoch, member.client_id, member.process_id) == ("m", 2, "test", "p")
    assert member.client_host.startswith("/")
    assert (member.user_endpoint, member.client_tags) == (Endpoint("h", 80), [KeyValue("k", "v")])
    assert member.assignment == member.target_assignment == Assignment([TaskIds("0", [0, 1])], [], [])
    assert group.authorized_operations > 0
    beat(client, 2)
    assert described(client).topology.subtopologies[0].state_changelog_topics[0].partitions == 2  # type: ignore[union-attr,index] # as above


def test_a_group_whose_topics_are_missing_is_not_ready(client: Client) -> None:
    prepare(client)
    assert beat(client, topology=topology(["nowhere"])).error_code == 0
    group = described(client)
    assert (group.group_state, group.members[0].assignment) == ("NotReady", Assignment())


def test_unknown_groups_and_those_of_other_types_are_not_found(client: Client) -> None:
    prepare(client)
    commit(client, 1, group_id="classic")
    groups = client.call(StreamsGroupDescribeRequest(["nobody", "classic", "", "nobody"])).groups
    assert [(group.error_code, group.error_message) for group in groups] == [
        (ErrorCode.GROUP_ID_NOT_FOUND, "Group nobody not found."),
        (ErrorCode.GROUP_ID_NOT_FOUND, "Group classic is not a streams group."),
        (ErrorCode.INVALID_GROUP_ID, None),
    ]


@pytest.mark.parametrize(("with_topology", "status"), [(False, 0), (True, 1)])
def test_version_1_names_the_assignor_and_has_no_description_of_the_topology(client: Client, with_topology: bool, status: int) -> None:
    prepare(client)
    beat(client)
    group = described(client, include_topology_description=with_topology)
    assert (group.assignor_name, group.topology_description_status, group.topology_description) == ("sticky", status, None)
    unknown = described(client, "nobody", include_topology_description=with_topology)
    assert (unknown.assignor_name, unknown.topology_description_status) == (None, 0)
