"""Classic members of a consumer group. Every group here has one member of the consumer protocol, "new"."""

from __future__ import annotations

import pytest

from ottla.broker.groups.classic import LeavingMember
from ottla.broker.groups.classic_members import JoinProtocol
from ottla.broker.groups.consumer_member import Assignment
from ottla.broker.groups.embedded_protocol import read_assignment
from ottla.broker.groups.modern import ModernState
from ottla.protocol.error_codes import ErrorCode
from tests.support.consumer_groups import FakeTopics, GroupsDriver, subscription, topic_id

T = topic_id("t")


def protocols(owned: Assignment | None = None) -> tuple[JoinProtocol, ...]:
    return (JoinProtocol("range", subscription("t", owned=owned)),)


@pytest.fixture
def driver() -> GroupsDriver:
    driver = GroupsDriver(session_timeout_ms=600_000)
    driver.join("new")
    return driver


def settled(driver: GroupsDriver) -> tuple[str, int]:
    """Let a classic member join and get half of the partitions; return its member id and generation."""
    first = driver.joined()
    keeps = driver.beat("new", 2).assignment
    driver.beat("new", 2, owned=keeps)
    assert driver.classic_beat(first.member_id, first.generation) is ErrorCode.REBALANCE_IN_PROGRESS
    again = driver.joined(first.member_id, protocols=protocols())
    assert driver.group.state is ModernState.STABLE
    return again.member_id, again.generation


def assignment(driver: GroupsDriver, member_id: str, generation: int) -> Assignment:
    answer = driver.sync(member_id, generation, protocol_type="consumer", protocol_name="range")
    assert answer.error is ErrorCode.NONE
    return read_assignment(answer.assignment, driver.topics)


def test_a_classic_join_is_answered_at_once_without_a_leader(driver: GroupsDriver) -> None:
    answer = driver.joined()
    assert (answer.generation, answer.protocol_type, answer.protocol_name) == (3, "consumer", "range")
    assert (answer.leader, answer.members) == ("", ())
    assert assignment(driver, answer.member_id, 3) == {}, "new has not let go of anything"


def test_a_new_classic_client_gets_its_member_id_first(driver: GroupsDriver) -> None:
    answer = driver.classic_join(require_known_member_id=True)
    assert answer is not None
    assert answer.error is ErrorCode.MEMBER_ID_REQUIRED
    assert answer.member_id not in driver.group.members
    assert driver.joined(answer.member_id, require_known_member_id=True).member_id == answer.member_id


def test_a_classic_member_must_rejoin_to_get_free_partitions(driver: GroupsDriver) -> None:
    member_id, generation = settled(driver)
    assert len(assignment(driver, member_id, generation)[T]) == 2
    assert driver.classic_beat(member_id, generation) is ErrorCode.NONE


def test_a_classic_member_revokes_by_joining_without_the_partitions() -> None:
    driver = GroupsDriver(FakeTopics(t=6))
    driver.join("new")
    member_id, generation = settled(driver)
    had = assignment(driver, member_id, generation)
    driver.join("third")
    assert driver.classic_beat(member_id, generation) is ErrorCode.REBALANCE_IN_PROGRESS
    driver.joined(member_id, protocols=protocols(had))
    keeps = assignment(driver, member_id, generation)
    assert len(keeps[T]) == 2
    assert driver.group.holder(T, *(had[T] - keeps[T])) == member_id
    assert driver.classic_beat(member_id, generation) is ErrorCode.REBALANCE_IN_PROGRESS
    driver.joined(member_id, protocols=protocols(keeps))
    assert driver.group.is_free(T, *(had[T] - keeps[T]))


@pytest.mark.parametrize("kind", [("streams", "range"), ("consumer", "sticky")])
def test_a_classic_member_needs_a_common_consumer_protocol(driver: GroupsDriver, kind: tuple[str, str]) -> None:
    driver.joined()
    offered = (JoinProtocol(kind[1], subscription("t")),)
    answer = driver.classic_join(protocol_type=kind[0], protocols=offered)
    assert answer is not None
    assert answer.error is ErrorCode.INCONSISTENT_GROUP_PROTOCOL


def test_the_migration_policy_can_refuse_classic_members() -> None:
    driver = GroupsDriver(allows_upgrade=False, allows_downgrade=False)
    driver.join("new")
    answer = driver.classic_join(require_known_member_id=True)
    assert answer is not None
    assert (answer.error, answer.member_id) == (ErrorCode.INCONSISTENT_GROUP_PROTOCOL, "")


@pytest.mark.parametrize("member_id", ["", "stranger"])
def test_a_refused_join_has_no_member_id(driver: GroupsDriver, member_id: str) -> None:
    answer = driver.classic_join(member_id, protocol_type="connect")
    assert answer is not None
    assert (answer.error, answer.member_id) == (ErrorCode.INCONSISTENT_GROUP_PROTOCOL, "")


def test_a_classic_member_must_rejoin_after_a_new_target_assignment() -> None:
    driver = GroupsDriver(assignment_interval_ms=1_000)
    driver.join("new")
    driver.pass_ms(1_000)
    joined = driver.joined()
    third = driver.join("third")
    assert driver.classic_beat(joined.member_id, joined.generation) is ErrorCode.NONE
    assert driver.sync(joined.member_id, joined.generation).error is ErrorCode.NONE
    driver.pass_ms(1_000)
    assert driver.classic_beat(joined.member_id, joined.generation) is ErrorCode.NONE
    driver.beat("third", third.epoch)
    assert driver.classic_beat(joined.member_id, joined.generation) is ErrorCode.REBALANCE_IN_PROGRESS
    assert driver.joined(joined.member_id, protocols=protocols()).generation == joined.generation + 1


def test_a_subscription_that_cannot_be_read_is_refused(driver: GroupsDriver) -> None:
    answer = driver.classic_join(protocols=(JoinProtocol("range", b"?"),))
    assert answer is not None
    assert answer.error is ErrorCode.INCONSISTENT_GROUP_PROTOCOL


def test_wrong_credentials_get_classic_errors(driver: GroupsDriver) -> None:
    member_id, generation = settled(driver)
    assert driver.classic_beat(member_id, generation + 1) is ErrorCode.ILLEGAL_GENERATION
    assert driver.classic_beat("stranger", 2) is ErrorCode.UNKNOWN_MEMBER_ID
    assert driver.classic_beat("new", 3) is ErrorCode.UNKNOWN_MEMBER_ID, "it does not speak the classic protocol"
    assert driver.sync(member_id, generation + 1).error is ErrorCode.ILLEGAL_GENERATION
    assert driver.sync(member_id, generation, protocol_name="sticky").error is ErrorCode.INCONSISTENT_GROUP_PROTOCOL
    assert driver.sync(member_id, generation, protocol_type="connect").error is ErrorCode.INCONSISTENT_GROUP_PROTOCOL


def test_a_sync_of_an_older_epoch_gets_rebalance_in_progress(driver: GroupsDriver) -> None:
    member_id, generation = settled(driver)
    driver.join("third")
    assert driver.sync(member_id, generation).error is ErrorCode.REBALANCE_IN_PROGRESS


def test_each_member_of_a_leave_gets_its_result(driver: GroupsDriver) -> None:
    member_id, _ = settled(driver)
    epoch = driver.group.epoch
    assert driver.classic_leave(LeavingMember(member_id), LeavingMember("stranger")) == [ErrorCode.NONE, ErrorCode.UNKNOWN_MEMBER_ID]
    assert set(driver.group.members) == {"new"}
    assert driver.group.epoch == epoch + 1
    assert driver.classic_leave(LeavingMember(member_id)) == [ErrorCode.UNKNOWN_MEMBER_ID]
    assert driver.group.epoch == epoch + 1


def test_a_leave_can_remove_a_consumer_protocol_member(driver: GroupsDriver) -> None:
    settled(driver)
    assert driver.classic_leave(LeavingMember("new")) == [ErrorCode.NONE]
    assert "new" not in {member.member_id for member in driver.classic.members}


def test_member_id_required_is_checked_before_the_subscription(driver: GroupsDriver) -> None:
    refused = driver.classic_join(protocols=(JoinProtocol("range", b""),), require_known_member_id=True)
    assert refused is not None
    assert refused.error is ErrorCode.MEMBER_ID_REQUIRED


def test_a_static_member_can_be_removed_by_instance_id(driver: GroupsDriver) -> None:
    driver.joined(instance_id="i")
    assert driver.classic_leave(LeavingMember("", "i")) == [ErrorCode.NONE]
    assert set(driver.group.members) == {"new"}


def test_a_returning_static_member_replaces_the_old_one(driver: GroupsDriver) -> None:
    first = driver.joined(instance_id="i")
    second = driver.joined(instance_id="i")
    assert second.member_id != first.member_id
    assert driver.machine.heartbeat("g", first.member_id, "i", 2, driver.now) is ErrorCode.FENCED_INSTANCE_ID
    assert set(driver.group.members) == {"new", second.member_id}


def test_a_classic_members_session_timeout_is_used(driver: GroupsDriver) -> None:
    member_id, generation = settled(driver)
    driver.sync(member_id, generation)
    driver.pass_ms(9_999)
    driver.classic_beat(member_id, generation)
    driver.pass_ms(9_999)
    assert member_id in driver.group.members
    driver.pass_ms(1)
    assert set(driver.group.members) == {"new"}


def test_a_member_that_joins_and_never_syncs_is_removed(driver: GroupsDriver) -> None:
    answer = driver.joined(rebalance_timeout_ms=20_000)
    for _ in range(3):
        driver.pass_ms(6_000)
        driver.classic_beat(answer.member_id, answer.generation)
    driver.pass_ms(2_000)
    assert set(driver.group.members) == {"new"}


def test_a_member_that_does_not_rejoin_is_removed(driver: GroupsDriver) -> None:
    member_id, generation = settled(driver)
    driver.sync(member_id, generation)
    driver.join("third")
    for _ in range(6):
        assert driver.classic_beat(member_id, generation) is ErrorCode.REBALANCE_IN_PROGRESS
        driver.pass_ms(5_000)
    assert member_id not in driver.group.members


def test_a_full_consumer_group_refuses_classic_members() -> None:
    driver = GroupsDriver(max_size=1)
    driver.join("new")
    answer = driver.classic_join()
    assert answer is not None
    assert answer.error is ErrorCode.GROUP_MAX_SIZE_REACHED
