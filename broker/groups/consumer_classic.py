"""Members of the classic protocol in a consumer group: the coordinator emulates a classic group for each (KIP-848 "Migration").

Invariants:

* The generation of a classic protocol member is its member epoch. It is never the leader: the coordinator assigns partitions, and the
  response to SyncGroup has them.
* A JoinGroup is answered at once, and takes the member one step towards its target assignment; the owned partitions in its subscription
  show what it has revoked. The response to a Heartbeat is REBALANCE_IN_PROGRESS, which makes the member rejoin, whenever there is a step to
  take. Only joins and heartbeats of the consumer protocol compute the target assignment.
* After REBALANCE_IN_PROGRESS a member must send JoinGroup within its rebalance timeout, and then SyncGroup within the same time; otherwise
  it is removed.

Source: Kafka's GroupMetadataManager.classicGroupJoinToConsumerGroup and the same for Sync, Heartbeat and Leave.
"""

from __future__ import annotations

from dataclasses import replace

from ottla.broker.core.rejected import Rejected
from ottla.broker.groups import migration
from ottla.broker.groups.classic import CONSUMER_PROTOCOL_TYPE, Leaving, Syncing
from ottla.broker.groups.classic_join import Joining
from ottla.broker.groups.consumer_draft import Draft
from ottla.broker.groups.consumer_member import Assignment, ClassicMember, ConsumerMember, MemberState
from ottla.broker.groups.deadlines import DeadlineKind
from ottla.broker.groups.embedded_protocol import ConsumerProtocolSubscription, owned_of, read_subscription, write_assignment
from ottla.broker.groups.results import JoinGroupResult, SyncGroupResult
from ottla.protocol.error_codes import ErrorCode
from ottla.protocol.errors import ProtocolError


def join(draft: Draft, joining: Joining) -> JoinGroupResult:
    """Process the JoinGroup of a classic protocol member: add it to the group, or take it one step towards its target assignment. Return
    the response. Raises Rejected.
    """
    member_id = joining.member_id or joining.new_member_id
    _check_may_join(draft, joining, member_id)
    if not joining.member_id and joining.require_known_member_id and joining.instance_id is None:
        return JoinGroupResult(error=ErrorCode.MEMBER_ID_REQUIRED, member_id=member_id)
    subscription = _subscription(joining)
    holder = draft.group.static_member(joining.instance_id)
    replaces_consumer = holder is not None and holder.classic is None
    before = _member(draft, joining, member_id)
    after = replace(
        before,
        instance_id=before.instance_id if joining.instance_id is None else joining.instance_id,
        rack_id=subscription.rack_id or before.rack_id,
        client_id=joining.client_id,
        client_host=joining.client_host,
        rebalance_timeout_ms=joining.rebalance_timeout_ms,
        server_assignor=None,
        topic_names=frozenset(subscription.topics),
        topic_regex="",
        classic=ClassicMember(joining.session_timeout_ms, joining.protocols),
    )
    changed = draft.change_member(before, after, joining.may_describe)
    owned = owned_of(subscription, draft.topics)
    if replaces_consumer and migration.may_downgrade(draft):
        member = _downgrade(draft, member_id, owned, subscription_changed=changed)
    else:
        draft.update_target()
        member = draft.reconcile(member_id, owned, subscription_changed=changed)
    if draft.downgraded is None:
        draft.deadlines.cancel(DeadlineKind.JOIN, member_id)
        draft.keep_session(member)
        draft.deadlines.set(DeadlineKind.SYNC, member_id, draft.now.mono_ms + joining.rebalance_timeout_ms)
    return JoinGroupResult(
        member_id=member_id,
        generation=member.epoch,
        protocol_type=CONSUMER_PROTOCOL_TYPE,
        protocol_name=joining.protocols[0].name,
    )


def _downgrade(draft: Draft, member_id: str, owned: Assignment | None, *, subscription_changed: bool) -> ConsumerMember:
    """Convert the group to a classic group, because its last consumer protocol member, a static one, now joins in the classic protocol.
    Return this member. If the target assignment is not older than the group epoch, the member first takes one step towards it.
    """
    is_stale = draft.group.assignment_epoch < draft.group.epoch
    if not is_stale:
        draft.reconcile(member_id, owned, subscription_changed=subscription_changed)
    group = draft.group
    settled = all(member.is_reconciled_to(group.assignment_epoch) for member in group.members.values())
    migration.downgrade(draft, has_to_rebalance=is_stale or not settled)
    return group.members[member_id]


def sync(draft: Draft, syncing: Syncing) -> SyncGroupResult:
    """Return the classic member's current assignment, which its last JoinGroup has set. Raises Rejected, with REBALANCE_IN_PROGRESS if the
    member must rejoin because the target assignment has changed."""
    member = draft.group.existing_member(syncing.member_id, syncing.instance_id)
    classic = _check_generation(member, syncing.generation)
    if syncing.protocol_type not in {None, CONSUMER_PROTOCOL_TYPE} or syncing.protocol_name not in {None, classic.protocols[0].name}:
        raise Rejected(ErrorCode.INCONSISTENT_GROUP_PROTOCOL)
    if draft.group.assignment_epoch > member.epoch and member.state is not MemberState.UNREVOKED_PARTITIONS:
        _ask_to_join(draft, member)
        raise Rejected(ErrorCode.REBALANCE_IN_PROGRESS)
    draft.deadlines.cancel(DeadlineKind.SYNC, member.member_id)
    draft.keep_session(member)
    return SyncGroupResult(
        protocol_type=syncing.protocol_type,
        protocol_name=syncing.protocol_name,
        assignment=write_assignment(member.assigned, classic.protocols[0].metadata, draft.topics),
    )


def heartbeat(draft: Draft, member_id: str, instance_id: str | None, generation: int) -> ErrorCode:
    """Extend the classic member's session. Return NONE, or REBALANCE_IN_PROGRESS if the member must rejoin to take its next step towards
    its target assignment. Raises Rejected."""
    member = draft.group.existing_member(member_id, instance_id)
    _check_generation(member, generation)
    draft.keep_session(member)
    group = draft.group
    has_step = (
        member.epoch < group.assignment_epoch
        or member.state is MemberState.UNREVOKED_PARTITIONS
        or (member.state is MemberState.UNRELEASED_PARTITIONS and not group.waits_for_release(member))
    )
    if not has_step:
        return ErrorCode.NONE
    _ask_to_join(draft, member)
    return ErrorCode.REBALANCE_IN_PROGRESS


def leave(draft: Draft, leaving: list[Leaving]) -> list[ErrorCode]:
    """Remove the members that `leaving` names, and return one error code for each. They can also be consumer protocol members, which an
    administrator removes by LeaveGroup (Kafka since 4.3).

    If the last consumer protocol member is removed, the group becomes a classic group (if `migration.may_downgrade`).
    """
    of_the_consumer_protocol = {member.member_id for member in draft.group.members.values() if member.classic is None}
    errors = [_leave_one(draft, one) for one in leaving]
    if of_the_consumer_protocol - draft.group.members.keys() and migration.may_downgrade(draft):
        migration.downgrade(draft, has_to_rebalance=True)
    elif ErrorCode.NONE in errors:
        draft.bump_after_leave()
    return errors


def _leave_one(draft: Draft, leaving: Leaving) -> ErrorCode:
    holder = draft.group.static_member(leaving.instance_id)
    member_id = holder.member_id if holder is not None and not leaving.member_id else leaving.member_id
    try:
        member = draft.group.existing_member(member_id, leaving.instance_id)
    except Rejected as refused:
        return refused.code
    draft.remove_member(member.member_id)
    return ErrorCode.NONE


def _check_may_join(draft: Draft, joining: Joining, member_id: str) -> None:
    group = draft.group
    if not draft.config.allows_classic_members:
        raise Rejected(ErrorCode.INCONSISTENT_GROUP_PROTOCOL)
    if len(group.members) >= draft.config.max_size and member_id not in group.members:
        raise Rejected(ErrorCode.GROUP_MAX_SIZE_REACHED)
    if not group.supports_classic_protocols(joining.protocol_type, joining.protocol_names()):
        raise Rejected(ErrorCode.INCONSISTENT_GROUP_PROTOCOL)


def _subscription(joining: Joining) -> ConsumerProtocolSubscription:
    try:
        return read_subscription(joining.protocols[0].metadata)
    except ProtocolError as error:
        raise Rejected(ErrorCode.INCONSISTENT_GROUP_PROTOCOL, str(error)) from error


def _member(draft: Draft, joining: Joining, member_id: str) -> ConsumerMember:
    group = draft.group
    if joining.instance_id is None:
        return group.members.get(member_id) or ConsumerMember(member_id=member_id)
    if joining.member_id:
        return draft.group.existing_member(member_id, joining.instance_id)
    holder = group.static_member(joining.instance_id)
    return ConsumerMember(member_id=member_id) if holder is None else draft.replace_member(holder, member_id)


def _check_generation(member: ConsumerMember, generation: int) -> ClassicMember:
    if member.classic is None:
        raise Rejected(ErrorCode.UNKNOWN_MEMBER_ID, f"Member {member.member_id} does not use the classic protocol.")
    if member.epoch != generation:
        raise Rejected(ErrorCode.ILLEGAL_GENERATION)
    return member.classic


def _ask_to_join(draft: Draft, member: ConsumerMember) -> None:
    draft.deadlines.set_if_absent(DeadlineKind.JOIN, member.member_id, draft.now.mono_ms + member.rebalance_timeout_ms)
