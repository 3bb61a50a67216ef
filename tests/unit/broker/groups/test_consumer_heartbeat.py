"""Every rule of ConsumerGroupHeartbeat, on a group without a broker."""

from __future__ import annotations

from typing import Any

import pytest

from ottla.broker.core.rejected import Rejected
from ottla.broker.groups.consumer import ConsumerState
from ottla.broker.groups.consumer_member import MemberState
from ottla.broker.groups.regexes import REFRESH_MIN_INTERVAL_MS
from ottla.protocol.error_codes import ErrorCode
from tests.support.consumer_groups import FakeTopics, GroupsDriver, topic_id

T, U = topic_id("t"), topic_id("u")
JOIN: dict[str, Any] = {"topic_names": frozenset({"t"}), "rebalance_timeout_ms": 30_000, "owned": {}}


def two_members(**config: Any) -> GroupsDriver:
    """a has half of t; b waits until a has let go of the other half."""
    driver = GroupsDriver(**config)
    driver.join("a")
    driver.join("b")
    return driver


def stable_pair(driver: GroupsDriver) -> None:
    """Both have their halves."""
    keeps = driver.beat("a", 2).assignment
    assert keeps is not None
    driver.beat("a", 2, owned=keeps)
    driver.beat("b", driver.member("b").epoch, owned={})
    assert driver.group.state is ConsumerState.STABLE


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
def test_a_request_that_makes_no_sense_is_invalid(changes: dict[str, Any], message: str) -> None:
    from ottla.broker.groups.consumer_heartbeat import Heartbeat

    fields: dict[str, Any] = {"group_id": "g", "member_id": "m", "epoch": 0, **JOIN}
    driver = GroupsDriver()
    with pytest.raises(Rejected, match=message) as refused:
        driver.machine.consumer_heartbeat(Heartbeat(**(fields | changes)), driver.now)
    assert refused.value.code is ErrorCode.INVALID_REQUEST


def test_an_unknown_assignor_is_named_with_those_that_there_are() -> None:
    with pytest.raises(Rejected, match="uniform, range") as refused:
        GroupsDriver().join("a", server_assignor="mine")
    assert refused.value.code is ErrorCode.UNSUPPORTED_ASSIGNOR


def test_a_broken_expression_is_refused_and_changes_nothing() -> None:
    driver = GroupsDriver()
    assert driver.refused("a", 0, topic_regex="(", rebalance_timeout_ms=1, owned={}) is ErrorCode.INVALID_REGULAR_EXPRESSION
    assert driver.log == []
    assert driver.machine.groups == {}
    assert driver.machine.next_deadline("g") is None


def test_the_first_member_gets_everything_at_once() -> None:
    driver = GroupsDriver()
    answer = driver.join("a")
    assert (answer.member_id, answer.epoch, answer.heartbeat_interval_ms) == ("a", 2, 5_000)
    assert answer.assignment == {T: frozenset(range(4))}
    assert driver.group.state is ConsumerState.STABLE


def test_a_steady_heartbeat_writes_and_tells_nothing() -> None:
    driver = GroupsDriver()
    driver.join("a")
    written = len(driver.log)
    assert driver.beat("a", 2).assignment is None
    assert len(driver.log) == written


def test_a_full_request_is_told_the_whole_assignment_again() -> None:
    driver = GroupsDriver()
    owned = driver.join("a").assignment
    assert driver.beat("a", 2, **(JOIN | {"owned": owned})).assignment == owned


def test_a_partition_is_given_only_after_its_owner_let_go() -> None:
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
    assert driver.group.state is ConsumerState.STABLE


def test_the_epoch_before_is_believed_of_a_member_that_owns_no_more_than_it_should() -> None:
    driver = GroupsDriver()
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
    assert driver.group.state is ConsumerState.STABLE


def test_a_static_member_that_did_not_leave_is_in_its_own_way() -> None:
    driver = GroupsDriver()
    driver.join("a", instance_id="i")
    assert driver.refused("a", 0, **JOIN, instance_id="i") is ErrorCode.UNRELEASED_INSTANCE_ID
    driver.beat("a", -2, instance_id="i")
    assert driver.join("a", instance_id="i").epoch == 2


@pytest.mark.parametrize("epoch", [1, 9])
def test_any_other_epoch_fences(epoch: int) -> None:
    driver = GroupsDriver()
    driver.join("a")
    for partitions in (5, 6):
        driver.topics.set("t", partitions)
        driver.beat("a", driver.member("a").epoch)
    assert driver.member("a").epoch == 4
    assert driver.refused("a", epoch, owned={}) is ErrorCode.FENCED_MEMBER_EPOCH


def test_nobody_is_known_to_a_group_that_is_not_there_and_strangers_to_none() -> None:
    driver = GroupsDriver()
    assert driver.refused("a", 2) is ErrorCode.GROUP_ID_NOT_FOUND
    assert driver.refused("a", -1) is ErrorCode.GROUP_ID_NOT_FOUND
    driver.join("a")
    assert driver.refused("b", 2) is ErrorCode.UNKNOWN_MEMBER_ID
    assert driver.refused("b", -1) is ErrorCode.UNKNOWN_MEMBER_ID


def test_a_full_group_takes_nobody_else_in() -> None:
    driver = GroupsDriver(max_size=1)
    driver.join("a")
    with pytest.raises(Rejected) as refused:
        driver.join("b")
    assert refused.value.code is ErrorCode.GROUP_MAX_SIZE_REACHED
    assert driver.beat("a", 2).epoch == 2


def test_what_a_member_that_leaves_had_goes_to_the_others() -> None:
    driver = two_members()
    stable_pair(driver)
    assert driver.beat("b", -1).epoch == -1
    assert driver.group.state is ConsumerState.ASSIGNING
    assert driver.beat("a", 3).assignment == {T: frozenset(range(4))}


def test_the_last_one_to_leave_leaves_an_empty_group() -> None:
    driver = GroupsDriver()
    driver.join("a")
    driver.beat("a", -1)
    assert driver.group.state is ConsumerState.EMPTY
    assert driver.join("a").epoch == 4


def test_a_new_subscription_takes_the_old_topic_back_before_it_gives_the_new_one() -> None:
    driver = GroupsDriver(FakeTopics(t=2, u=2))
    driver.join("a")
    answer = driver.beat("a", 2, topic_names=frozenset({"u"}))
    assert (answer.epoch, answer.assignment) == (2, {})
    answer = driver.beat("a", 2, owned={})
    assert (answer.epoch, answer.assignment) == (3, {U: frozenset({0, 1})})


def test_an_assignment_is_computed_an_interval_after_the_last_one_at_the_earliest() -> None:
    driver = GroupsDriver(assignment_interval_ms=1_000)
    driver.join("a")
    driver.pass_ms(999)
    answer = driver.join("b")
    assert (answer.epoch, answer.assignment) == (2, {}), "there is no assignment for it yet"
    assert driver.group.state is ConsumerState.ASSIGNING
    assert driver.beat("a", 2).assignment is None
    driver.pass_ms(1)
    assert driver.beat("b", 2).epoch == 3
    assert driver.group.state is ConsumerState.RECONCILING


def test_a_restart_does_not_forget_when_the_last_assignment_was() -> None:
    driver = GroupsDriver(assignment_interval_ms=1_000)
    driver.join("a")
    driver.restart()
    assert driver.join("b").epoch == 2
    driver.pass_ms(1_000)
    assert driver.beat("b", 2).epoch == 3


def test_a_topic_that_is_given_up_is_taken_back_before_the_next_assignment() -> None:
    driver = GroupsDriver(FakeTopics(t=2, u=2), assignment_interval_ms=1_000)
    driver.join("a", ("t", "u"))
    answer = driver.beat("a", 2, topic_names=frozenset({"u"}))
    assert (answer.epoch, answer.assignment) == (2, {U: frozenset({0, 1})})
    assert driver.member("a").pending_revocation == {T: frozenset({0, 1})}


def test_a_member_that_subscribes_to_nothing_changes_nobodys_share() -> None:
    driver = GroupsDriver()
    assert driver.join("a", ()).epoch == 1
    assert driver.join("b").epoch == 2
    assert driver.join("c", ()).epoch == 2


def test_the_assignor_that_most_members_ask_for_is_used() -> None:
    driver = GroupsDriver(FakeTopics(t=3, u=3))
    driver.join("a", ("t", "u"), server_assignor="range")
    driver.join("b", ("t", "u"))
    assert driver.group.target("a") == {T: frozenset({0, 1}), U: frozenset({0, 1})}


# --- topics that change -----------------------------------------------------------------------------------------------------------


def test_a_topic_that_grows_appears_or_goes_is_seen_at_the_next_heartbeat() -> None:
    driver = GroupsDriver(FakeTopics(t=1))
    driver.join("a", ("t", "u"))
    driver.topics.set("t", 2)
    assert driver.beat("a", 2).assignment == {T: frozenset({0, 1})}
    driver.topics.set("u", 1)
    assert driver.beat("a", 3).assignment == {T: frozenset({0, 1}), U: frozenset({0})}
    driver.topics.set("t", 0)
    assert driver.beat("a", 4).assignment == {U: frozenset({0})}


def test_a_topic_that_nobody_reads_changes_nothing() -> None:
    driver = GroupsDriver()
    driver.join("a")
    written = len(driver.log)
    driver.topics.set("other", 3)
    assert driver.beat("a", 2).assignment is None
    assert len(driver.log) == written


def test_an_expression_stands_for_the_topics_that_there_are_and_will_be() -> None:
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


def test_topics_by_name_do_not_wait_for_the_expression_beside_them() -> None:
    driver = GroupsDriver(FakeTopics(t1=1, t2=1, u=2))
    joined = driver.join("a", ("u",), topic_regex="t.*")
    assert (joined.epoch, joined.assignment) == (2, {topic_id("u"): frozenset({0, 1})})
    assert set(driver.beat("a", 2).assignment or {}) == {topic_id("t1"), topic_id("t2"), topic_id("u")}
    assert driver.member("a").epoch == 3


def test_an_expression_that_the_group_has_resolved_counts_at_once() -> None:
    driver = GroupsDriver(FakeTopics(t1=1, t2=1))
    driver.join("a", (), topic_regex="t.*")
    assert driver.join("b", (), topic_regex="t.*").epoch == 3
    driver.beat("b", 3, topic_regex="")
    assert (driver.group.epoch, driver.member("b").assigned) == (4, {})


def test_a_new_expression_takes_the_topics_of_the_old_one_back_before_it_is_resolved() -> None:
    driver = GroupsDriver(FakeTopics(t1=1, u1=1))
    driver.join("a", (), topic_regex="t.*")
    assert driver.beat("a", 1).assignment == {topic_id("t1"): frozenset({0})}
    driver.resolves = False
    assert driver.beat("a", 2, topic_regex="u.*").assignment == {}
    assert (driver.group.epoch, driver.group.resolved) == (2, {}), "nobody else's share depends on it yet"
    assert driver.resolve()
    assert (driver.group.epoch, driver.group.resolved) == (3, {"u.*": frozenset({"u1"})})


def test_an_expression_that_nobody_uses_any_more_is_forgotten() -> None:
    driver = GroupsDriver(FakeTopics(t1=1))
    driver.join("a", (), topic_regex="t.*")
    driver.join("b", (), topic_regex="t1")
    driver.beat("b", driver.member("b").epoch, topic_regex="", topic_names=frozenset({"t1"}))
    assert set(driver.group.resolved) == {"t.*"}
    driver.beat("a", -1)
    assert driver.group.resolved == {}


# --- time -------------------------------------------------------------------------------------------------------------------------


def test_a_full_heartbeat_lets_go_of_what_it_does_not_report_although_the_member_was_told_of_it() -> None:
    """A client that is still taking its partitions reports those of before. The coordinator cannot tell that from a lost answer (KAFKA:
    CurrentAssignmentBuilder), so the application may hold a partition, unreported, for a moment longer than the coordinator knows."""
    driver = two_members()
    assert driver.beat("a", 2, owned={}, rebalance_timeout_ms=30_000, topic_names=frozenset({"t"})).epoch == 3
    given = driver.beat("b", 3).assignment
    assert given is not None
    assert given[T] | driver.member("a").assigned[T] == frozenset(range(4))


def test_a_silent_member_is_out_when_its_session_ends() -> None:
    driver = two_members(session_timeout_ms=45_000)
    stable_pair(driver)
    driver.pass_ms(44_999)
    driver.beat("a", 3)
    driver.pass_ms(1)
    assert set(driver.group.members) == {"a"}
    assert driver.beat("a", 3).assignment == {T: frozenset(range(4))}
    assert driver.refused("b", 3) is ErrorCode.UNKNOWN_MEMBER_ID


def test_a_member_that_does_not_let_go_in_time_is_out_although_it_lives() -> None:
    driver = two_members()
    driver.beat("a", 2)
    for _ in range(30):
        driver.pass_ms(1_000)
        if "a" in driver.group.members:
            driver.beat("a", 2, owned={T: frozenset(range(4))})
        driver.beat("b", driver.member("b").epoch)
    assert set(driver.group.members) == {"b"}
    assert driver.member("b").assigned == {T: frozenset(range(4))}


def test_a_member_that_let_go_in_time_stays() -> None:
    driver = two_members()
    stable_pair(driver)
    for _ in range(40):
        driver.pass_ms(1_000)
        driver.beat("a", 3)
        driver.beat("b", 3)
    assert set(driver.group.members) == {"a", "b"}


def test_after_a_restart_every_member_has_a_full_session_and_its_time_to_let_go() -> None:
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


def test_a_member_whose_end_could_not_be_written_is_looked_at_again() -> None:
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


def test_an_instance_id_has_one_live_member() -> None:
    driver = GroupsDriver()
    driver.join("a", instance_id="i")
    with pytest.raises(Rejected) as refused:
        driver.join("b", instance_id="i")
    assert refused.value.code is ErrorCode.UNRELEASED_INSTANCE_ID
    assert driver.refused("b", 2, instance_id="i") is ErrorCode.FENCED_INSTANCE_ID
    assert driver.refused("a", 2, instance_id="j") is ErrorCode.UNKNOWN_MEMBER_ID


def test_a_static_member_that_left_for_a_while_finds_everything_as_it_was() -> None:
    driver = GroupsDriver()
    had = driver.join("a", instance_id="i").assignment
    assert driver.beat("a", -2, instance_id="i").epoch == -2
    epoch = driver.group.epoch
    answer = driver.join("b", instance_id="i")
    assert (answer.assignment, answer.epoch, driver.group.epoch) == (had, epoch, epoch)
    assert set(driver.group.members) == {"b"}
    assert driver.refused("a", 2, instance_id="i") is ErrorCode.FENCED_INSTANCE_ID


def test_a_static_member_comes_back_under_its_own_id_too() -> None:
    driver = GroupsDriver()
    had = driver.join("a", instance_id="i").assignment
    driver.beat("a", -2, instance_id="i")
    assert driver.join("a", instance_id="i").assignment == had


def test_others_get_nothing_of_a_static_member_before_its_session_ends() -> None:
    driver = GroupsDriver(session_timeout_ms=45_000)
    driver.join("a", instance_id="i")
    driver.beat("a", -2, instance_id="i")
    driver.pass_ms(30_000)
    assert driver.join("b").assignment == {}
    driver.pass_ms(15_000)
    assert set(driver.group.members) == {"b"}
    assert driver.beat("b", 3).assignment == {T: frozenset(range(4))}


def test_a_static_member_that_leaves_for_good_is_out() -> None:
    driver = GroupsDriver()
    driver.join("a", instance_id="i")
    driver.beat("a", -1, instance_id="i")
    assert driver.group.members == {}
    assert driver.join("b", instance_id="i").assignment == {T: frozenset(range(4))}
