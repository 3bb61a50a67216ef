"""ShareGroupHeartbeat, handled by a group without a broker."""

from __future__ import annotations

from typing import Any

import pytest

from ottla.broker.core.rejected import Rejected
from ottla.broker.groups.modern import ModernState
from ottla.broker.groups.share_heartbeat import ShareHeartbeat
from ottla.protocol.error_codes import ErrorCode
from tests.support.share_groups import ShareDriver


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"member_id": ""}, "MemberId can't be empty"),
        ({"group_id": ""}, "GroupId can't be empty"),
        ({"rack_id": ""}, "RackId can't be empty"),
        ({"group_id": " \t"}, "GroupId can't be empty"),
        ({"group_id": "x" * 40_000}, "GroupId is longer"),
        ({"topic_names": None}, "SubscribedTopicNames must be set"),
        ({"topic_names": frozenset()}, "SubscribedTopicNames must be set"),
        ({"epoch": -2}, "MemberEpoch is invalid"),
    ],
)
def test_a_contradictory_heartbeat_is_invalid(changes: dict[str, Any], message: str) -> None:
    fields: dict[str, Any] = {"group_id": "g", "member_id": "m", "epoch": 0, "topic_names": frozenset({"t"})}
    driver = ShareDriver()
    with pytest.raises(Rejected, match=message) as refused:
        driver.machine.shares.heartbeat(ShareHeartbeat(**(fields | changes)), driver.now)
    assert refused.value.code is ErrorCode.INVALID_REQUEST


def test_a_member_joins_and_gets_its_partitions_when_they_have_state() -> None:
    driver = ShareDriver()
    answer = driver.join("a")
    assert driver.kinds == [
        "MemberMetadata",
        "Metadata",
        "TargetAssignmentMember",
        "TargetAssignmentMetadata",
        "CurrentMemberAssignment",
        "StatePartitionMetadata",
    ]
    assert (answer.epoch, answer.heartbeat_interval_ms, answer.assignment) == (2, 5_000, {})
    driver.initialized()
    answer = driver.beat("a", 2)
    assert answer.epoch == 3
    assert answer.assignment is not None
    assert [sorted(partitions) for partitions in answer.assignment.values()] == [[0, 1]]
    assert driver.beat("a", 3).assignment is None, "it has not changed"


def test_a_repeated_subscription_gets_the_assignment_again() -> None:
    driver = ShareDriver()
    driver.settled("a")
    assert driver.beat("a", driver.member("a").epoch, topic_names=frozenset({"t"})).assignment == driver.member("a").assigned
    assert driver.kinds == []


def test_the_assignment_waits_for_the_interval() -> None:
    driver = ShareDriver(assignment_interval_ms=1_000)
    driver.join("a")
    driver.initialized()
    assert driver.beat("a", 2).epoch == 2
    driver.mono_ms += 1_000
    assert driver.beat("a", 2).epoch == 3


def test_the_epoch_before_the_current_one_is_accepted() -> None:
    driver = ShareDriver()
    driver.settled("a")
    member = driver.member("a")
    assert driver.beat("a", member.previous_epoch).epoch == member.epoch


@pytest.mark.parametrize("wrong", [1, 99])
def test_a_member_with_a_wrong_epoch_is_fenced_and_rejoins(wrong: int) -> None:
    driver = ShareDriver()
    driver.settled("a")
    assert driver.refused("a", wrong) is ErrorCode.FENCED_MEMBER_EPOCH
    assert driver.join("a").assignment == driver.member("a").assigned


def test_unknown_members_and_groups_are_refused() -> None:
    driver = ShareDriver()
    assert driver.refused("a", 1) is ErrorCode.GROUP_ID_NOT_FOUND
    driver.join("a")
    assert driver.refused("b", 1) is ErrorCode.UNKNOWN_MEMBER_ID
    assert driver.refused("b", -1) is ErrorCode.UNKNOWN_MEMBER_ID


def test_a_full_group_takes_no_more_members() -> None:
    driver = ShareDriver(max_size=1)
    driver.join("a")
    assert driver.refused("b", 0, topic_names=frozenset({"t"})) is ErrorCode.GROUP_MAX_SIZE_REACHED
    driver.join("a")


def test_a_member_that_leaves_makes_way() -> None:
    driver = ShareDriver()
    driver.settled("a", "b")
    epoch = driver.group.epoch
    assert driver.beat("a", -1).epoch == -1
    assert driver.kinds == ["CurrentMemberAssignment-", "TargetAssignmentMember-", "MemberMetadata-", "Metadata"]
    assert driver.group.epoch == epoch + 1
    driver.beat("b", driver.member("b").epoch)
    assert [sorted(partitions) for partitions in driver.member("b").assigned.values()] == [[0, 1]]
    driver.beat("b", -1)
    assert driver.group.state is ModernState.EMPTY


def test_a_silent_member_is_removed() -> None:
    driver = ShareDriver(session_timeout_ms=10_000)
    driver.settled("a", "b")
    driver.mono_ms += 9_000
    driver.beat("b", driver.member("b").epoch)
    driver.mono_ms += 1_000
    assert driver.machine.next_deadline("g") == driver.mono_ms
    driver.take(driver.machine.expire_members("g", driver.now).records)
    assert list(driver.group.members) == ["b"]
