from __future__ import annotations

import pytest

from ottla.broker.core.rejected import Rejected
from ottla.broker.groups.consumer_member import Assignment, ConsumerMember, MemberState, epochs_of
from ottla.broker.groups.reconciliation import Target, is_subset, reconcile
from ottla.protocol.error_codes import ErrorCode
from tests.support.consumer_groups import topic_id

T = topic_id("t")


def parts(*partitions: int) -> Assignment:
    return {T: frozenset(partitions)} if partitions else {}


def target(
    epoch: int, *partitions: int, held: set[int] | None = None, subscribed: frozenset[bytes] = frozenset({T}), changed: bool = False
) -> Target:
    return Target(epoch, parts(*partitions), lambda _, partition: partition not in (held or set()), subscribed, changed)


def member(epoch: int, *assigned: int, state: MemberState = MemberState.STABLE, pending: Assignment | None = None) -> ConsumerMember:
    return ConsumerMember(
        member_id="m",
        epoch=epoch,
        previous_epoch=epoch,
        state=state,
        assigned=parts(*assigned),
        pending_revocation=pending or {},
        epochs={**epochs_of(parts(*assigned), epoch), **epochs_of(pending or {}, epoch)},
    )


def test_a_member_in_the_targets_epoch_is_unchanged() -> None:
    stable = member(3, 1)
    assert reconcile(stable, target(3, 1, 2), None) is stable


def test_a_new_member_gets_free_partitions() -> None:
    after = reconcile(member(0), target(1, 0, 1), parts())
    assert (after.state, after.epoch, after.previous_epoch, after.assigned) == (MemberState.STABLE, 1, 0, parts(0, 1))


def test_a_member_waits_in_the_new_epoch_for_partitions_of_others() -> None:
    after = reconcile(member(0), target(2, 0, 1), parts())
    waiting = reconcile(member(0), target(2, 0, 1, held={1}), parts())
    assert after.assigned == parts(0, 1)
    assert (waiting.state, waiting.epoch, waiting.assigned) == (MemberState.UNRELEASED_PARTITIONS, 2, parts(0))
    assert reconcile(waiting, target(2, 0, 1), None).assigned == parts(0, 1)


def test_nothing_is_assigned_before_all_is_revoked() -> None:
    after = reconcile(member(1, 0, 1), target(2, 1, 2), None)
    assert (after.state, after.epoch, after.assigned, after.pending_revocation) == (
        MemberState.UNREVOKED_PARTITIONS,
        1,
        parts(1),
        parts(0),
    )


@pytest.mark.parametrize("owned", [None, parts(0, 1), parts(0)], ids=["not said", "all", "the one to give back"])
def test_a_heartbeat_without_owned_partitions_confirms_no_revocation(owned: Assignment | None) -> None:
    revoking = member(1, 1, state=MemberState.UNREVOKED_PARTITIONS, pending=parts(0))
    assert reconcile(revoking, target(2, 1, 2), owned) is revoking


def test_after_the_revocation_a_member_enters_the_epoch_and_gets_the_rest() -> None:
    revoking = member(1, 1, state=MemberState.UNREVOKED_PARTITIONS, pending=parts(0))
    after = reconcile(revoking, target(2, 1, 2), parts(1))
    assert (after.state, after.epoch, after.assigned, after.pending_revocation) == (MemberState.STABLE, 2, parts(1, 2), {})


def test_a_newer_target_can_revoke_more_after_a_revocation() -> None:
    revoking = member(1, 1, state=MemberState.UNREVOKED_PARTITIONS, pending=parts(0))
    after = reconcile(revoking, target(4, 2), parts(1))
    assert (after.state, after.epoch, after.pending_revocation) == (MemberState.UNREVOKED_PARTITIONS, 1, parts(1))


def test_a_revocation_of_unowned_partitions_completes_at_once() -> None:
    after = reconcile(member(1, 0, 1), target(2, 1), parts(1))
    assert (after.state, after.epoch, after.assigned) == (MemberState.STABLE, 2, parts(1))


def test_an_unchanged_waiting_member_is_not_written_again() -> None:
    waiting = reconcile(member(0), target(2, 0, 1, held={1}), parts())
    heard = reconcile(waiting, target(2, 0, 1, held={1}), parts(0))
    assert heard.previous_epoch == 2, "it has heard of the epoch"
    assert reconcile(heard, target(2, 0, 1, held={1}), parts(0)) is heard


def test_a_kept_partition_keeps_its_assignment_epoch() -> None:
    first = reconcile(member(0), target(2, 0, 1), parts())
    revoking = reconcile(first, target(3, 1, 2), parts(0, 1))
    assert revoking.epochs == {(T, 0): 2, (T, 1): 2}
    assert reconcile(revoking, target(3, 1, 2), parts(1)).epochs == {(T, 1): 2, (T, 2): 3}


def test_a_partition_assigned_again_during_its_revocation_has_a_new_epoch() -> None:
    revoking = member(1, 1, state=MemberState.UNREVOKED_PARTITIONS, pending=parts(0))
    after = reconcile(revoking, target(3, 0, 1, held={0, 1}), parts(1))
    assert (after.assigned, after.epochs) == (parts(0, 1), {(T, 0): 3, (T, 1): 1})


def test_an_unsubscribed_topic_is_revoked_before_a_new_target() -> None:
    after = reconcile(member(3, 0, 1), target(3, 0, 1, subscribed=frozenset(), changed=True), None)
    assert (after.state, after.epoch, after.assigned, after.pending_revocation) == (
        MemberState.UNREVOKED_PARTITIONS,
        3,
        {},
        parts(0, 1),
    )
    let_go = reconcile(member(3, 0, 1), target(3, 0, 1, subscribed=frozenset(), changed=True), parts())
    assert (let_go.state, let_go.assigned, let_go.epochs) == (MemberState.STABLE, {}, {})


def test_an_older_target_assigns_no_unsubscribed_topic() -> None:
    after = reconcile(member(0), target(2, 0, 1, subscribed=frozenset()), parts())
    assert (after.state, after.epoch, after.assigned) == (MemberState.STABLE, 2, {})


def test_a_member_in_an_unknown_state_starts_again() -> None:
    unknown = member(1, 0, state=MemberState.UNKNOWN)
    with pytest.raises(Rejected) as refused:
        reconcile(unknown, target(2, 1), parts(0))
    assert refused.value.code is ErrorCode.FENCED_MEMBER_EPOCH
    assert reconcile(unknown, target(2, 1), parts()).assigned == parts(1)


def test_missing_owned_partitions_are_not_a_subset() -> None:
    assert is_subset(parts(0), parts(0, 1))
    assert is_subset(parts(), parts())
    assert not is_subset(None, parts(0))
    assert not is_subset(parts(0, 2), parts(0, 1))
    assert not is_subset({topic_id("u"): frozenset({0})}, parts(0))
