from __future__ import annotations

from typing import Any

import pytest

from ottla.protocol.client import Client
from ottla.protocol.error_codes import ErrorCode
from ottla.protocol.messages.k09_offset_fetch import OffsetFetchRequest, OffsetFetchRequestGroup, OffsetFetchRequestTopics
from ottla.protocol.messages.k11_join_group import JoinGroupRequest
from ottla.protocol.messages.k12_heartbeat import HeartbeatRequest
from ottla.protocol.messages.k15_describe_groups import DescribeGroupsRequest
from ottla.protocol.messages.k16_list_groups import ListGroupsRequest
from ottla.protocol.messages.k37_create_partitions import CreatePartitionsRequest, CreatePartitionsTopic
from ottla.protocol.messages.k42_delete_groups import DeleteGroupsRequest
from ottla.protocol.messages.k68_consumer_group_heartbeat import TopicPartitions
from tests.support import group_calls
from tests.support.consumer_calls import beat, join, partitions
from tests.support.group_calls import find_coordinator
from tests.support.running_broker import RunningBroker
from tests.support.topic_calls import create

AT_ONCE = {"group.consumer.assignment.interval.ms": "0"}


@pytest.fixture(autouse=True)
def _topic(client: Client) -> None:
    find_coordinator(client)
    create(client, "t", partitions=4)


@pytest.mark.parametrize("version", [0, 1])
def test_a_member_joins_heartbeats_and_leaves(client: Client, version: int) -> None:
    joined = join(client, "m", version=version)
    assert (joined.member_id, joined.member_epoch, joined.heartbeat_interval_ms) == ("m", 2, 5_000)
    assert partitions(joined) == [0, 1, 2, 3]
    again = beat(client, "m", 2, version=version)
    assert (again.error_code, again.member_epoch, again.assignment) == (0, 2, None)
    assert beat(client, "m", -1, version=version).member_epoch == -1
    assert beat(client, "m", 2, version=version).error_code == ErrorCode.UNKNOWN_MEMBER_ID


def test_version_0_assigns_the_member_id_and_later_versions_require_it(client: Client) -> None:
    made = join(client, "", version=0).member_id
    assert made
    assert beat(client, made, 2, version=0).error_code == 0
    refused = join(client, "")
    assert (refused.error_code, refused.error_message) == (ErrorCode.INVALID_REQUEST, "MemberId can't be empty.")
    for version, error in ((0, ErrorCode.UNKNOWN_MEMBER_ID), (1, ErrorCode.INVALID_REQUEST)):
        assert beat(client, "", -2, version=version, instance_id="i").error_code == error


@pytest.mark.broker_settings(AT_ONCE)
def test_a_partition_is_reassigned_only_after_its_owner_revoked_it(client: Client) -> None:
    topic_id = partitions_of(join(client, "a"))[0].topic_id
    assert partitions(join(client, "b")) == []
    keeps = partitions(beat(client, "a", 2))
    assert len(keeps) == 2
    assert beat(client, "b", 3).assignment is None
    assert beat(client, "a", 2, topic_partitions=[TopicPartitions(topic_id, keeps)]).member_epoch == 3
    assert sorted(partitions(beat(client, "b", 3)) + keeps) == [0, 1, 2, 3]


def test_an_assignment_within_the_assignment_interval_is_computed_at_a_later_heartbeat(client: Client) -> None:
    topic_id = partitions_of(join(client, "a"))[0].topic_id
    waiting = join(client, "b")
    assert (waiting.member_epoch, partitions(waiting)) == (2, [])
    assert beat(client, "a", 2, topic_partitions=[TopicPartitions(topic_id, [0, 1, 2, 3])]).assignment is None
    group_calls.wait_until(lambda: len(partitions(beat(client, "a", 2, **FULL))) == 2, "the interval is over")


FULL: dict[str, Any] = {"rebalance_timeout_ms": 30_000, "subscribed_topic_names": ["t"], "topic_partitions": []}
"""The full state of a member, which requests its whole assignment, without its owned partitions."""


def partitions_of(response: Any) -> list[TopicPartitions]:
    topics: list[TopicPartitions] = response.assignment.topic_partitions
    return topics


@pytest.mark.parametrize(
    ("changes", "error"),
    [
        ({"rebalance_timeout_ms": -1}, ErrorCode.INVALID_REQUEST),
        ({"topic_partitions": [TopicPartitions(bytes(16), [])]}, ErrorCode.INVALID_REQUEST),
        ({"group_id": ""}, ErrorCode.INVALID_REQUEST),
        ({"server_assignor": "mine"}, ErrorCode.UNSUPPORTED_ASSIGNOR),
        ({"subscribed_topic_regex": "("}, ErrorCode.INVALID_REGULAR_EXPRESSION),
        ({"subscribed_topic_regex": "(" * 30_000}, ErrorCode.INVALID_REGULAR_EXPRESSION),
    ],
)
def test_a_rejected_join_has_a_message(client: Client, changes: dict[str, Any], error: ErrorCode) -> None:
    changes = {"member_id": "m"} | changes
    answer = join(client, changes.pop("member_id"), **changes)
    assert answer.error_code == error
    assert answer.error_message


def test_a_wrong_epoch_is_fenced(client: Client) -> None:
    join(client, "m")
    assert beat(client, "m", 3).error_code == ErrorCode.FENCED_MEMBER_EPOCH
    assert beat(client, "x", 2).error_code == ErrorCode.UNKNOWN_MEMBER_ID
    assert beat(client, "m", 2, group_id="nobody").error_code == ErrorCode.GROUP_ID_NOT_FOUND


def test_a_static_member_gets_its_assignment_back(client: Client) -> None:
    had = partitions(join(client, "a", instance_id="i"))
    assert join(client, "b", instance_id="i").error_code == ErrorCode.UNRELEASED_INSTANCE_ID
    assert join(client, "a", instance_id="i").error_code == ErrorCode.UNRELEASED_INSTANCE_ID, "it is in its own way"
    assert beat(client, "a", -2, instance_id="i").member_epoch == -2
    assert partitions(join(client, "b", instance_id="i")) == had
    assert beat(client, "a", 2, instance_id="i").error_code == ErrorCode.FENCED_INSTANCE_ID


@pytest.mark.broker_settings(AT_ONCE)
def test_topics_by_name_are_assigned_at_once_and_those_of_an_expression_at_a_later_heartbeat(client: Client) -> None:
    create(client, "u", partitions=1)
    joined = join(client, "m", subscribed_topic_regex="u.*")
    assert (joined.member_epoch, [topic.partitions for topic in partitions_of(joined)]) == (2, [[0, 1, 2, 3]])
    answers: list[Any] = []

    def is_told() -> bool:
        answers.append(beat(client, "m", 2))
        return answers[-1].assignment is not None

    group_calls.wait_until(is_told, "the expression is resolved")
    assert (answers[-1].member_epoch, len(partitions_of(answers[-1]))) == (3, 2)


@pytest.mark.broker_settings(AT_ONCE)
def test_added_partitions_are_assigned(client: Client) -> None:
    join(client, "m")
    client.call(CreatePartitionsRequest([CreatePartitionsTopic("t", 6, None)], timeout_ms=5_000))
    assert partitions(beat(client, "m", 2)) == [0, 1, 2, 3, 4, 5]


def test_the_group_survives_a_crash(broker: RunningBroker, client: Client) -> None:
    join(client, "a")
    broker.restart(kill=True)
    with broker.client() as again:
        group_calls.wait_until(lambda: beat(again, "a", 2).error_code == 0, "the group is read back")
        assert partitions(beat(again, "a", 2, rebalance_timeout_ms=1, subscribed_topic_names=["t"], topic_partitions=[])) == [0, 1, 2, 3]


@pytest.mark.broker_settings(
    {
        "group.consumer.min.session.timeout.ms": "200",
        "group.consumer.session.timeout.ms": "200",
    }
)
def test_a_silent_member_is_removed(client: Client) -> None:
    join(client, "a")
    group_calls.wait_until(lambda: beat(client, "x", 2).error_code == ErrorCode.UNKNOWN_MEMBER_ID, "the group is there")

    def is_out() -> bool:
        (group,) = client.call(ListGroupsRequest(), version=5).groups
        return bool(group.group_state == "Empty")

    group_calls.wait_until(is_out, "the member is out")
    assert beat(client, "a", 2).error_code == ErrorCode.UNKNOWN_MEMBER_ID


@pytest.mark.broker_settings(AT_ONCE)
def test_a_commit_with_the_previous_epoch_counts_for_kept_partitions(client: Client) -> None:
    topic_id = partitions_of(join(client, "m"))[0].topic_id
    join(client, "x")
    (kept, *_) = left = partitions(beat(client, "m", 2))
    beat(client, "m", 2, topic_partitions=[TopicPartitions(topic_id, left)])
    gone = next(index for index in range(4) if index not in left)
    assert group_calls.commit(client, 3, member_id="m", generation_id_or_member_epoch=2, partition=kept) == 0
    assert group_calls.commit(client, 3, member_id="m", generation_id_or_member_epoch=2, partition=gone) == ErrorCode.STALE_MEMBER_EPOCH
    assert group_calls.commit(client, 3, member_id="m", generation_id_or_member_epoch=1, partition=kept) == ErrorCode.STALE_MEMBER_EPOCH


def test_commits_and_fetches_are_checked_by_member_epoch(client: Client) -> None:
    join(client, "m")
    assert group_calls.commit(client, 3, member_id="m", generation_id_or_member_epoch=2) == 0
    assert group_calls.commit(client, 3, member_id="m", generation_id_or_member_epoch=3) == ErrorCode.STALE_MEMBER_EPOCH
    assert group_calls.commit(client, 3, member_id="x", generation_id_or_member_epoch=2) == ErrorCode.UNKNOWN_MEMBER_ID
    assert group_calls.commit(client, 3, member_id="m", generation_id_or_member_epoch=2, version=8) == ErrorCode.UNSUPPORTED_VERSION

    def fetch(member_id: str | None, epoch: int) -> int:
        group_request = OffsetFetchRequestGroup(
            "g", topics=[OffsetFetchRequestTopics("t", partition_indexes=[0])], member_id=member_id, member_epoch=epoch
        )
        (group,) = client.call(OffsetFetchRequest(groups=[group_request]), version=9).groups
        error: int = group.error_code
        return error

    assert fetch(None, -1) == 0
    assert fetch("m", 2) == 0
    assert fetch("m", 10) == ErrorCode.STALE_MEMBER_EPOCH
    assert fetch("x", 2) == ErrorCode.UNKNOWN_MEMBER_ID


def test_it_is_listed_as_a_consumer_group_and_not_as_a_classic_one(client: Client) -> None:
    join(client, "m")
    (listed,) = client.call(ListGroupsRequest(), version=5).groups
    assert (listed.group_id, listed.protocol_type, listed.group_state, listed.group_type) == ("g", "consumer", "Stable", "consumer")
    assert client.call(ListGroupsRequest(types_filter=["classic"]), version=5).groups == []
    (described,) = client.call(DescribeGroupsRequest(["g"]), version=6).groups
    assert described.error_code == ErrorCode.GROUP_ID_NOT_FOUND
    (described,) = client.call(DescribeGroupsRequest(["g"]), version=5).groups
    assert (described.error_code, described.group_state) == (0, "Dead")


def test_it_can_be_deleted_without_members(client: Client) -> None:
    join(client, "m")
    (result,) = client.call(DeleteGroupsRequest(["g"])).results
    assert result.error_code == ErrorCode.NON_EMPTY_GROUP
    beat(client, "m", -1)
    (result,) = client.call(DeleteGroupsRequest(["g"])).results
    assert result.error_code == 0
    assert client.call(ListGroupsRequest(), version=5).groups == []


def classic_member(client: Client) -> tuple[str, int]:
    """Create a stable classic group of one member; return the member id and generation."""
    joined = group_calls.join(client)
    assert group_calls.sync(client, joined.member_id, joined.generation_id, {joined.member_id: b""}).error_code == 0
    return joined.member_id, joined.generation_id


def test_a_classic_group_is_upgraded_and_downgraded(client: Client) -> None:
    member_id, generation = classic_member(client)
    assert len(partitions(join(client, "new"))) == 2
    assert client.call(HeartbeatRequest("g", generation, member_id), version=4).error_code == ErrorCode.REBALANCE_IN_PROGRESS
    rejoined = group_calls.join(client, member_id)
    assert (rejoined.error_code, rejoined.leader, rejoined.generation_id) == (0, "", 2)
    assert group_calls.sync(client, member_id, 2).error_code == 0
    assert beat(client, "new", -1).error_code == 0
    assert client.call(HeartbeatRequest("g", 2, member_id), version=4).error_code == ErrorCode.REBALANCE_IN_PROGRESS
    again = group_calls.join(client, member_id)
    assert (again.error_code, again.leader, again.generation_id) == (0, member_id, 3)


@pytest.mark.broker_settings({"group.consumer.migration.policy": "disabled"})
def test_a_classic_group_with_members_is_not_upgraded_if_the_policy_forbids_it(client: Client) -> None:
    classic_member(client)
    assert join(client, "new").error_code == ErrorCode.GROUP_ID_NOT_FOUND


def test_a_pending_classic_member_is_answered_when_its_group_is_upgraded(broker: RunningBroker, client: Client) -> None:
    classic_member(client)
    other = client.call(group_calls.join_request(), version=9).member_id
    request: JoinGroupRequest = group_calls.join_request(other)
    waiting = group_calls.Waiting(broker, request, 9)
    group_calls.wait_for_state(client, "PreparingRebalance")
    join(client, "new")
    assert waiting.response().error_code == ErrorCode.REBALANCE_IN_PROGRESS


@pytest.mark.broker_settings({"group.coordinator.rebalance.protocols": "classic"})
def test_without_the_consumer_protocol_a_heartbeat_is_an_unsupported_version(client: Client) -> None:
    assert join(client, "m").error_code == ErrorCode.UNSUPPORTED_VERSION
    assert group_calls.join(client).error_code in {ErrorCode.NONE, ErrorCode.MEMBER_ID_REQUIRED}
