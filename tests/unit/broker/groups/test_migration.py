"""Conversion of groups between the classic and the consumer protocol, with and without members."""

from __future__ import annotations

import pytest

from ottla.broker.core.rejected import Rejected
from ottla.broker.groups.classic import ClassicGroup, LeavingMember
from ottla.broker.groups.classic_members import JoinProtocol
from ottla.broker.groups.consumer import ConsumerGroup
from ottla.broker.groups.coordinator import Commit, OffsetToCommit
from ottla.broker.groups.embedded_protocol import read_assignment, write_assignment
from ottla.broker.groups.modern import ModernState
from ottla.broker.groups.results import JoinGroupResult
from ottla.broker.groups.states import ClassicState
from ottla.protocol.error_codes import ErrorCode
from tests.support.consumer_groups import FakeTopics, GroupsDriver, facts_of, subscription, topic_id

T = topic_id("t")


def user_data_of(data: bytes) -> bytes:
    """Return the assignor's user data as the assignment's last bytes; null is encoded as a length of -1."""
    return (len(data) if data else -1).to_bytes(4, "big", signed=True) + data


def with_classic_pair(user_data: bytes = b"", **config: object) -> tuple[GroupsDriver, list[str]]:
    """Return a stable classic group whose two members each have half of t and this assignor data, and their ids; the leader first."""
    driver = GroupsDriver(**config)
    first = driver.joined()
    assert driver.classic_join(new_member_id="second") is None
    driver.joined(first.member_id)
    members = [first.member_id, "second"]
    handed = {
        member_id: write_assignment({T: frozenset(partitions)}, subscription("t"), driver.topics)[:-4] + user_data_of(user_data)
        for member_id, partitions in zip(members, ({0, 1}, {2, 3}), strict=True)
    }
    for member_id in reversed(members):
        driver.classic_sync(member_id, 2, assignments=handed)
    assert driver.classic.state is ClassicState.STABLE
    return driver, members


@pytest.fixture
def driver() -> GroupsDriver:
    return GroupsDriver()


def test_the_first_consumer_protocol_member_converts_a_classic_group_without_loss() -> None:
    driver, (leader, second) = with_classic_pair()
    answer = driver.join("new")
    assert (answer.epoch, answer.assignment) == (3, {})
    assert driver.member(leader).assigned == {T: frozenset({0, 1})}
    assert driver.member(second).assigned == {T: frozenset({2, 3})}
    assert driver.member(leader).epoch == 2
    assert driver.classic_beat(leader, 2) is ErrorCode.REBALANCE_IN_PROGRESS
    assert isinstance(driver.restored().groups["g"], ConsumerGroup)


def test_a_converted_group_is_balanced_over_its_three_members() -> None:
    driver, classic = with_classic_pair()
    driver.join("new")
    for _ in range(3):
        for member_id in classic:
            member = driver.member(member_id)
            if driver.classic_beat(member_id, member.epoch) is ErrorCode.REBALANCE_IN_PROGRESS:
                driver.joined(member_id, protocols=(JoinProtocol("range", subscription("t", owned=member.assigned)),))
        driver.beat("new", driver.member("new").epoch)
    assert driver.group.state is ModernState.STABLE
    assert sorted(sum(map(len, member.assigned.values())) for member in driver.group.members.values()) == [1, 1, 2]


def test_a_conversion_makes_waiting_classic_members_rejoin(driver: GroupsDriver) -> None:
    first = driver.joined()
    driver.classic_join(new_member_id="second")
    waiting = driver.last_request_key
    driver.join("new")
    answer = driver.replies[waiting]
    assert isinstance(answer, JoinGroupResult)
    assert answer.error is ErrorCode.REBALANCE_IN_PROGRESS
    assert set(driver.group.members) == {first.member_id, "second", "new"}


def test_a_refused_conversion_keeps_waiting_joins(driver: GroupsDriver) -> None:
    first = driver.joined()
    driver.classic_join(new_member_id="second")
    waiting = driver.last_request_key
    assert driver.refused("new", 0, topic_regex="(", topic_names=None, rebalance_timeout_ms=1, owned={}) is (
        ErrorCode.INVALID_REGULAR_EXPRESSION
    )
    assert waiting not in driver.replies
    driver.joined(first.member_id)
    assert driver.replies[waiting].error is ErrorCode.NONE


def test_a_partition_assigned_twice_has_one_owner_after_the_conversion(driver: GroupsDriver) -> None:
    first = driver.joined()
    driver.classic_join(new_member_id="second")
    driver.joined(first.member_id)
    twice = write_assignment({T: frozenset({0})}, subscription("t"), driver.topics)
    for member_id in ("second", first.member_id):
        driver.classic_sync(member_id, 2, assignments={first.member_id: twice, "second": twice})
    driver.join("new")
    assert sorted(len(driver.member(one).assigned) for one in (first.member_id, "second")) == [0, 1]


@pytest.mark.parametrize("policy", [{"allows_upgrade": False}, {"max_size": 1}])
def test_the_policy_or_size_limit_prevents_a_conversion(policy: dict[str, object]) -> None:
    driver, _ = with_classic_pair(**policy)
    fields = {"topic_names": frozenset({"t"}), "rebalance_timeout_ms": 1, "owned": {}}
    assert driver.refused("new", 0, **fields) in {ErrorCode.GROUP_ID_NOT_FOUND, ErrorCode.GROUP_MAX_SIZE_REACHED}
    assert driver.classic.state is ClassicState.STABLE


def test_a_group_of_another_protocol_type_is_not_converted(driver: GroupsDriver) -> None:
    driver.joined(protocol_type="connect", protocols=(JoinProtocol("x", b"?"),))
    assert driver.refused("new", 0, topic_names=frozenset(), rebalance_timeout_ms=1, owned={}) is ErrorCode.GROUP_ID_NOT_FOUND


def test_a_group_with_custom_assignor_data_is_not_converted() -> None:
    driver, _ = with_classic_pair(b"mine")
    written = len(driver.log)
    with pytest.raises(Rejected, match="custom assignor") as refused:
        driver.join("new")
    assert refused.value.code is ErrorCode.GROUP_ID_NOT_FOUND
    assert isinstance(driver.machine.groups["g"], ClassicGroup)
    assert len(driver.log) == written


def test_a_refused_consumer_protocol_member_keeps_waiting_joins_and_syncs() -> None:
    driver, _ = with_classic_pair(b"mine")
    assert driver.classic_join() is None
    with pytest.raises(Rejected):
        driver.join("new")
    assert driver.last_request_key not in driver.replies


def test_removing_the_last_consumer_protocol_member_converts_the_group_to_classic() -> None:
    driver, _ = with_classic_pair()
    driver.join("new")
    assert driver.classic_leave(LeavingMember("new")) == [ErrorCode.NONE]
    assert driver.classic.state is ClassicState.PREPARING_REBALANCE


def test_a_failed_first_record_is_repeated_by_the_next_join(driver: GroupsDriver) -> None:
    driver.refuses_writes = True
    with pytest.raises(Rejected):
        driver.classic_join(new_member_id="first")
    assert "g" not in driver.machine.groups
    driver.refuses_writes = False
    driver.joined()
    assert "g" in driver.restored().groups


def test_an_unreadable_subscription_prevents_a_conversion(driver: GroupsDriver) -> None:
    driver.joined(protocols=(JoinProtocol("range", b"?"),))
    written = len(driver.log)
    assert driver.refused("new", 0, topic_names=frozenset(), rebalance_timeout_ms=1, owned={}) is ErrorCode.GROUP_ID_NOT_FOUND
    assert len(driver.log) == written
    assert isinstance(driver.machine.groups["g"], ClassicGroup)


def test_the_last_consumer_protocol_members_leave_converts_the_group_to_classic() -> None:
    driver, (leader, second) = with_classic_pair()
    driver.join("new")
    driver.beat("new", -1)
    assert driver.classic.state is ClassicState.PREPARING_REBALANCE
    assert {member.member_id for member in driver.classic.members} == {leader, second}
    assert driver.classic.generation == 3
    assert driver.classic_beat(leader, 3) is ErrorCode.REBALANCE_IN_PROGRESS
    restored = driver.restored().groups["g"]
    assert isinstance(restored, ClassicGroup)
    assert {read_assignment(member.assignment, driver.topics)[T] for member in restored.members} == {frozenset({0, 1}), frozenset({2, 3})}


def test_members_of_a_group_converted_to_classic_have_sessions() -> None:
    driver, _ = with_classic_pair()
    driver.join("new")
    driver.beat("new", -1)
    driver.pass_ms(10_000)
    assert driver.classic.state is ClassicState.EMPTY


def test_the_last_consumer_protocol_members_expiry_converts_the_group_to_classic() -> None:
    driver, (leader, second) = with_classic_pair(session_timeout_ms=5_000)
    driver.join("new")
    driver.pass_ms(5_000)
    assert {member.member_id for member in driver.classic.members} == {leader, second}


def test_without_a_downgrade_policy_the_group_stays_a_consumer_group() -> None:
    driver, (leader, second) = with_classic_pair(allows_downgrade=False)
    driver.join("new")
    driver.beat("new", -1)
    assert set(driver.group.members) == {leader, second}


def test_the_last_static_members_classic_return_converts_without_a_rebalance(driver: GroupsDriver) -> None:
    driver.join("new", instance_id="i")
    had = driver.member("new").assigned
    answer = driver.joined(instance_id="i")
    assert driver.classic.state is ClassicState.STABLE
    assert driver.classic.generation == answer.generation
    synced = driver.sync(answer.member_id, answer.generation)
    assert read_assignment(synced.assignment, driver.topics) == had


def test_a_static_members_classic_return_with_other_topics_rebalances() -> None:
    driver = GroupsDriver(FakeTopics(t=4, u=2))
    driver.join("new", instance_id="i")
    had = driver.member("new").assigned
    answer = driver.joined(instance_id="i", protocols=(JoinProtocol("range", subscription("t", "u")),))
    assert answer.generation == 0, "no epoch was computed for it"
    assert driver.classic.state is ClassicState.PREPARING_REBALANCE
    (member,) = driver.classic.members
    assert read_assignment(member.assignment, driver.topics) == had


def test_the_classic_size_limit_prevents_a_conversion_to_classic() -> None:
    driver, (leader, second) = with_classic_pair(classic_max_size=1)
    driver.join("new")
    driver.beat("new", -1)
    assert set(driver.group.members) == {leader, second}


def test_an_empty_classic_group_is_replaced_and_its_offsets_are_kept() -> None:
    driver = GroupsDriver(allows_upgrade=False)
    effects = driver.machine.commit(Commit(group_id="g", offsets=[OffsetToCommit("t", 0, 7)]), driver.now)
    driver.take(effects.records, [])
    driver.join("new")
    assert driver.machine.fetch("g", None, require_stable=True).response[0][1][0].offset == 7
    assert driver.restored().fetch("g", None, require_stable=True).response[0][1][0].offset == 7


def test_an_empty_consumer_group_is_replaced_by_a_classic_one() -> None:
    driver = GroupsDriver(FakeTopics(t=4), allows_downgrade=False)
    driver.join("new", (), topic_regex="t")
    driver.beat("new", -1)
    assert driver.classic_join("left-over") == JoinGroupResult(error=ErrorCode.UNKNOWN_MEMBER_ID, member_id="left-over")
    assert driver.group.is_empty
    answer = driver.joined()
    assert (answer.generation, answer.leader) == (1, answer.member_id)
    assert isinstance(driver.restored().groups.get("g"), ClassicGroup | None)


def test_a_deleted_group_leaves_no_state(driver: GroupsDriver) -> None:
    driver.join("new", (), topic_regex="t")
    driver.beat("new", -1)
    driver.take(driver.machine.delete_group("g").records, [])
    assert driver.machine.groups == {}
    assert driver.restored().groups == {}
    latest = dict(driver.log)
    assert all(value is None for value in latest.values())


def test_after_two_conversions_the_log_restores_the_group() -> None:
    driver, _ = with_classic_pair()
    driver.join("new")
    restored = driver.restored().groups["g"]
    assert isinstance(restored, ConsumerGroup)
    assert facts_of(restored) == facts_of(driver.group)
