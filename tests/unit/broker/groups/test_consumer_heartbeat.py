from __future__ import annotations

from typing import Any

import pytest

from ottla.broker.core.rejected import Rejected
from ottla.broker.groups.consumer_member import MemberState
from ottla.broker.groups.modern import ModernState
from ottla.broker.groups.regexes import REFRESH_MIN_INTERVAL_MS
from ottla.protocol.error_codes import ErrorCode
from tests.support.consumer_groups import FakeTopics, GroupsDriver, topic_id

T, U = topic_id("t"), topic_id("u")
JOIN: dict[str, Any] = {"topic_names": frozenset({"t"}), "rebalance_timeout_ms": 30_000, "owned": {}}


def two_members(**config: Any) -> GroupsDriver:
    """Return a group in which a owns half of the partitions of t, and b waits until a has revoked the other half."""
    driver = GroupsDriver(**config)
    driver.join("a")
    driver.join("b")
    return driver


def stable_pair(driver: GroupsDriver) -> None:
    """Let both members finish the rebalance; each then owns its half."""
    keeps = driver.beat("a", 2).assignment
    assert keeps is not None
    driver.beat("a", 2, owned=keeps)
    driver.beat("b", driver.member("b").epoch, owned={})
    assert driver.group.state is ModernState.STABLE


@pytest.fixture
def driver() -> GroupsDriver:
    return GroupsDriver()


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"member_id": ""}, "MemberId"),
        ({"group_id": ""}, "GroupId"),
        ({"instance_id": ""}, "InstanceId"),
        ({"rack_id": ""}, "RackId"),
        ({"rebalance_timeout_ms": -1}, "RebalanceTimeoutMs"),
        ({"owned": None}, "TopicPartitions"),
        ({"owned": {T: frozenset({0})}}, "TopicPartitions"),
        ({"topic_names": None}, "Either SubscribedTopicNames or SubscribedTopicRegex"),
        ({"epoch": -3}, "MemberEpoch"),
        ({"epoch": -2}, "InstanceId"),
        ({"member_id": "x" * 40_000}, "MemberId is longer"),
        ({"topic_regex": "x" * 40_000}, "SubscribedTopicRegex is longer"),
    ],
)
def test_a_contradictory_heartbeat_is_invalid(changes: dict[str, Any], message: str) -> None:
    from ottla.broker.groups.consumer_heartbeat import Heartbeat

    fields: dict[str, Any] = {"group_id": "g", "member_id": "m", "epoch": 0, **JOIN}
    driver = GroupsDriver()
    with pytest.raises(Rejected, match=message) as refused:
        driver.machine.consumer_heartbeat(Heartbeat(**(fields | changes)), driver.now)
    assert refused.value.code is ErrorCode.INVALID_REQUEST


def test_an_unknown_assignor_is_refused_with_the_known_ones() -> None:
    with pytest.raises(Rejected, match="uniform, range") as refused:
        GroupsDriver().join("a", server_assignor="mine")
    assert refused.value.code is ErrorCode.UNSUPPORTED_ASSIGNOR


def test_an_invalid_regular_expression_is_refused(driver: GroupsDriver) -> None:
    assert driver.refused("a", 0, topic_regex="(", rebalance_timeout_ms=1, owned={}) is ErrorCode.INVALID_REGULAR_EXPRESSION
    assert driver.log == []
    assert driver.machine.groups == {}
    assert driver.machine.next_deadline("g") is None


def test_the_first_member_gets_everything_at_once(driver: GroupsDriver) -> None:
    answer = driver.join("a")
    assert (answer.member_id, answer.epoch, answer.heartbeat_interval_ms) == ("a", 2, 5_000)
    assert answer.assignment == {T: frozenset(range(4))}
    assert driver.group.state is ModernState.STABLE


def test_an_unchanged_heartbeat_writes_nothing_and_has_no_assignment(driver: GroupsDriver) -> None:
    driver.join("a")
    written = len(driver.log)
    assert driver.beat("a", 2).assignment is None
    assert len(driver.log) == written


def test_a_full_request_gets_the_whole_assignment(driver: GroupsDriver) -> None:
    owned = driver.join("a").assignment
    assert driver.beat("a", 2, **(JOIN | {"owned": owned})).assignment == owned


def test_a_partition_is_assigned_only_after_its_owner_revoked_it() -> None:
    driver = two_members()
    assert driver.member("b").assigned == {}
    keeps = driver.beat("a", 2).assignment
    assert keeps is not None
    assert len(keeps[T]) == 2
    assert driver.member("a").state is MemberState.UNREVOKED_PARTITIONS
    assert driver.beat("b", 3).assignment is None, "a has not said that it let go"
    assert driver.beat("a", 2, owned=keeps).epoch == 3
    given = driver.beat("b", 3).assignment
    assert given is not None
    assert given[T] == frozenset(range(4)) - keeps[T]
    assert driver.group.state is ModernState.STABLE


def test_a_member_that_does_not_revoke_is_removed_even_if_the_first_attempt_cannot_be_written() -> None:
    driver = two_members()
    driver.beat("a", 2)
    driver.pass_ms(29_999)
    driver.beat("a", 2)
    driver.refuses_writes = True
    with pytest.raises(Rejected):
        driver.pass_ms(1)
    driver.refuses_writes = False
    assert "a" in driver.group.members
    driver.pass_ms(29_999)
    driver.beat("a", 2)
    driver.pass_ms(1)
    assert "a" not in driver.group.members


def test_the_previous_epoch_is_accepted_with_a_subset_of_the_assignment(driver: GroupsDriver) -> None:
    driver.join("a")
    assert driver.join("a").epoch == 2, "the answer to the join was lost"
    driver.topics.set("t", 6)
    driver.beat("a", 2)
    assert driver.member("a").epoch == 3
    assert driver.beat("a", 2, owned={T: frozenset({0})}).epoch == 3
    assert driver.refused("a", 2, owned={T: frozenset({9})}) is ErrorCode.FENCED_MEMBER_EPOCH
    assert driver.refused("a", 2) is ErrorCode.FENCED_MEMBER_EPOCH, "it does not say what it owns"


def test_a_fenced_member_joins_again_at_once_under_its_id() -> None:
    driver = two_members()
    stable_pair(driver)
    assert driver.refused("a", 10) is ErrorCode.FENCED_MEMBER_EPOCH
    answer = driver.join("a")
    assert (answer.epoch, answer.assignment) == (3, driver.member("a").assigned)
    assert driver.group.state is ModernState.STABLE


def test_a_static_member_that_did_not_leave_blocks_its_instance_id(driver: GroupsDriver) -> None:
    driver.join("a", instance_id="i")
    assert driver.refused("a", 0, **JOIN, instance_id="i") is ErrorCode.UNRELEASED_INSTANCE_ID
    driver.beat("a", -2, instance_id="i")
    assert driver.join("a", instance_id="i").epoch == 2


def test_rejoin_under_an_instance_id_restores_pending_revocations_at_once() -> None:
    driver = GroupsDriver(assignment_interval_ms=1_000)
    had = driver.join("a").assignment
    driver.beat("a", 2, topic_names=frozenset())
    assert (driver.member("a").assigned, driver.member("a").pending_revocation) == ({}, had)
    again = driver.join("a", instance_id="i")
    assert (again.epoch, again.assignment) == (2, had)


@pytest.mark.parametrize("epoch", [1, 9])
def test_any_other_epoch_is_fenced(driver: GroupsDriver, epoch: int) -> None:
    driver.join("a")
    for partitions in (5, 6):
        driver.topics.set("t", partitions)
        driver.beat("a", driver.member("a").epoch)
    assert driver.member("a").epoch == 4
    assert driver.refused("a", epoch, owned={}) is ErrorCode.FENCED_MEMBER_EPOCH


def test_unknown_groups_and_members_are_refused(driver: GroupsDriver) -> None:
    assert driver.refused("a", 2) is ErrorCode.GROUP_ID_NOT_FOUND
    assert driver.refused("a", -1) is ErrorCode.GROUP_ID_NOT_FOUND
    driver.join("a")
    assert driver.refused("b", 2) is ErrorCode.UNKNOWN_MEMBER_ID
    assert driver.refused("b", -1) is ErrorCode.UNKNOWN_MEMBER_ID


def test_a_full_consumer_group_refuses_new_members() -> None:
    driver = GroupsDriver(max_size=1)
    driver.join("a")
    with pytest.raises(Rejected) as refused:
        driver.join("b")
    assert refused.value.code is ErrorCode.GROUP_MAX_SIZE_REACHED
    assert driver.beat("a", 2).epoch == 2


def test_a_leaving_members_partitions_go_to_the_others() -> None:
    driver = two_members()
    stable_pair(driver)
    assert driver.beat("b", -1).epoch == -1
    assert driver.group.state is ModernState.ASSIGNING
    assert driver.beat("a", 3).assignment == {T: frozenset(range(4))}


def test_the_last_members_leave_empties_the_group(driver: GroupsDriver) -> None:
    driver.join("a")
    driver.beat("a", -1)
    assert driver.group.state is ModernState.EMPTY
    assert driver.join("a").epoch == 4


def test_a_changed_subscription_revokes_before_it_assigns() -> None:
    driver = GroupsDriver(FakeTopics(t=2, u=2))
    driver.join("a")
    answer = driver.beat("a", 2, topic_names=frozenset({"u"}))
    assert (answer.epoch, answer.assignment) == (2, {})
    answer = driver.beat("a", 2, owned={})
    assert (answer.epoch, answer.assignment) == (3, {U: frozenset({0, 1})})


def test_assignments_are_computed_at_most_once_per_interval() -> None:
    driver = GroupsDriver(assignment_interval_ms=1_000)
    driver.join("a")
    driver.pass_ms(999)
    answer = driver.join("b")
    assert (answer.epoch, answer.assignment) == (2, {}), "there is no assignment for it yet"
    assert driver.group.state is ModernState.ASSIGNING
    assert driver.beat("a", 2).assignment is None
    driver.pass_ms(1)
    assert driver.beat("b", 2).epoch == 3
    assert driver.group.state is ModernState.RECONCILING


def test_the_last_assignments_time_survives_a_restart() -> None:
    driver = GroupsDriver(assignment_interval_ms=1_000)
    driver.join("a")
    driver.restart()
    assert driver.join("b").epoch == 2
    driver.pass_ms(1_000)
    assert driver.beat("b", 2).epoch == 3


def test_an_unsubscribed_topic_is_revoked_before_the_next_assignment() -> None:
    driver = GroupsDriver(FakeTopics(t=2, u=2), assignment_interval_ms=1_000)
    driver.join("a", ("t", "u"))
    answer = driver.beat("a", 2, topic_names=frozenset({"u"}))
    assert (answer.epoch, answer.assignment) == (2, {U: frozenset({0, 1})})
    assert driver.member("a").pending_revocation == {T: frozenset({0, 1})}


def test_a_member_without_topics_changes_no_assignment(driver: GroupsDriver) -> None:
    assert driver.join("a", ()).epoch == 1
    assert driver.join("b").epoch == 2
    assert driver.join("c", ()).epoch == 2


def test_the_assignor_that_most_members_ask_for_is_used() -> None:
    driver = GroupsDriver(FakeTopics(t=3, u=3))
    driver.join("a", ("t", "u"), server_assignor="range")
    driver.join("b", ("t", "u"))
    assert driver.group.target("a") == {T: frozenset({0, 1}), U: frozenset({0, 1})}


def test_another_preferred_assignor_assigns_the_group_again() -> None:
    driver = GroupsDriver(FakeTopics(t=3, u=3))
    driver.join("a", ("t", "u"))
    driver.join("b", ("t", "u"))
    assert driver.group.epoch == 3
    driver.beat("a", 2, server_assignor="uniform")  # is preferred already, as the default
    assert driver.group.epoch == 3
    driver.beat("a", 2, server_assignor="range")
    assert driver.group.epoch == 4
    assert driver.group.target("a") == {T: frozenset({0, 1}), U: frozenset({0, 1})}


def test_heartbeats_change_nothing_while_two_assignors_have_as_many_members() -> None:
    driver = GroupsDriver(FakeTopics(t=3))
    driver.join("a", server_assignor="range")
    driver.join("b", server_assignor="uniform")
    epoch = driver.group.epoch
    driver.beat("a", 2)
    driver.beat("b", driver.member("b").epoch, server_assignor="uniform")
    assert driver.group.epoch == epoch


def test_another_preferred_assignor_waits_for_the_next_change_like_a_release_before_4_4() -> None:
    driver = GroupsDriver(FakeTopics(t=3, u=3), follows_preferred_assignor=False)
    driver.join("a", ("t", "u"))
    driver.beat("a", 2, server_assignor="range")
    assert driver.group.epoch == 2


# --- topics that change -----------------------------------------------------------------------------------------------------------


def test_topic_changes_apply_at_the_next_heartbeat() -> None:
    driver = GroupsDriver(FakeTopics(t=1))
    driver.join("a", ("t", "u"))
    driver.topics.set("t", 2)
    assert driver.beat("a", 2).assignment == {T: frozenset({0, 1})}
    driver.topics.set("u", 1)
    assert driver.beat("a", 3).assignment == {T: frozenset({0, 1}), U: frozenset({0})}
    driver.topics.set("t", 0)
    assert driver.beat("a", 4).assignment == {U: frozenset({0})}


def test_an_unsubscribed_topics_changes_are_ignored(driver: GroupsDriver) -> None:
    driver.join("a")
    written = len(driver.log)
    driver.topics.set("other", 3)
    assert driver.beat("a", 2).assignment is None
    assert len(driver.log) == written


def test_a_regular_expression_matches_existing_and_future_topics() -> None:
    driver = GroupsDriver(FakeTopics(t1=1, t2=1, xt1=1))
    joined = driver.join("a", (), topic_regex="t[0-9]")
    assert (joined.epoch, joined.assignment) == (1, {}), "the expression is resolved after the answer"
    answer = driver.beat("a", 1)
    assert (answer.epoch, answer.assignment) == (2, {topic_id("t1"): frozenset({0}), topic_id("t2"): frozenset({0})})
    driver.topics.set("t3", 1)
    assert driver.beat("a", 2).assignment is None, "the last resolution was a moment ago"
    driver.mono_ms += REFRESH_MIN_INTERVAL_MS + 1
    assert driver.beat("a", 2).assignment is None
    assert set(driver.beat("a", 2).assignment or {}) == {topic_id("t1"), topic_id("t2"), topic_id("t3")}
    assert driver.group.resolved == {"t[0-9]": frozenset({"t1", "t2", "t3"})}


def test_topic_names_do_not_wait_for_the_regular_expression() -> None:
    driver = GroupsDriver(FakeTopics(t1=1, t2=1, u=2))
    joined = driver.join("a", ("u",), topic_regex="t.*")
    assert (joined.epoch, joined.assignment) == (2, {topic_id("u"): frozenset({0, 1})})
    assert set(driver.beat("a", 2).assignment or {}) == {topic_id("t1"), topic_id("t2"), topic_id("u")}
    assert driver.member("a").epoch == 3


def test_a_resolved_regular_expression_applies_at_once() -> None:
    driver = GroupsDriver(FakeTopics(t1=1, t2=1))
    driver.join("a", (), topic_regex="t.*")
    assert driver.join("b", (), topic_regex="t.*").epoch == 3
    driver.beat("b", 3, topic_regex="")
    assert (driver.group.epoch, driver.member("b").assigned) == (4, {})


def test_a_changed_regular_expression_revokes_the_old_topics_first() -> None:
    driver = GroupsDriver(FakeTopics(t1=1, u1=1))
    driver.join("a", (), topic_regex="t.*")
    assert driver.beat("a", 1).assignment == {topic_id("t1"): frozenset({0})}
    driver.resolves = False
    assert driver.beat("a", 2, topic_regex="u.*").assignment == {}
    assert (driver.group.epoch, driver.group.resolved) == (2, {}), "nobody else's share depends on it yet"
    assert driver.resolve()
    assert (driver.group.epoch, driver.group.resolved) == (3, {"u.*": frozenset({"u1"})})


def test_an_unused_regular_expression_is_removed() -> None:
    driver = GroupsDriver(FakeTopics(t1=1))
    driver.join("a", (), topic_regex="t.*")
    driver.join("b", (), topic_regex="t1")
    driver.beat("b", driver.member("b").epoch, topic_regex="", topic_names=frozenset({"t1"}))
    assert set(driver.group.resolved) == {"t.*"}
    driver.beat("a", -1)
    assert driver.group.resolved == {}


# --- time -------------------------------------------------------------------------------------------------------------------------


def test_a_full_heartbeat_releases_unreported_partitions() -> None:
    """A client that is still revoking partitions reports its previous ones. The coordinator cannot distinguish that from a lost response
    (KAFKA: CurrentAssignmentBuilder), so the application may own an unreported partition for a moment after the coordinator has released
    it."""
    driver = two_members()
    assert driver.beat("a", 2, owned={}, rebalance_timeout_ms=30_000, topic_names=frozenset({"t"})).epoch == 3
    given = driver.beat("b", 3).assignment
    assert given is not None
    assert given[T] | driver.member("a").assigned[T] == frozenset(range(4))


def test_a_silent_consumer_member_is_removed_when_its_session_expires() -> None:
    driver = two_members(session_timeout_ms=45_000)
    stable_pair(driver)
    driver.pass_ms(44_999)
    driver.beat("a", 3)
    driver.pass_ms(1)
    assert set(driver.group.members) == {"a"}
    assert driver.beat("a", 3).assignment == {T: frozenset(range(4))}
    assert driver.refused("b", 3) is ErrorCode.UNKNOWN_MEMBER_ID


def test_a_member_that_does_not_revoke_in_time_is_removed() -> None:
    driver = two_members()
    driver.beat("a", 2)
    for _ in range(30):
        driver.pass_ms(1_000)
        if "a" in driver.group.members:
            driver.beat("a", 2, owned={T: frozenset(range(4))})
        driver.beat("b", driver.member("b").epoch)
    assert set(driver.group.members) == {"b"}
    assert driver.member("b").assigned == {T: frozenset(range(4))}


def test_a_member_that_revokes_in_time_is_kept() -> None:
    driver = two_members()
    stable_pair(driver)
    for _ in range(40):
        driver.pass_ms(1_000)
        driver.beat("a", 3)
        driver.beat("b", 3)
    assert set(driver.group.members) == {"a", "b"}


def test_after_a_restart_members_have_full_session_and_revocation_timeouts() -> None:
    driver = two_members(session_timeout_ms=45_000)
    driver.beat("a", 2)
    driver.pass_ms(20_000)
    driver.restart()
    driver.pass_ms(29_000)
    assert set(driver.group.members) == {"a", "b"}
    driver.pass_ms(1_000)
    assert set(driver.group.members) == {"b"}, "the rebalance timeout of a"
    driver.pass_ms(15_000)
    assert driver.group.members == {}


def test_a_failed_removal_of_a_member_is_retried() -> None:
    driver = GroupsDriver(session_timeout_ms=45_000)
    driver.join("a")
    driver.refuses_writes = True
    with pytest.raises(Rejected):
        driver.pass_ms(45_000)
    driver.mono_ms = 45_000
    driver.refuses_writes = False
    assert set(driver.group.members) == {"a"}
    driver.pass_ms(45_000)
    assert driver.group.members == {}


# --- static members ---------------------------------------------------------------------------------------------------------------


def test_an_instance_id_has_one_live_member(driver: GroupsDriver) -> None:
    driver.join("a", instance_id="i")
    with pytest.raises(Rejected) as refused:
        driver.join("b", instance_id="i")
    assert refused.value.code is ErrorCode.UNRELEASED_INSTANCE_ID
    assert driver.refused("b", 2, instance_id="i") is ErrorCode.FENCED_INSTANCE_ID
    assert driver.refused("a", 2, instance_id="j") is ErrorCode.UNKNOWN_MEMBER_ID


def test_a_temporarily_left_static_member_keeps_its_assignment(driver: GroupsDriver) -> None:
    had = driver.join("a", instance_id="i").assignment
    assert driver.beat("a", -2, instance_id="i").epoch == -2
    epoch = driver.group.epoch
    answer = driver.join("b", instance_id="i")
    assert (answer.assignment, answer.epoch, driver.group.epoch) == (had, epoch, epoch)
    assert set(driver.group.members) == {"b"}
    assert driver.refused("a", 2, instance_id="i") is ErrorCode.FENCED_INSTANCE_ID


def test_a_static_member_can_return_with_its_member_id(driver: GroupsDriver) -> None:
    had = driver.join("a", instance_id="i").assignment
    driver.beat("a", -2, instance_id="i")
    assert driver.join("a", instance_id="i").assignment == had


def test_a_left_static_members_partitions_wait_for_its_session() -> None:
    driver = GroupsDriver(session_timeout_ms=45_000)
    driver.join("a", instance_id="i")
    driver.beat("a", -2, instance_id="i")
    driver.pass_ms(30_000)
    assert driver.join("b").assignment == {}
    driver.pass_ms(15_000)
    assert set(driver.group.members) == {"b"}
    assert driver.beat("b", 3).assignment == {T: frozenset(range(4))}


def test_a_static_member_that_leaves_permanently_is_removed(driver: GroupsDriver) -> None:
    driver.join("a", instance_id="i")
    driver.beat("a", -1, instance_id="i")
    assert driver.group.members == {}
    assert driver.join("b", instance_id="i").assignment == {T: frozenset(range(4))}
