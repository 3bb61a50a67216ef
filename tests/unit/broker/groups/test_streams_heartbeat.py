from __future__ import annotations

from typing import Any

import pytest

from ottla.broker.core.rejected import Rejected
from ottla.broker.groups.deadlines import DeadlineKind
from ottla.broker.groups.modern import ModernState
from ottla.broker.groups.streams_group import OffsetReport
from ottla.broker.groups.streams_heartbeat import check
from ottla.broker.streams.internal_topics import Status
from ottla.broker.streams.tasks import TaskSet
from ottla.protocol.error_codes import ErrorCode
from ottla.protocol.messages.k88_streams_group_heartbeat import StreamsGroupHeartbeatRequest, Topology
from ottla.protocol.messages.streams_group import Endpoint, KeyValue, Subtopology, TaskIds, TaskOffset, TopicInfo
from tests.support.consumer_groups import FakeTopics
from tests.support.streams_groups import StreamsDriver, active, owning, topology

JOIN: dict[str, Any] = {"group_id": "g", "member_id": "m", "rebalance_timeout_ms": 1, "topology": topology()} | owning(TaskSet())
JOINING: dict[str, Any] = {name: value for name, value in JOIN.items() if not name.endswith("_id")}
STAY: dict[str, Any] = {"group_id": "g", "member_id": "m", "member_epoch": 1}


@pytest.mark.parametrize(
    ("fields", "message"),
    [
        (JOIN | {"instance_id": "i"}, "Static membership is not yet supported."),
        (JOIN | {"task_offsets": []}, "TaskOffsets are not supported yet."),
        (JOIN | {"task_end_offsets": [TaskOffset()]}, "TaskEndOffsets are not supported yet."),
        (STAY | {"warmup_tasks": [TaskIds("0", [0])]}, "WarmupTasks are not supported yet."),
        (JOIN | {"topology": Topology(0, [Subtopology("0", source_topic_regex=["a"])])}, "Regular expressions for source topics are not"),
        (JOIN | {"member_id": " "}, "MemberId can't be empty."),
        (JOIN | {"group_id": ""}, "GroupId can't be empty."),
        (JOIN | {"rack_id": ""}, "RackId can't be empty."),
        (JOIN | {"group_id": "g" * 32_768}, "GroupId is longer than 32767 bytes."),
        (JOIN | {"rebalance_timeout_ms": -1}, "RebalanceTimeoutMs must be provided in first request."),
        (JOIN | owning(active(0)), "ActiveTasks must be empty when"),
        (JOIN | {"topology": None}, "Topology must be non-null when"),
        (JOIN | {"standby_tasks": None}, "StandbyTasks must be empty when"),
        (STAY | {"active_tasks": []}, "If one task-type is non-null, all must be non-null."),
        (STAY | {"member_epoch": -2}, "InstanceId can't be null."),
        (STAY | {"member_epoch": -3}, "MemberEpoch is -3, but must be greater than or equal to -2."),
        (STAY | {"topology": topology()}, "Topology can only be provided when"),
    ],
)
def test_an_invalid_request_is_rejected_with_kafkas_reason(fields: dict[str, Any], message: str) -> None:
    with pytest.raises(Rejected) as rejected:
        check(StreamsGroupHeartbeatRequest(**fields))
    assert rejected.value.code is ErrorCode.INVALID_REQUEST
    assert rejected.value.message.startswith(message)


@pytest.mark.parametrize(
    "fields",
    [JOIN | {"instance_id": "i"}, JOIN | {"task_offsets": []}, JOIN | {"task_end_offsets": [TaskOffset()]}, STAY | owning(TaskSet())],
)
def test_since_4_4_members_may_be_static_and_report_offsets(fields: dict[str, Any]) -> None:
    check(StreamsGroupHeartbeatRequest(**fields), has_4_4_features=True)


@pytest.mark.parametrize(
    ("fields", "message"),
    [
        (JOIN | {"warmup_tasks": [TaskIds("0", [0])]}, "WarmupTasks must be empty when (re-)joining."),
        (JOIN | {"instance_id": ""}, "InstanceId can't be empty."),
        (JOIN | {"topology": Topology(0, [Subtopology("0", source_topic_regex=["a"])])}, "Regular expressions for source topics are not"),
        (STAY | {"member_epoch": -2}, "InstanceId can't be null."),
    ],
)
def test_since_4_4_other_requests_are_invalid(fields: dict[str, Any], message: str) -> None:
    with pytest.raises(Rejected) as rejected:
        check(StreamsGroupHeartbeatRequest(**fields), has_4_4_features=True)
    assert rejected.value.message.startswith(message)


def test_a_changelog_with_a_partition_count_is_an_invalid_topology() -> None:
    counted = Topology(0, [Subtopology("0", ["t"], state_changelog_topics=[TopicInfo("log", 2)])])
    with pytest.raises(Rejected, match="must have an undefined partition count, but it is set to 2") as rejected:
        check(StreamsGroupHeartbeatRequest(**(JOIN | {"topology": counted})))
    assert rejected.value.code is ErrorCode.STREAMS_INVALID_TOPOLOGY


def test_the_first_member_gets_all_tasks() -> None:
    driver = StreamsDriver()
    answer = driver.join("a")
    assert (answer.epoch, answer.tasks, answer.status) == (2, active(0, 1), [])
    assert driver.kinds == [
        "MemberMetadata",
        "Topology",
        "Metadata",
        "TargetAssignmentMember",
        "TargetAssignmentMetadata",
        "CurrentMemberAssignment",
    ]
    assert driver.beat("a", 2).tasks is None
    assert driver.confirm("a").epoch == 2
    assert driver.kinds == []
    assert driver.group.state is ModernState.STABLE


def test_a_second_member_gets_its_tasks_when_the_first_has_revoked_them() -> None:
    driver = StreamsDriver()
    driver.join("a")
    assert driver.join("b").tasks == TaskSet()
    first = driver.beat("a", 2, **owning(active(0, 1)))
    assert (first.epoch, len(first.tasks.active["0"])) == (2, 1)  # type: ignore[union-attr] # its tasks have changed
    assert driver.confirm("b").tasks == TaskSet(), "the first has not confirmed"
    assert driver.confirm("a").epoch == 3
    assert driver.confirm("b").tasks == driver.group.target("b")
    assert driver.group.state is ModernState.STABLE


def test_a_member_that_does_not_revoke_in_time_is_removed() -> None:
    driver = StreamsDriver()
    driver.join("a", rebalance_timeout_ms=20_000)
    driver.join("b")
    driver.beat("a", 2)
    assert driver.group.members.keys() == {"a", "b"}
    driver.pass_ms(20_000)
    assert driver.group.members.keys() == {"b"}
    assert driver.refused("a", 2) is ErrorCode.UNKNOWN_MEMBER_ID


def test_a_silent_member_is_removed_after_its_session() -> None:
    driver = StreamsDriver(session_timeout_ms=10_000)
    driver.join("a")
    driver.pass_ms(9_999)
    assert not driver.group.is_empty
    driver.pass_ms(1)
    assert driver.group.is_empty
    assert driver.kinds == ["CurrentMemberAssignment-", "TargetAssignmentMember-", "MemberMetadata-", "Metadata"]


def test_a_member_leaves_and_its_timers_end() -> None:
    driver = StreamsDriver()
    driver.join("a")
    assert driver.beat("a", -1).epoch == -1
    deadlines = driver.machine.streams.deadlines["g"]
    assert [deadlines.get(kind, "a") for kind in DeadlineKind] == [None] * len(DeadlineKind)
    assert driver.refused("a", -1) is ErrorCode.UNKNOWN_MEMBER_ID


def test_previous_epoch_is_accepted_only_with_a_subset_of_the_assignment() -> None:
    driver = StreamsDriver(FakeTopics(t=4))
    driver.join("a")
    driver.join("b")
    driver.confirm("a")
    assert driver.confirm("a").epoch == 3
    assert driver.refused("a", 2, **owning(active(0, 1, 2, 3))) is ErrorCode.FENCED_MEMBER_EPOCH
    assert driver.refused("a", 2) is ErrorCode.FENCED_MEMBER_EPOCH
    assert driver.refused("a", 1) is ErrorCode.FENCED_MEMBER_EPOCH
    assert driver.refused("a", 4) is ErrorCode.FENCED_MEMBER_EPOCH
    assert driver.beat("a", 2, **owning(driver.member("a").assigned)).epoch == 3


def test_a_member_that_lists_its_tasks_gets_its_assignment_again() -> None:
    driver = StreamsDriver()
    driver.join("a")
    got = driver.beat("a", 2, **owning(TaskSet()))
    assert got.tasks == active(0, 1), "the response with these tasks may be lost"
    driver.join("b")
    driver.beat("a", 2)
    kept = driver.member("a").assigned
    got = driver.beat("a", 2, **owning(TaskSet()))
    assert (got.epoch, got.tasks) == (3, kept), "the response without the other task may be lost"
    assert driver.beat("a", 3).tasks is None


def test_full_group_refuses_new_and_rejoining_members() -> None:
    driver = StreamsDriver(max_size=1)
    driver.join("a")
    for member_id in ("a", "b"):
        with pytest.raises(Rejected, match="maximum capacity of 1 members"):
            driver.join(member_id)
    assert driver.confirm("a").epoch == 2


def test_fields_omitted_from_a_heartbeat_are_kept() -> None:
    driver = StreamsDriver()
    driver.join("a", rack_id="r", user_endpoint=Endpoint("h", 1), client_tags=[KeyValue("k", "v")])
    joined = driver.member("a")
    driver.confirm("a")
    assert driver.member("a") == joined
    assert (joined.process_id, joined.user_endpoint, joined.client_tags, joined.topology_epoch) == ("p-a", ("h", 1), {"k": "v"}, 0)
    driver.beat("a", 2, rack_id="s")
    assert (driver.member("a").rack_id, driver.group.epoch) == ("s", 3)


def test_missing_internal_topics_are_asked_for_and_then_assigned() -> None:
    driver = StreamsDriver()
    answer = driver.join("a", topology=topology(changelogs=["log"]))
    assert [code for code, _ in answer.status] == [Status.MISSING_INTERNAL_TOPICS]
    assert (answer.topics_to_create["log"].partitions, answer.tasks) == (2, TaskSet())
    assert driver.group.state is ModernState.NOT_READY
    assert driver.confirm("a").topics_to_create.keys() == {"log"}
    driver.topics.set("log", 2)
    ready = driver.confirm("a")
    assert (ready.status, ready.tasks, ready.topics_to_create) == ([], active(0, 1), {})
    assert driver.group.state is ModernState.STABLE


def test_tasks_are_taken_back_when_a_source_topic_is_deleted() -> None:
    driver = StreamsDriver()
    driver.join("a")
    driver.topics.set("t", 0)
    answer = driver.confirm("a")
    assert [code for code, _ in answer.status] == [Status.MISSING_SOURCE_TOPICS]
    assert (answer.tasks, driver.group.state, driver.group.validated_topology_epoch) == (TaskSet(), ModernState.NOT_READY, -1)


def test_added_partitions_add_tasks() -> None:
    driver = StreamsDriver()
    driver.join("a")
    driver.topics.set("t", 3)
    assert driver.confirm("a").tasks == active(0, 1, 2)


def test_partitions_deleted_and_recreated_between_accepted_heartbeats_are_tasks_again() -> None:
    driver = StreamsDriver()
    driver.join("a")
    driver.topics.set("t", 1)
    with pytest.raises(Rejected, match="Task 1 for"):
        driver.beat("a", 2, **owning(active(0, 1)))
    driver.topics.set("t", 2)
    assert driver.beat("a", 2, **owning(active(0, 1))).tasks == active(0, 1)


@pytest.mark.parametrize(("tasks", "message"), [({"1": frozenset({0})}, "Subtopology 1 does"), ({"0": frozenset({2})}, "Task 2 for")])
def test_tasks_that_the_topology_does_not_have_are_rejected(tasks: dict[str, frozenset[int]], message: str) -> None:
    driver = StreamsDriver()
    driver.join("a")
    with pytest.raises(Rejected, match=message):
        driver.beat("a", 2, **owning(TaskSet(tasks)))


def test_an_older_topology_is_stale_and_a_different_one_is_rejected() -> None:
    driver = StreamsDriver()
    driver.join("a", topology=topology(epoch=1))
    stale = driver.join("b", topology=topology(["u"]))
    assert stale.status == [(Status.STALE_TOPOLOGY, "The member's topology epoch 0 is behind the group's topology epoch 1.")]
    for other in (topology(["u"], epoch=1), topology(epoch=2)):
        with pytest.raises(Rejected, match="Topology updates are not supported yet"):
            driver.join("c", topology=other)


def test_requested_shutdown_is_reported_to_every_member() -> None:
    driver = StreamsDriver()
    driver.join("a")
    driver.join("b")
    driver.beat("a", 2, shutdown_application=True)
    answer = driver.confirm("b").status
    assert [code for code, _ in answer] == [Status.SHUTDOWN_APPLICATION]
    assert "member a encountered a fatal error" in answer[0][1]
    driver.beat("b", -1, shutdown_application=True)
    assert "member a encountered" in driver.beat("a", 2, **owning(active(0, 1))).status[0][1], "the first request counts"


def test_a_new_group_waits_for_more_members() -> None:
    driver = StreamsDriver(initial_rebalance_delay_ms=3_000)
    first = driver.join("a")
    assert (first.epoch, first.tasks) == (1, TaskSet())
    assert first.status == [(Status.ASSIGNMENT_DELAYED, "Assignment delayed due to the configured initial rebalance delay.")]
    driver.pass_ms(2_000)
    assert driver.join("b").status == first.status
    driver.confirm("a")
    driver.pass_ms(1_000)
    assert driver.kinds == ["TargetAssignmentMember", "TargetAssignmentMember", "TargetAssignmentMetadata"]
    driver.settle()
    assert {len(tasks.active["0"]) for tasks in driver.assigned().values()} == {1}


def test_the_first_assignment_of_a_group_whose_members_left_is_not_computed() -> None:
    driver = StreamsDriver(initial_rebalance_delay_ms=3_000)
    driver.join("a")
    driver.beat("a", -1)
    driver.pass_ms(3_000)
    assert driver.kinds == []


def test_a_second_assignment_waits_for_the_interval() -> None:
    driver = StreamsDriver(assignment_interval_ms=1_000)
    driver.join("a")
    delayed = driver.join("b")
    assert delayed.status == [(Status.ASSIGNMENT_DELAYED, "Assignment delayed due to the configured assignment interval.")]
    driver.mono_ms += 1_000
    assert driver.confirm("b").status == []
    assert driver.group.assignment_epoch == driver.group.epoch == 3


def test_standby_tasks_are_assigned_when_the_setting_changes() -> None:
    driver = StreamsDriver(FakeTopics(t=2, log=2))
    for member_id in ("a", "b"):
        driver.join(member_id, topology=topology(changelogs=["log"]))
    driver.settle()
    assert not any(tasks.standby for tasks in driver.assigned().values())
    driver.configure(num_standby_replicas=1)
    driver.settle()
    assigned = driver.assigned()
    assert assigned["a"].standby == assigned["b"].active
    assert assigned["b"].standby == assigned["a"].active
    assert driver.group.assignment_configs == {"num.standby.replicas": "1"}


def test_the_endpoints_of_all_members_are_sent_when_one_may_have_changed() -> None:
    driver = StreamsDriver()
    first = driver.join("a", user_endpoint=Endpoint("h", 1), endpoint_information_epoch=-1)
    assert (first.endpoint_epoch, first.endpoints and first.endpoints[0].active_partitions[0].partitions) == (0, [0, 1])
    assert driver.confirm("a").endpoints is None
    driver.join("b", user_endpoint=Endpoint("i", 2))
    answer = driver.beat("a", 2, **owning(active(0, 1)))
    assert (answer.endpoint_epoch, [one.user_endpoint.host for one in answer.endpoints or []]) == (2, ["i", "h"])
    assert driver.beat("b", 3, endpoint_information_epoch=2).endpoints is None


def test_an_endpoint_has_no_partitions_while_source_topics_are_missing() -> None:
    driver = StreamsDriver(FakeTopics())
    answer = driver.join("a", user_endpoint=Endpoint("h", 1))
    assert answer.endpoints is not None
    assert (answer.endpoints[0].user_endpoint.host, answer.endpoints[0].active_partitions) == ("h", [])


def test_a_static_member_that_returns_gets_its_tasks_under_its_new_id() -> None:
    driver = StreamsDriver(has_4_4_features=True)
    driver.join("a", instance_id="i")
    driver.join("b", instance_id="j")
    driver.settle()
    tasks, epoch = driver.member("a").assigned, driver.group.epoch
    left = driver.beat("a", -2, instance_id="i")
    assert (left.member_id, left.epoch, driver.member("a").epoch, driver.member("a").assigned) == ("a", -2, -2, tasks)
    again = driver.join("a2", instance_id="i", process_id="p-a")
    assert (again.epoch, again.tasks, driver.group.epoch) == (epoch, tasks, epoch)
    assert driver.group.members.keys() == {"a2", "b"}
    restored = driver.replayed()
    assert restored is not None
    assert (restored.members, restored.static_member("i")) == (driver.group.members, driver.member("a2"))


def test_an_instance_has_one_member() -> None:
    driver = StreamsDriver(has_4_4_features=True)
    driver.join("a", instance_id="i")
    assert driver.refused("b", 0, **JOINING, instance_id="i") is ErrorCode.UNRELEASED_INSTANCE_ID
    assert driver.refused("b", 2, instance_id="i") is ErrorCode.FENCED_INSTANCE_ID
    assert driver.refused("b", -2, instance_id="i") is ErrorCode.FENCED_INSTANCE_ID
    assert driver.refused("a", 2, instance_id="j") is ErrorCode.UNKNOWN_MEMBER_ID
    driver.beat("a", -1, instance_id="i")
    assert driver.join("b", instance_id="i").tasks == active(0, 1), "an instance that has left for good is free"


def test_a_member_that_joins_under_another_instance_id_gives_up_the_former_one() -> None:
    driver = StreamsDriver(has_4_4_features=True)
    driver.join("a", instance_id="i")
    driver.join("a", instance_id="j")
    assert driver.refused("a", -1, instance_id="i") is ErrorCode.UNKNOWN_MEMBER_ID
    driver.join("b", instance_id="i")
    assert (driver.member("a").instance_id, driver.member("b").instance_id) == ("j", "i")


@pytest.mark.parametrize(("has_4_4_features", "endpoint"), [(False, ("h", 1)), (True, None)])
def test_since_4_4_a_member_that_joins_again_without_an_endpoint_has_none(has_4_4_features: bool, endpoint: tuple[str, int] | None) -> None:
    driver = StreamsDriver(has_4_4_features=has_4_4_features)
    driver.join("a", user_endpoint=Endpoint("h", 1))
    driver.join("a")
    assert driver.member("a").user_endpoint == endpoint


@pytest.mark.parametrize(
    ("fields", "dynamic", "static"),
    [
        ({"user_endpoint": Endpoint("h", 1)}, 1, 0),
        ({"rebalance_timeout_ms": 7}, 1, 0),
        ({"rack_id": "r"}, 1, 1),
        ({"client_tags": [KeyValue("k", "v")]}, 1, 1),
        ({"process_id": "p"}, 1, 1),
    ],
)
def test_static_members_change_bumps_the_epoch_only_for_fields_that_the_assignor_uses(
    fields: dict[str, Any], dynamic: int, static: int
) -> None:
    for instance_id, bumps in ((None, dynamic), ("i", static)):
        driver = StreamsDriver(has_4_4_features=True)
        epoch = driver.join("a", instance_id=instance_id).epoch
        driver.beat("a", epoch, instance_id=instance_id, **fields)
        assert driver.group.epoch - epoch == bumps


def test_a_static_member_that_does_not_return_in_time_is_removed() -> None:
    driver = StreamsDriver(has_4_4_features=True)
    driver.join("a", instance_id="i")
    driver.beat("a", -2, instance_id="i")
    driver.pass_ms(45_000)
    assert driver.group.is_empty
    assert driver.group.static_member("i") is None


def test_a_full_group_has_room_for_members_that_it_knows() -> None:
    driver = StreamsDriver(has_4_4_features=True, max_size=1)
    driver.join("a", instance_id="i")
    driver.beat("a", -2, instance_id="i")
    driver.join("b", instance_id="i")
    assert driver.refused("c", 0, **JOINING) is ErrorCode.GROUP_MAX_SIZE_REACHED


@pytest.mark.parametrize(("has_4_4_features", "count"), [(False, 2), (True, 1)])
def test_unchanged_rejoin_bumps_the_endpoint_epoch_only_until_4_3(has_4_4_features: bool, count: int) -> None:
    driver = StreamsDriver(FakeTopics(), has_4_4_features=has_4_4_features)
    driver.join("b")
    before = driver.join("a", user_endpoint=Endpoint("h", 1)).endpoint_epoch
    again = driver.join("a", user_endpoint=Endpoint("h", 1)).endpoint_epoch
    assert (before, again) == (1, count)


def test_member_status_names_the_missing_client_tags() -> None:
    driver = StreamsDriver(has_4_4_features=True, rack_tags=("zone", "rack"))
    code, detail = driver.join("a", client_tags=[KeyValue("zone", "z")]).status[0]
    assert code == Status.MISSING_CLIENT_TAGS
    assert detail.startswith("Missing required client tags for rack-aware standby assignment: [rack]. Configure them via")
    assert driver.group.assignment_configs == {"num.standby.replicas": "0", "rack.aware.assignment.tags": "zone,rack"}
    assert driver.join("b", client_tags=[KeyValue("rack", "r"), KeyValue("zone", "z")]).status == []


@pytest.mark.parametrize(("has_4_4_features", "of_b"), [(False, active(2)), (True, active(1))])
def test_since_4_4_a_member_keeps_its_current_tasks_and_not_its_target_tasks(has_4_4_features: bool, of_b: TaskSet) -> None:
    driver = StreamsDriver(FakeTopics(t=3), has_4_4_features=has_4_4_features)
    driver.join("a")
    for member_id in ("b", "c"):
        driver.join(member_id)
    assert driver.group.target("b") == of_b


def test_reported_offsets_of_the_topologys_tasks_are_kept_until_they_are_reported_again() -> None:
    driver = StreamsDriver(has_4_4_features=True)
    driver.join("a")
    driver.beat("a", 2, task_offsets=[TaskOffset("0", 0, 5), TaskOffset("0", 7, 5), TaskOffset("x", 0, 5)])
    driver.beat("a", 2, task_end_offsets=[TaskOffset("0", 1, 9)])
    assert driver.group.reports == {"a": OffsetReport({("0", 0): 5}, {("0", 1): 9})}
    driver.beat("a", 2, task_offsets=[])
    assert driver.group.reports == {"a": OffsetReport({}, {("0", 1): 9})}
    driver.beat("a", -1)
    driver.join("b", task_offsets=[])
    assert driver.group.reports.keys() == {"b"}


@pytest.mark.parametrize("field", ["task_offsets", "task_end_offsets"])
def test_a_task_whose_offset_is_reported_twice_is_refused(field: str) -> None:
    driver = StreamsDriver(has_4_4_features=True)
    driver.join("a")
    assert driver.refused("a", 2, **{field: [TaskOffset("0", 0, 5), TaskOffset("0", 0, 5)]}) is ErrorCode.INVALID_REQUEST
    assert driver.group.reports == {}
