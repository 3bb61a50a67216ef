"""JoinGroup of a classic group: order of the checks, effects in each state, KIP-345, KIP-394, KIP-814."""

from __future__ import annotations

import pytest

from ottla.broker.core import limits
from ottla.broker.groups.classic import ClassicGroup
from ottla.broker.groups.classic_members import JoinProtocol
from ottla.broker.groups.states import ClassicState
from ottla.protocol.error_codes import ErrorCode
from tests.support.classic_groups import RANGE, GroupDriver, join_request, subscription

STICKY = JoinProtocol("sticky", subscription("t"))


@pytest.fixture
def driver() -> GroupDriver:
    return GroupDriver()


def test_the_first_member_starts_generation_1_at_once(driver: GroupDriver) -> None:
    answer = driver.joined(driver.join())
    assert (answer.error, answer.generation, answer.leader) == (ErrorCode.NONE, 1, answer.member_id)
    assert (answer.protocol_type, answer.protocol_name) == ("consumer", "range")
    assert [member.member_id for member in answer.members] == [answer.member_id]
    assert driver.group.state is ClassicState.COMPLETING_REBALANCE


def test_only_the_leaders_join_response_has_the_members(driver: GroupDriver) -> None:
    leader, follower = driver.stable(None, None)
    first, second = driver.join(leader), driver.join(follower)
    assert {member.member_id for member in driver.joined(first).members} == {leader, follower}
    assert driver.joined(second).members == ()
    assert driver.joined(second).leader == leader


@pytest.mark.parametrize("changes", [{"protocol_type": ""}, {"protocols": ()}])
def test_the_first_member_must_name_a_protocol_type_and_a_protocol(driver: GroupDriver, changes: dict[str, object]) -> None:
    answer = driver.joined(driver.join(**changes))
    assert (answer.error, answer.generation, answer.protocol_name, answer.leader) == (ErrorCode.INCONSISTENT_GROUP_PROTOCOL, -1, None, "")


@pytest.mark.parametrize("changes", [{"protocol_type": "connect"}, {"protocols": (STICKY,)}])
def test_a_member_without_a_common_protocol_is_refused(driver: GroupDriver, changes: dict[str, object]) -> None:
    driver.stable(None)
    assert driver.joined(driver.join(**changes)).error is ErrorCode.INCONSISTENT_GROUP_PROTOCOL
    assert driver.group.state is ClassicState.STABLE


def test_the_protocol_with_most_votes_among_those_that_all_support_is_chosen() -> None:
    driver = GroupDriver(initial_delay_ms=100)
    both = (STICKY, RANGE[0])
    request_keys = [driver.join(protocols=both), driver.join(protocols=both), driver.join(protocols=(RANGE[0], STICKY))]
    driver.pass_ms(100)
    driver.pass_ms(100)
    assert {driver.joined(request_key).protocol_name for request_key in request_keys} == {"sticky"}


def test_a_protocol_that_a_member_does_not_support_is_not_chosen() -> None:
    driver = GroupDriver(initial_delay_ms=100)
    request_keys = [driver.join(protocols=(STICKY, RANGE[0])), driver.join(protocols=(STICKY, RANGE[0])), driver.join(protocols=RANGE)]
    driver.pass_ms(200)
    assert {driver.joined(request_key).protocol_name for request_key in request_keys} == {"range"}


# --- KIP-394 ----------------------------------------------------------------------------------------------------------------------


def test_a_new_member_gets_an_id_and_must_join_with_it(driver: GroupDriver) -> None:
    answer = driver.joined(driver.join(require_known_member_id=True))
    assert answer.error is ErrorCode.MEMBER_ID_REQUIRED
    assert len(driver.group.members) == 0
    joined = driver.joined(driver.join(answer.member_id, require_known_member_id=True))
    assert (joined.error, joined.member_id, joined.generation) == (ErrorCode.NONE, answer.member_id, 1)


def test_an_unused_member_id_expires_after_the_session_timeout(driver: GroupDriver) -> None:
    answer = driver.joined(driver.join(require_known_member_id=True, session_timeout_ms=7_000))
    driver.pass_ms(6_999)
    assert answer.member_id in driver.group.pending
    driver.pass_ms(1)
    assert driver.joined(driver.join(answer.member_id)).error is ErrorCode.UNKNOWN_MEMBER_ID


def test_a_rebalance_waits_for_a_member_with_a_new_id(driver: GroupDriver) -> None:
    (leader,) = driver.stable(None)
    pending = driver.joined(driver.join(require_known_member_id=True)).member_id
    waiting = driver.join(leader)
    assert waiting not in driver.replies
    driver.join(pending)
    assert driver.joined(waiting).generation == 2
    assert len(driver.joined(waiting).members) == 2


def test_a_rebalance_continues_when_a_new_id_expires(driver: GroupDriver) -> None:
    (leader,) = driver.stable(None)
    driver.join(require_known_member_id=True, session_timeout_ms=8_000)
    waiting = driver.join(leader)
    driver.pass_ms(8_000)
    assert driver.joined(waiting).generation == 2


def test_the_first_generation_does_not_wait_for_a_new_id(driver: GroupDriver) -> None:
    driver.join(require_known_member_id=True)
    assert driver.joined(driver.join()).generation == 1


def test_a_pending_member_can_leave() -> None:
    from ottla.broker.groups.classic import LeavingMember

    driver = GroupDriver()
    pending = driver.joined(driver.join(require_known_member_id=True)).member_id
    assert driver.leave(LeavingMember(pending)) == [ErrorCode.NONE]
    assert driver.joined(driver.join(pending)).error is ErrorCode.UNKNOWN_MEMBER_ID


def test_the_oldest_pending_member_ids_are_forgotten() -> None:
    driver = GroupDriver()
    ids = [driver.joined(driver.join(require_known_member_id=True)).member_id for _ in range(limits.PENDING_MEMBERS + 1)]
    assert list(driver.group.pending) == ids[1:]
    assert driver.joined(driver.join(ids[0])).error is ErrorCode.UNKNOWN_MEMBER_ID
    driver.join(ids[1])
    assert ids[1] in driver.group.members


def test_a_pending_id_with_an_instance_id_is_unknown(driver: GroupDriver) -> None:
    pending = driver.joined(driver.join(require_known_member_id=True)).member_id
    assert driver.joined(driver.join(pending, instance_id="i1")).error is ErrorCode.UNKNOWN_MEMBER_ID


def test_a_static_member_needs_no_second_round(driver: GroupDriver) -> None:
    assert driver.joined(driver.join(instance_id="i1", require_known_member_id=True)).error is ErrorCode.NONE


# --- who may come back --------------------------------------------------------------------------------------------------------------


def test_an_unknown_member_id_is_refused(driver: GroupDriver) -> None:
    driver.stable(None)
    assert driver.joined(driver.join("stranger")).error is ErrorCode.UNKNOWN_MEMBER_ID


def test_a_known_instance_with_another_member_id_is_fenced(driver: GroupDriver) -> None:
    driver.stable("i1")
    assert driver.joined(driver.join("old-id", instance_id="i1")).error is ErrorCode.FENCED_INSTANCE_ID


def test_an_unknown_instance_with_a_member_id_is_refused(driver: GroupDriver) -> None:
    (member,) = driver.stable(None)
    assert driver.joined(driver.join(member, instance_id="i9")).error is ErrorCode.UNKNOWN_MEMBER_ID


# --- effects by state ---------------------------------------------------------------------------------------------------------------


def test_an_unchanged_followers_rejoin_causes_no_rebalance(driver: GroupDriver) -> None:
    _, follower = driver.stable(None, None)
    generation = driver.group.generation
    answer = driver.joined(driver.join(follower))
    assert (answer.generation, answer.members) == (generation, ())
    assert driver.group.state is ClassicState.STABLE


def test_a_leaders_rejoin_causes_a_rebalance(driver: GroupDriver) -> None:
    leader, _ = driver.stable(None, None)
    assert driver.join(leader) not in driver.replies
    assert driver.group.state is ClassicState.PREPARING_REBALANCE


def test_a_followers_changed_subscription_causes_a_rebalance(driver: GroupDriver) -> None:
    _, follower = driver.stable(None, None)
    driver.join(follower, protocols=(JoinProtocol("range", subscription("t", "u")),))
    assert driver.group.state is ClassicState.PREPARING_REBALANCE


def test_a_join_repeated_before_the_sync_gets_the_same_generation(driver: GroupDriver) -> None:
    first = driver.joined(driver.join())
    again = driver.joined(driver.join(first.member_id))
    assert again == first


def test_a_changed_join_before_the_sync_starts_another_generation(driver: GroupDriver) -> None:
    first = driver.joined(driver.join())
    again = driver.joined(driver.join(first.member_id, protocols=(JoinProtocol("range", subscription("u")),)))
    assert again.generation == first.generation + 1


def test_a_members_second_join_replaces_and_answers_the_first(driver: GroupDriver) -> None:
    leader, follower = driver.stable(None, None)
    lost = driver.join(leader)
    kept = driver.join(leader)
    assert driver.joined(lost).error is ErrorCode.REBALANCE_IN_PROGRESS
    driver.join(follower)
    assert driver.joined(kept).error is ErrorCode.NONE


def test_the_join_phase_ends_at_the_longest_rebalance_timeout(driver: GroupDriver) -> None:
    long = {"session_timeout_ms": 1_000_000}
    leader, absent = driver.stable(None, None, **long)
    driver.join(absent, rebalance_timeout_ms=50_000, protocols=(JoinProtocol("range", subscription("t", "u")),), **long)
    driver.group.members[leader].rebalance_timeout_ms = 20_000
    driver.pass_ms(29_999)
    assert leader in driver.group.members
    driver.pass_ms(20_001)
    assert leader not in driver.group.members
    assert driver.group.leader_id == absent


def test_a_static_member_that_does_not_rejoin_is_kept(driver: GroupDriver) -> None:
    long = {"session_timeout_ms": 1_000_000}
    static, dynamic = driver.stable("i1", None, **long)
    waiting = driver.join(dynamic, protocols=(JoinProtocol("range", subscription("t", "u")),), **long)
    driver.pass_ms(30_000)
    answer = driver.joined(waiting)
    assert static in driver.group.members
    assert answer.leader == dynamic, "the leader is one that is here"
    assert {member.member_id for member in answer.members} == {static, dynamic}


def test_the_join_phase_continues_while_only_absent_static_members_are_left(driver: GroupDriver) -> None:
    long = {"session_timeout_ms": 1_000_000}
    static, dynamic = driver.stable("i1", None, **long)
    from ottla.broker.groups.classic import LeavingMember

    generation = driver.group.generation
    driver.leave(LeavingMember(dynamic))
    driver.pass_ms(100_000)
    assert (driver.group.state, driver.group.generation) == (ClassicState.PREPARING_REBALANCE, generation)
    answer = driver.joined(driver.join(static, instance_id="i1", **long))
    assert answer.generation == generation + 1


# --- the initial delay --------------------------------------------------------------------------------------------------------------


def test_the_initial_delay_collects_members_for_the_first_generation() -> None:
    driver = GroupDriver(initial_delay_ms=3_000)
    first = driver.join()
    driver.pass_ms(2_000)
    second = driver.join()
    assert first not in driver.replies
    driver.pass_ms(1_000)
    assert first not in driver.replies, "a newcomer extends the delay"
    driver.pass_ms(3_000)
    assert driver.joined(first).generation == driver.joined(second).generation == 1


def test_the_initial_delay_is_at_most_the_rebalance_timeout() -> None:
    driver = GroupDriver(initial_delay_ms=3_000)
    first = driver.join(rebalance_timeout_ms=7_000)
    for _ in range(6):
        driver.pass_ms(1_000)
        driver.join(rebalance_timeout_ms=7_000)
    assert first not in driver.replies
    driver.pass_ms(1_000)
    assert driver.joined(first).generation == 1


# --- size ---------------------------------------------------------------------------------------------------------------------------


def test_a_full_group_refuses_new_members() -> None:
    driver = GroupDriver(max_size=1)
    (leader,) = driver.stable(None)
    answer = driver.joined(driver.join())
    assert (answer.error, answer.member_id) == (ErrorCode.GROUP_MAX_SIZE_REACHED, "")
    assert driver.group.state is ClassicState.STABLE
    assert driver.joined(driver.join(leader)).error is ErrorCode.NONE


def test_a_lowered_size_limit_refuses_the_last_to_rejoin(driver: GroupDriver) -> None:
    first, second = driver.stable(None, None)
    driver.group.config = type(driver.config)(max_size=1)
    kept = driver.join(first)
    assert driver.joined(driver.join(second)).error is ErrorCode.GROUP_MAX_SIZE_REACHED
    assert second not in driver.group.members
    driver.pass_ms(30_000)
    assert driver.joined(kept).error is ErrorCode.NONE


# --- KIP-345 ------------------------------------------------------------------------------------------------------------------------


def test_a_restarted_static_member_keeps_its_assignment_without_a_rebalance(driver: GroupDriver) -> None:
    leader, static = driver.stable(None, "i1")
    generation = driver.group.generation
    answer = driver.joined(driver.join(instance_id="i1"))
    assert (answer.error, answer.generation, answer.leader) == (ErrorCode.NONE, generation, leader)
    assert answer.member_id not in ("", static)
    assert driver.group.state is ClassicState.STABLE
    assert driver.synced(driver.sync(answer.member_id, instance_id="i1")).assignment == static.encode()


def test_a_restarted_static_members_old_id_is_fenced(driver: GroupDriver) -> None:
    _, static = driver.stable(None, "i1")
    driver.join(instance_id="i1")
    assert driver.heartbeat(static, instance_id="i1") is ErrorCode.FENCED_INSTANCE_ID
    assert driver.synced(driver.sync(static, instance_id="i1")).error is ErrorCode.FENCED_INSTANCE_ID
    assert driver.joined(driver.join(static, instance_id="i1")).error is ErrorCode.FENCED_INSTANCE_ID


def test_a_restarted_static_members_new_id_is_written(driver: GroupDriver) -> None:
    driver.stable(None, "i1")
    answer = driver.joined(driver.join(instance_id="i1", session_timeout_ms=9_000))
    restored = ClassicGroup("g", driver.config)
    for record in driver.records:
        restored.apply(record)
    assert restored.members.static_member_id("i1") == answer.member_id
    assert restored.members[answer.member_id].session_timeout_ms == 9_000


def test_a_failed_write_of_a_new_id_changes_nothing() -> None:
    from ottla.broker.groups.classic_join import join

    driver = GroupDriver()
    _, static = driver.stable(None, "i1")
    outcome = join(driver.group, join_request(new_member_id="new", instance_id="i1"), 99, driver.now)
    assert outcome.record is not None
    driver.take(driver.group.on_write_failed(driver.now))
    assert driver.heartbeat(static, instance_id="i1") is ErrorCode.NONE
    assert "new" not in driver.group.members


def test_a_restarted_static_leader_gets_skip_assignment(driver: GroupDriver) -> None:
    (old,) = driver.stable("i1")
    answer = driver.joined(driver.join(instance_id="i1", can_skip_assignment=True))
    assert (answer.skip_assignment, answer.leader) == (True, answer.member_id)
    assert [member.member_id for member in answer.members] == [answer.member_id]
    assert old not in driver.group.members


def test_an_old_restarted_static_leader_gets_the_old_leader_id(driver: GroupDriver) -> None:
    (old,) = driver.stable("i1")
    answer = driver.joined(driver.join(instance_id="i1"))
    assert (answer.skip_assignment, answer.leader, answer.members) == (False, old, ())
    assert driver.group.leader_id == answer.member_id


def test_a_restarted_static_member_that_changes_the_chosen_protocol_starts_a_rebalance(driver: GroupDriver) -> None:
    both = (RANGE[0], STICKY)
    (old,) = driver.stable("i1", protocols=both)
    answer = driver.joined(driver.join(instance_id="i1", protocols=(STICKY,)))
    assert (answer.protocol_name, answer.generation) == ("sticky", 2)
    assert old not in driver.group.members


def test_a_waiting_join_of_a_restarted_static_members_old_id_is_fenced(driver: GroupDriver) -> None:
    leader, static = driver.stable(None, "i1")
    changed = (JoinProtocol("range", subscription("u")),)
    parked = driver.join(static, instance_id="i1", protocols=changed)
    taken = driver.join(instance_id="i1", protocols=changed)
    answer = driver.joined(parked)
    assert (answer.error, answer.member_id) == (ErrorCode.FENCED_INSTANCE_ID, static)
    driver.join(leader)
    assert driver.joined(taken).error is ErrorCode.NONE


def test_a_static_member_that_restarts_between_join_and_sync_starts_another_rebalance(driver: GroupDriver) -> None:
    leader, static = driver.stable(None, "i1")
    driver.join(leader)
    driver.join(static, instance_id="i1")
    parked = driver.sync(static, instance_id="i1")
    assert driver.group.state is ClassicState.COMPLETING_REBALANCE
    driver.join(instance_id="i1")
    assert driver.synced(parked).error is ErrorCode.FENCED_INSTANCE_ID
    assert driver.group.state is ClassicState.PREPARING_REBALANCE
