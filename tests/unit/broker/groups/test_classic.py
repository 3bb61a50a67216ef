from __future__ import annotations

import pytest

from ottla.broker.groups.classic import ClassicConfig, ClassicGroup, LeavingMember
from ottla.broker.groups.classic_members import JoinProtocol
from ottla.broker.groups.group_records import GroupMetadataValue, MemberMetadata
from ottla.broker.groups.states import ClassicState
from ottla.protocol.error_codes import ErrorCode
from tests.support.classic_groups import RANGE, GroupDriver, subscription


@pytest.fixture
def driver() -> GroupDriver:
    return GroupDriver()


def test_the_leaders_sync_answers_every_waiting_sync_and_makes_the_group_stable(driver: GroupDriver) -> None:
    first = driver.join()
    second = driver.join()
    assert second not in driver.replies
    leader = driver.joined(first).member_id
    again = driver.join(leader)
    follower = driver.joined(second).member_id
    assert driver.joined(again).generation == 2
    waiting = driver.sync(follower)
    assert waiting not in driver.replies
    own = driver.sync(leader, assignments={leader: b"L", follower: b"F"})
    assert (driver.synced(waiting).assignment, driver.synced(own).assignment) == (b"F", b"L")
    assert driver.group.state is ClassicState.STABLE


def test_a_member_without_an_assignment_gets_an_empty_one(driver: GroupDriver) -> None:
    leader, follower = driver.stable(None, None)
    driver.join(leader)
    driver.join(follower)
    waiting = driver.sync(follower)
    driver.sync(leader, assignments={leader: b"all"})
    assert driver.synced(waiting).assignment == b""


def test_a_sync_in_a_stable_group_returns_the_current_assignment(driver: GroupDriver) -> None:
    (leader,) = driver.stable(None)
    answer = driver.synced(driver.sync(leader))
    assert (answer.assignment, answer.protocol_type, answer.protocol_name) == (leader.encode(), "consumer", "range")


@pytest.mark.parametrize(
    ("changes", "error"),
    [
        ({"member_id": "stranger"}, ErrorCode.UNKNOWN_MEMBER_ID),
        ({"generation": 7}, ErrorCode.ILLEGAL_GENERATION),
        ({"instance_id": "unknown"}, ErrorCode.UNKNOWN_MEMBER_ID),
        ({"protocol_type": "connect"}, ErrorCode.INCONSISTENT_GROUP_PROTOCOL),
        ({"protocol_name": "sticky"}, ErrorCode.INCONSISTENT_GROUP_PROTOCOL),
    ],
)
def test_an_inconsistent_sync_is_rejected(driver: GroupDriver, changes: dict[str, object], error: ErrorCode) -> None:
    (leader,) = driver.stable(None)
    fields = {"member_id": leader} | changes
    member_id = str(fields.pop("member_id"))
    assert driver.synced(driver.sync(member_id, **fields)).error is error  # type: ignore[arg-type]  # the fields are named by the parameters


def test_a_sync_in_preparing_rebalance_gets_rebalance_in_progress(driver: GroupDriver) -> None:
    (leader,) = driver.stable(None)
    driver.join()
    assert driver.synced(driver.sync(leader)).error is ErrorCode.REBALANCE_IN_PROGRESS


def test_a_new_rebalance_answers_waiting_syncs_with_rebalance_in_progress(driver: GroupDriver) -> None:
    leader, follower = driver.stable(None, None)
    driver.join(leader)
    driver.join(follower)
    waiting = driver.sync(follower)
    driver.join()
    assert driver.synced(waiting).error is ErrorCode.REBALANCE_IN_PROGRESS
    assert driver.group.state is ClassicState.PREPARING_REBALANCE


def test_a_members_second_sync_replaces_and_answers_the_first(driver: GroupDriver) -> None:
    leader, follower = driver.stable(None, None)
    driver.join(leader)
    driver.join(follower)
    lost = driver.sync(follower)
    kept = driver.sync(follower)
    driver.sync(leader, assignments={follower: b"F"})
    assert driver.synced(lost).error is ErrorCode.REBALANCE_IN_PROGRESS
    assert driver.synced(kept).assignment == b"F"


def test_members_that_never_sync_are_removed_after_the_rebalance_timeout(driver: GroupDriver) -> None:
    leader, silent = driver.stable(None, None, session_timeout_ms=100_000)
    driver.join(leader, session_timeout_ms=100_000)
    driver.join(silent, session_timeout_ms=100_000)
    waiting = driver.sync(leader)
    assert driver.group.state is ClassicState.STABLE
    assert driver.synced(waiting).error is ErrorCode.NONE
    driver.pass_ms(29_999)
    assert silent in driver.group.members
    driver.pass_ms(1)
    assert silent not in driver.group.members
    assert driver.group.state is ClassicState.PREPARING_REBALANCE
    assert driver.heartbeat(leader) is ErrorCode.REBALANCE_IN_PROGRESS


def test_a_session_expires_without_heartbeats(driver: GroupDriver) -> None:
    (member,) = driver.stable(None)
    for _ in range(5):
        driver.pass_ms(9_000)
        assert driver.heartbeat(member) is ErrorCode.NONE
    driver.pass_ms(9_999)
    assert member in driver.group.members
    driver.pass_ms(1)
    assert member not in driver.group.members
    assert driver.group.state is ClassicState.EMPTY


def test_silent_static_members_without_a_rebalance_timeout_are_checked_at_intervals(driver: GroupDriver) -> None:
    static, dynamic = driver.stable("i1", None, rebalance_timeout_ms=0)
    driver.leave(LeavingMember(dynamic))
    looked = 0
    while driver.mono_ms < 5_000 and looked < 100:
        deadline = driver.group.next_deadline()
        assert deadline is not None
        driver.mono_ms = max(driver.mono_ms, deadline)
        driver.take(driver.group.expire(driver.now))
        looked += 1
    assert looked < 10
    assert static in driver.group.members


def test_a_static_members_session_expires(driver: GroupDriver) -> None:
    (member,) = driver.stable("i1")
    driver.pass_ms(10_000)
    assert driver.heartbeat(member, instance_id="i1") is ErrorCode.UNKNOWN_MEMBER_ID


@pytest.mark.parametrize(
    ("member_id", "instance_id", "generation", "error"),
    [
        ("stranger", None, 1, ErrorCode.UNKNOWN_MEMBER_ID),
        ("m1", "i2", 1, ErrorCode.UNKNOWN_MEMBER_ID),
        ("m9", "i1", 1, ErrorCode.FENCED_INSTANCE_ID),
        ("m1", "i1", 0, ErrorCode.ILLEGAL_GENERATION),
        ("m1", "i1", 1, ErrorCode.NONE),
    ],
)
def test_a_heartbeat_checks_member_instance_and_generation_in_order(
    driver: GroupDriver, member_id: str, instance_id: str | None, generation: int, error: ErrorCode
) -> None:
    driver.stable("i1")
    assert driver.heartbeat(member_id, generation, instance_id) is error


def test_a_heartbeat_between_join_and_sync_succeeds(driver: GroupDriver) -> None:
    member = driver.joined(driver.join()).member_id
    assert driver.group.state is ClassicState.COMPLETING_REBALANCE
    assert driver.heartbeat(member) is ErrorCode.NONE


def test_a_member_waiting_in_a_join_keeps_its_session(driver: GroupDriver) -> None:
    leader, other = driver.stable(None, None, session_timeout_ms=10_000, rebalance_timeout_ms=60_000)
    parked = driver.join(leader)
    for _ in range(5):
        driver.pass_ms(9_000)
        driver.heartbeat(other)
    assert leader in driver.group.members
    assert parked not in driver.replies


def test_a_new_members_waiting_join_expires_after_five_minutes(driver: GroupDriver) -> None:
    slow = {"session_timeout_ms": 1_000_000, "rebalance_timeout_ms": 1_000_000}
    (leader,) = driver.stable(None, **slow)
    newcomer = driver.join(**slow)
    driver.pass_ms(299_999)
    assert newcomer not in driver.replies
    driver.pass_ms(1)
    assert driver.joined(newcomer).error is ErrorCode.UNKNOWN_MEMBER_ID
    assert [member.member_id for member in driver.group.members] == [leader]


def test_a_leave_triggers_a_rebalance_of_the_other_members(driver: GroupDriver) -> None:
    leader, follower = driver.stable(None, None)
    assert driver.leave(LeavingMember(leader)) == [ErrorCode.NONE]
    assert driver.heartbeat(follower) is ErrorCode.REBALANCE_IN_PROGRESS
    answer = driver.joined(driver.join(follower))
    assert (answer.leader, answer.generation) == (follower, 3)


def test_the_last_leave_empties_the_group_and_increments_the_generation(driver: GroupDriver) -> None:
    (member,) = driver.stable(None)
    driver.leave(LeavingMember(member))
    assert driver.group.state is ClassicState.EMPTY
    assert driver.group.generation == 2
    empty = driver.records[-1]
    assert (empty.members, empty.protocol, empty.leader, empty.protocol_type) == ([], None, None, "consumer")
    assert driver.joined(driver.join()).generation == 3


def test_each_leaving_member_gets_its_own_error(driver: GroupDriver) -> None:
    static, dynamic = driver.stable("i1", None)
    errors = driver.leave(
        LeavingMember("", "i1"), LeavingMember("nobody"), LeavingMember("", "i9"), LeavingMember("x", "i1"), LeavingMember(dynamic)
    )
    assert errors == [ErrorCode.NONE, ErrorCode.UNKNOWN_MEMBER_ID, ErrorCode.UNKNOWN_MEMBER_ID, ErrorCode.UNKNOWN_MEMBER_ID, ErrorCode.NONE]
    assert static not in driver.group.members


def test_a_leave_with_another_members_instance_id_is_fenced(driver: GroupDriver) -> None:
    static, dynamic = driver.stable("i1", None)
    assert driver.leave(LeavingMember(dynamic, "i1")) == [ErrorCode.FENCED_INSTANCE_ID]
    assert static in driver.group.members
    assert dynamic in driver.group.members


def test_a_leave_answers_the_members_waiting_join(driver: GroupDriver) -> None:
    leader, follower = driver.stable(None, None)
    parked = driver.join(leader)
    assert driver.leave(LeavingMember(leader)) == [ErrorCode.NONE]
    assert driver.joined(parked).error is ErrorCode.UNKNOWN_MEMBER_ID
    assert follower in driver.group.members


def test_a_leave_completes_a_join_phase_that_waited_only_for_that_member(driver: GroupDriver) -> None:
    leader, follower = driver.stable(None, None)
    parked = driver.join(leader)
    driver.leave(LeavingMember(follower))
    assert driver.joined(parked).generation == 3


@pytest.mark.parametrize(
    ("member_id", "instance_id", "generation", "error"),
    [
        ("m1", None, 1, ErrorCode.NONE),
        ("m1", None, 0, ErrorCode.ILLEGAL_GENERATION),
        ("m1", None, -1, ErrorCode.ILLEGAL_GENERATION),
        ("m7", None, 1, ErrorCode.UNKNOWN_MEMBER_ID),
        ("m7", "i1", 1, ErrorCode.FENCED_INSTANCE_ID),
        ("", None, -1, ErrorCode.UNKNOWN_MEMBER_ID),
    ],
)
def test_a_commit_to_a_group_with_members_needs_a_member_and_its_generation(
    driver: GroupDriver, member_id: str, instance_id: str | None, generation: int, error: ErrorCode
) -> None:
    driver.stable("i1")
    assert driver.group.check_offset_commit(member_id, instance_id, generation, transactional=False) is error


def test_an_empty_group_accepts_commits_without_a_generation() -> None:
    group = GroupDriver().group
    assert group.check_offset_commit("whoever", None, -1, transactional=False) is ErrorCode.NONE
    assert group.check_offset_commit("whoever", None, 0, transactional=False) is ErrorCode.UNKNOWN_MEMBER_ID


def test_a_commit_between_join_and_sync_is_refused_unless_transactional(driver: GroupDriver) -> None:
    member = driver.joined(driver.join()).member_id
    assert driver.group.check_offset_commit(member, None, 1, transactional=False) is ErrorCode.REBALANCE_IN_PROGRESS
    assert driver.group.check_offset_commit(member, None, 1, transactional=True) is ErrorCode.NONE


def test_a_transactional_commit_needs_no_credentials(driver: GroupDriver) -> None:
    driver.stable(None)
    assert driver.group.check_offset_commit("", None, -1, transactional=True) is ErrorCode.NONE


def test_a_commit_in_preparing_rebalance_uses_the_old_generation(driver: GroupDriver) -> None:
    (leader,) = driver.stable(None)
    driver.join()
    assert driver.group.check_offset_commit(leader, None, 1, transactional=False) is ErrorCode.NONE


def test_a_failed_write_makes_every_member_rejoin(driver: GroupDriver) -> None:
    leader, follower = driver.stable(None, None)
    driver.join(leader)
    driver.join(follower)
    waiting = driver.sync(follower)
    before = driver.group.generation
    from ottla.broker.groups.classic import SyncRequest

    outcome = driver.group.sync(SyncRequest(member_id=leader, generation=before), 99, driver.now)
    assert {reply.request_key for reply in outcome.replies} == {waiting, 99}, "the runtime fails these"
    driver.take(driver.group.on_write_failed(driver.now))
    assert driver.group.state is ClassicState.PREPARING_REBALANCE
    assert driver.heartbeat(leader) is ErrorCode.REBALANCE_IN_PROGRESS
    driver.join(leader)
    assert driver.joined(driver.join(follower)).generation == before + 1


def test_a_loaded_group_is_stable_with_full_sessions(driver: GroupDriver) -> None:
    leader, follower = driver.stable(None, "i1")
    restored = ClassicGroup("g", ClassicConfig())
    for record in driver.records:
        restored.apply(record)
    restored.on_loaded(driver.now)
    assert restored.state is ClassicState.STABLE
    assert restored.generation == driver.group.generation
    assert restored.next_deadline() == driver.mono_ms + 10_000
    assert restored.heartbeat(leader, None, restored.generation, driver.now) is ErrorCode.NONE
    assert restored.heartbeat(follower, "i1", restored.generation, driver.now) is ErrorCode.NONE
    assert restored.members[follower].assignment == follower.encode()
    assert restored.subscribed_topics == {"t"}


def test_a_loaded_group_over_its_size_limit_rebalances(driver: GroupDriver) -> None:
    driver.stable(None, None)
    restored = ClassicGroup("g", ClassicConfig(max_size=1))
    restored.apply(driver.records[-1])
    restored.on_loaded(driver.now)
    assert restored.state is ClassicState.PREPARING_REBALANCE


def test_a_record_without_rebalance_timeout_uses_the_session_timeout() -> None:
    group = GroupDriver().group
    member = MemberMetadata(member_id="m", client_id="c", client_host="/h", session_timeout=7_000)
    group.apply(GroupMetadataValue(protocol_type="consumer", generation=4, protocol="range", leader="m", members=[member]))
    assert group.members["m"].rebalance_timeout_ms == 7_000


def test_only_topics_that_a_member_reads_count_as_subscribed(driver: GroupDriver) -> None:
    driver.stable(None, protocols=(JoinProtocol("range", subscription("a", "b")),))
    assert driver.group.is_subscribed_to("a")
    assert not driver.group.is_subscribed_to("c")


def test_an_unreadable_subscription_counts_as_all_topics(driver: GroupDriver) -> None:
    driver.stable(None, protocols=(JoinProtocol("range", b"\x00"),))
    assert driver.group.is_subscribed_to("anything")


def test_a_group_of_another_protocol_type_has_no_subscribed_topics(driver: GroupDriver) -> None:
    driver.stable(None, protocol_type="connect", protocols=RANGE)
    assert not driver.group.is_subscribed_to("t")


def test_a_dead_group_answers_coordinator_errors(driver: GroupDriver) -> None:
    driver.group.mark_dead()
    assert driver.joined(driver.join()).error is ErrorCode.COORDINATOR_NOT_AVAILABLE
    assert driver.synced(driver.sync("m")).error is ErrorCode.COORDINATOR_NOT_AVAILABLE
    assert driver.heartbeat("m") is ErrorCode.COORDINATOR_NOT_AVAILABLE
    assert driver.leave(LeavingMember("m")) == [ErrorCode.COORDINATOR_NOT_AVAILABLE]
    assert driver.group.check_offset_commit("", None, -1, transactional=False) is ErrorCode.COORDINATOR_NOT_AVAILABLE


def test_the_last_record_sets_timeouts_and_subscriptions(driver: GroupDriver) -> None:
    (leader,) = driver.stable(None, session_timeout_ms=10_000)
    driver.join(leader, session_timeout_ms=20_000, protocols=(JoinProtocol("range", subscription("u")),))
    driver.settle()
    restored = ClassicGroup("g", ClassicConfig())
    for record in driver.records:
        restored.apply(record)
    assert restored.members[leader].session_timeout_ms == 20_000
    assert restored.subscribed_topics == {"u"}
