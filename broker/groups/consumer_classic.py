"""Members of the classic protocol in a consumer group: the coordinator emulates a classic group for each (KIP-848 "Migration").

Invariants:

* The generation of a classic protocol member is its member epoch. The member never leads: the coordinator assigns the partitions, and the
  response to SyncGroup has them.
* A JoinGroup is answered at once, and takes the member one step towards its target assignment; the owned partitions in its subscription
  show what it has revoked. If the member can take another step, the response to its Heartbeat is REBALANCE_IN_PROGRESS, which makes it
  rejoin. Only joins and heartbeats of the consumer protocol compute the target assignment.
* After REBALANCE_IN_PROGRESS a member must send JoinGroup within its rebalance timeout, and then SyncGroup within the same time; otherwise
  it is removed.

Source: Kafka's GroupMetadataManager.classicGroupJoinToConsumerGroup and the same for Sync, Heartbeat and Leave.
"""

from __future__ import annotations

from dataclasses import replace

from ottla.broker.core.rejected import Rejected
from ottla.broker.groups import migration
from ottla.broker.groups.classic import CONSUMER_PROTOCOL_TYPE, LeavingMember, SyncRequest
from ottla.broker.groups.classic_join import JoinRequest
from ottla.broker.groups.consumer_group_update import ConsumerGroupUpdate
from ottla.broker.groups.consumer_member import Assignment, ClassicMember, ConsumerMember, MemberState
from ottla.broker.groups.deadlines import DeadlineKind
from ottla.broker.groups.embedded_protocol import ConsumerProtocolSubscription, owned_of, read_subscription, write_assignment
from ottla.broker.groups.results import JoinGroupResult, SyncGroupResult
from ottla.protocol.error_codes import ErrorCode
from ottla.protocol.errors import ProtocolError


def join(update: ConsumerGroupUpdate, request: JoinRequest) -> JoinGroupResult:
    """Process the JoinGroup of a classic protocol member: add the member to the consumer group, or take it one step towards its target
    assignment. Return the response.

    Raises Rejected: INCONSISTENT_GROUP_PROTOCOL, GROUP_MAX_SIZE_REACHED, or UNKNOWN_MEMBER_ID or FENCED_INSTANCE_ID for wrong ids.
    """
    member_id = request.member_id or request.new_member_id
    _check_may_join(update, request, member_id)
    if not request.member_id and request.require_known_member_id and request.instance_id is None:
        return JoinGroupResult(error=ErrorCode.MEMBER_ID_REQUIRED, member_id=member_id)
    subscription = _subscription(request)
    holder = update.group.static_member(request.instance_id)
    replaces_consumer = holder is not None and holder.classic is None
    before = _member(update, request, member_id)
    after = replace(
        before,
        instance_id=before.instance_id if request.instance_id is None else request.instance_id,
        rack_id=subscription.rack_id or before.rack_id,
        client_id=request.client_id,
        client_host=request.client_host,
        rebalance_timeout_ms=request.rebalance_timeout_ms,
        server_assignor=None,
        topic_names=frozenset(subscription.topics),
        topic_regex="",
        classic=ClassicMember(request.session_timeout_ms, request.protocols),
    )
    changed = update.change_member(before, after, request.may_describe)
    owned = owned_of(subscription, update.topics)
    if replaces_consumer and migration.may_downgrade(update):
        member = _downgrade(update, member_id, owned, subscription_changed=changed)
    else:
        update.maybe_compute_target()
        member = update.reconcile(member_id, owned, subscription_changed=changed)
    if update.downgraded is None:
        update.deadlines.cancel(DeadlineKind.JOIN, member_id)
        update.keep_session(member)
        update.deadlines.set(DeadlineKind.SYNC, member_id, update.now.mono_ms + request.rebalance_timeout_ms)
    return JoinGroupResult(
        member_id=member_id,
        generation=member.epoch,
        protocol_type=CONSUMER_PROTOCOL_TYPE,
        protocol_name=request.protocols[0].name,
    )


def _downgrade(update: ConsumerGroupUpdate, member_id: str, owned: Assignment | None, *, subscription_changed: bool) -> ConsumerMember:
    """Convert the group to a classic group, because its last consumer protocol member, which is static, rejoins with the classic protocol.
    Return that member. If the target assignment is for the current group epoch, the member first takes one step towards it."""
    is_stale = update.group.assignment_epoch < update.group.epoch
    if not is_stale:
        update.reconcile(member_id, owned, subscription_changed=subscription_changed)
    group = update.group
    settled = all(member.is_reconciled_to(group.assignment_epoch) for member in group.members.values())
    migration.downgrade(update, has_to_rebalance=is_stale or not settled)
    return group.members[member_id]


def sync(update: ConsumerGroupUpdate, request: SyncRequest) -> SyncGroupResult:
    """Return the classic member's current assignment, which its last JoinGroup has set. Raises Rejected: REBALANCE_IN_PROGRESS if the
    member must rejoin because the target assignment has changed; another code if the ids, the generation or the protocol are wrong."""
    member = update.group.existing_member(request.member_id, request.instance_id)
    classic = _check_generation(member, request.generation)
    if request.protocol_type not in {None, CONSUMER_PROTOCOL_TYPE} or request.protocol_name not in {None, classic.protocols[0].name}:
        raise Rejected(ErrorCode.INCONSISTENT_GROUP_PROTOCOL)
    if update.group.assignment_epoch > member.epoch and member.state is not MemberState.UNREVOKED_PARTITIONS:
        _ask_to_join(update, member)
        raise Rejected(ErrorCode.REBALANCE_IN_PROGRESS)
    update.deadlines.cancel(DeadlineKind.SYNC, member.member_id)
    update.keep_session(member)
    return SyncGroupResult(
        protocol_type=request.protocol_type,
        protocol_name=request.protocol_name,
        assignment=write_assignment(member.assigned, classic.protocols[0].metadata, update.topics),
    )


def heartbeat(update: ConsumerGroupUpdate, member_id: str, instance_id: str | None, generation: int) -> ErrorCode:
    """Extend the classic member's session. Return NONE, or REBALANCE_IN_PROGRESS if the member must rejoin to take the next step towards
    its target assignment. Raises Rejected: UNKNOWN_MEMBER_ID, FENCED_INSTANCE_ID or ILLEGAL_GENERATION."""
    member = update.group.existing_member(member_id, instance_id)
    _check_generation(member, generation)
    update.keep_session(member)
    group = update.group
    has_step = (
        member.epoch < group.assignment_epoch
        or member.state is MemberState.UNREVOKED_PARTITIONS
        or (member.state is MemberState.UNRELEASED_PARTITIONS and not group.waits_for_release(member))
    )
    if not has_step:
        return ErrorCode.NONE
    _ask_to_join(update, member)
    return ErrorCode.REBALANCE_IN_PROGRESS


def leave(update: ConsumerGroupUpdate, leaving: list[LeavingMember]) -> list[ErrorCode]:
    """Remove the members that `leaving` names, and return one error code for each, in the same order. They can also be consumer protocol
    members, which an administrator removes by LeaveGroup (Kafka since 4.3).

    If this removes the last consumer protocol member, and `migration.may_downgrade` allows it, the group becomes a classic group.
    """
    of_the_consumer_protocol = {member.member_id for member in update.group.members.values() if member.classic is None}
    errors = [_leave_one(update, one) for one in leaving]
    if of_the_consumer_protocol - update.group.members.keys() and migration.may_downgrade(update):
        migration.downgrade(update, has_to_rebalance=True)
    elif ErrorCode.NONE in errors:
        update.bump_after_leave()
    return errors


def _leave_one(update: ConsumerGroupUpdate, leaving: LeavingMember) -> ErrorCode:
    holder = update.group.static_member(leaving.instance_id)
    member_id = holder.member_id if holder is not None and not leaving.member_id else leaving.member_id
    try:
        member = update.group.existing_member(member_id, leaving.instance_id)
    except Rejected as refused:
        return refused.code
    update.remove_member(member.member_id)
    return ErrorCode.NONE


def _check_may_join(update: ConsumerGroupUpdate, request: JoinRequest, member_id: str) -> None:
    group = update.group
    if not update.config.allows_classic_members:
        raise Rejected(ErrorCode.INCONSISTENT_GROUP_PROTOCOL)
    if len(group.members) >= update.config.max_size and member_id not in group.members:
        raise Rejected(ErrorCode.GROUP_MAX_SIZE_REACHED)
    if not group.supports_classic_protocols(request.protocol_type, request.protocol_names()):
        raise Rejected(ErrorCode.INCONSISTENT_GROUP_PROTOCOL)


def _subscription(request: JoinRequest) -> ConsumerProtocolSubscription:
    try:
        return read_subscription(request.protocols[0].metadata)
    except ProtocolError as error:
        raise Rejected(ErrorCode.INCONSISTENT_GROUP_PROTOCOL, str(error)) from error


def _member(update: ConsumerGroupUpdate, request: JoinRequest, member_id: str) -> ConsumerMember:
    group = update.group
    if request.instance_id is None:
        return group.members.get(member_id) or ConsumerMember(member_id=member_id)
    if request.member_id:
        return update.group.existing_member(member_id, request.instance_id)
    holder = group.static_member(request.instance_id)
    return ConsumerMember(member_id=member_id) if holder is None else update.replace_member(holder, member_id)


def _check_generation(member: ConsumerMember, generation: int) -> ClassicMember:
    if member.classic is None:
        raise Rejected(ErrorCode.UNKNOWN_MEMBER_ID, f"Member {member.member_id} does not use the classic protocol.")
    if member.epoch != generation:
        raise Rejected(ErrorCode.ILLEGAL_GENERATION)
    return member.classic


def _ask_to_join(update: ConsumerGroupUpdate, member: ConsumerMember) -> None:
    update.deadlines.set_if_absent(DeadlineKind.JOIN, member.member_id, update.now.mono_ms + member.rebalance_timeout_ms)
