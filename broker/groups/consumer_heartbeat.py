"""ConsumerGroupHeartbeat: the single request with which a member joins, stays and leaves.

Invariants:

* A member joins with epoch 0, stays with a positive epoch, and leaves with -1. A static member leaves temporarily with -2. A field that is
  absent has not changed.
* A member with the epoch before its current one is accepted if it owns only partitions assigned to it: the response with the new epoch was
  lost. Any other wrong epoch fences the member, which must rejoin without partitions.
* A member that rejoins under its id, because it was fenced or missed the response, owns nothing and gets its assignment again.
* An instance id has one live member. Another member can join with this instance id after the first has left with -2; it gets the assignment
  of the first.

Source: Kafka's GroupCoordinatorService.throwIfConsumerGroupHeartbeatRequestIsInvalid, GroupMetadataManager.consumerGroupHeartbeat,
consumerGroupLeave, consumerGroupFenceMember (4.3).
"""

from __future__ import annotations

from dataclasses import dataclass, replace

from ottla.broker.core.rejected import Rejected
from ottla.broker.groups import migration
from ottla.broker.groups.consumer_group_update import ConsumerConfig, ConsumerGroupUpdate
from ottla.broker.groups.consumer_member import JOIN_EPOCH, LEAVE_EPOCH, LEAVE_STATIC_EPOCH, Assignment, ConsumerMember
from ottla.broker.groups.deadlines import DeadlineKind
from ottla.broker.groups.reconciliation import is_subset
from ottla.broker.groups.topics_view import MayDescribe, every_topic
from ottla.protocol.error_codes import ErrorCode

ID_BYTES_MAX = 32_767
"""The maximum size in bytes of a group id, member id or regular expression, because record keys of `__consumer_offsets` store its length in
a signed 16-bit field.
"""
_TRIMMED = "".join(map(chr, range(0x21)))


@dataclass(frozen=True, slots=True, kw_only=True)
class Heartbeat:
    """A ConsumerGroupHeartbeat request, independent of its version. A field that is None (the rebalance timeout: -1) has not changed.
    `owned` are the partitions that the member says it owns."""

    group_id: str
    member_id: str
    epoch: int
    instance_id: str | None = None
    rack_id: str | None = None
    client_id: str = ""
    client_host: str = ""
    rebalance_timeout_ms: int = -1
    topic_names: frozenset[str] | None = None
    topic_regex: str | None = None
    server_assignor: str | None = None
    owned: Assignment | None = None
    requires_member_id: bool = True
    may_describe: MayDescribe = every_topic

    @property
    def is_full(self) -> bool:
        """Whether the request has all fields, as clients send it when they join and after an error. The response then has the assignment,
        changed or not."""
        has_subscription = self.topic_names is not None or self.topic_regex is not None
        return self.epoch == JOIN_EPOCH or (self.rebalance_timeout_ms != -1 and has_subscription and self.owned is not None)


@dataclass(frozen=True, slots=True, kw_only=True)
class HeartbeatResult:
    """The response to a ConsumerGroupHeartbeat: the member's id and epoch. `assignment` is None if it has not changed since the last
    response."""

    member_id: str
    epoch: int
    heartbeat_interval_ms: int = 0
    assignment: Assignment | None = None


def check(beat: Heartbeat, config: ConsumerConfig) -> None:
    """Raise Rejected if a field of the heartbeat is invalid by itself, whatever the group's state: INVALID_REQUEST, or UNSUPPORTED_ASSIGNOR
    for an assignor that is not configured."""
    invalid = _fault(beat)
    if invalid is not None:
        raise Rejected(ErrorCode.INVALID_REQUEST, invalid)
    if beat.server_assignor is not None and beat.server_assignor not in config.assignors:
        supported = ", ".join(config.assignors)
        raise Rejected(
            ErrorCode.UNSUPPORTED_ASSIGNOR, f"ServerAssignor {beat.server_assignor} is not supported. Supported assignors: {supported}."
        )


def is_empty(value: str | None) -> bool:
    """Return whether the string is empty after Java's String.trim; False for None (the field is absent)."""
    return value is not None and not value.strip(_TRIMMED)


def _fault(beat: Heartbeat) -> str | None:
    if is_empty(beat.member_id) and (beat.requires_member_id or beat.epoch > 0 or beat.epoch == LEAVE_EPOCH):
        return "MemberId can't be empty."
    for name, value in (("GroupId", beat.group_id), ("InstanceId", beat.instance_id), ("RackId", beat.rack_id)):
        if is_empty(value):
            return f"{name} can't be empty."
    for name, value in (("GroupId", beat.group_id), ("MemberId", beat.member_id), ("SubscribedTopicRegex", beat.topic_regex)):
        if value is not None and len(value.encode()) > ID_BYTES_MAX:
            return f"{name} is longer than {ID_BYTES_MAX} bytes."
    if beat.epoch == JOIN_EPOCH:
        if beat.rebalance_timeout_ms == -1:
            return "RebalanceTimeoutMs must be provided in first request."
        if beat.owned is None or beat.owned:
            return "TopicPartitions must be empty when (re-)joining."
        if beat.topic_names is None and beat.topic_regex is None:
            return "Either SubscribedTopicNames or SubscribedTopicRegex must be non-null when (re-)joining."
    elif beat.epoch == LEAVE_STATIC_EPOCH:
        if beat.instance_id is None:
            return "InstanceId can't be null."
    elif beat.epoch < LEAVE_STATIC_EPOCH:
        return "MemberEpoch is invalid."
    return None


def heartbeat(update: ConsumerGroupUpdate, beat: Heartbeat) -> HeartbeatResult:
    """Process a heartbeat with an epoch of 0 (join) or above (stay), and return the response.

    Raises Rejected: GROUP_MAX_SIZE_REACHED, UNKNOWN_MEMBER_ID, FENCED_MEMBER_EPOCH, UNRELEASED_INSTANCE_ID or FENCED_INSTANCE_ID for static
    members, or INVALID_REGULAR_EXPRESSION.
    """
    group = update.group
    if len(group.members) >= update.config.max_size and beat.member_id not in group.members:
        raise Rejected(
            ErrorCode.GROUP_MAX_SIZE_REACHED, f"The consumer group has reached its maximum capacity of {update.config.max_size} members."
        )
    before = _member(update, beat)
    after = _changed(before, beat)
    changed = update.change_member(before, after, beat.may_describe)
    update.maybe_compute_target()
    member = update.reconcile(beat.member_id, beat.owned, subscription_changed=changed)
    update.keep_session(member)
    tells = beat.is_full or member.assigned != before.assigned
    return HeartbeatResult(
        member_id=beat.member_id,
        epoch=member.epoch,
        heartbeat_interval_ms=update.config.heartbeat_interval_ms,
        assignment=member.assigned if tells else None,
    )


def leave(update: ConsumerGroupUpdate, beat: Heartbeat) -> HeartbeatResult:
    """Process a heartbeat with epoch -1 (remove the member) or -2 (a static member leaves temporarily), and return the response. Raises
    Rejected(UNKNOWN_MEMBER_ID or FENCED_INSTANCE_ID)."""
    member = update.group.existing_member(beat.member_id, beat.instance_id)
    if beat.epoch == LEAVE_STATIC_EPOCH:
        update.put_assignment(replace(member, epoch=LEAVE_STATIC_EPOCH, pending_revocation={}))
        update.deadlines.cancel(DeadlineKind.REBALANCE, member.member_id)
    else:
        fence(update, member.member_id)
    return HeartbeatResult(member_id=beat.member_id, epoch=beat.epoch)


def fence(update: ConsumerGroupUpdate, member_id: str) -> None:
    """Remove a member, because it left or missed a deadline. If it was the last consumer protocol member, and `migration.may_downgrade`
    allows it, the remaining members become a classic group."""
    spoke_classic = update.group.members[member_id].classic is not None
    update.remove_member(member_id)
    if not spoke_classic and migration.may_downgrade(update):
        migration.downgrade(update, has_to_rebalance=True)
    else:
        update.bump_after_leave()


def _member(update: ConsumerGroupUpdate, beat: Heartbeat) -> ConsumerMember:
    """Return the member as it was before this heartbeat. A new member has only an id; a static member that returns under a new id has its
    former assignment. Raises Rejected: UNKNOWN_MEMBER_ID, FENCED_MEMBER_EPOCH for a wrong epoch, or UNRELEASED_INSTANCE_ID or
    FENCED_INSTANCE_ID if another member has the instance id."""
    group = update.group
    if beat.epoch != JOIN_EPOCH:
        member = update.group.existing_member(beat.member_id, beat.instance_id)
        _check_epoch(member, beat)
        return member
    if beat.instance_id is None:
        return group.members.get(beat.member_id) or ConsumerMember(member_id=beat.member_id)
    holder = group.static_member(beat.instance_id)
    if holder is None:
        return group.members.get(beat.member_id) or ConsumerMember(member_id=beat.member_id)
    if holder.classic is None and holder.epoch != LEAVE_STATIC_EPOCH:
        raise Rejected(
            ErrorCode.UNRELEASED_INSTANCE_ID,
            f"Static member {beat.member_id} with instance id {beat.instance_id} cannot join the group because the instance id is owned by "
            f"{holder.member_id} member.",
        )
    return update.replace_member(holder, beat.member_id)


def _check_epoch(member: ConsumerMember, beat: Heartbeat) -> None:
    if beat.epoch == member.epoch:
        return
    if beat.epoch < member.epoch and beat.epoch == member.previous_epoch and is_subset(beat.owned, member.assigned):
        return
    order = "greater" if beat.epoch > member.epoch else "smaller"
    raise Rejected(
        ErrorCode.FENCED_MEMBER_EPOCH,
        f"The consumer group member has a {order} member epoch ({beat.epoch}) than the one known by the group coordinator "
        f"({member.epoch}). The member must abandon all its partitions and rejoin.",
    )


def _changed(member: ConsumerMember, beat: Heartbeat) -> ConsumerMember:
    """Return `member` with the fields that the heartbeat changes, as a member of the consumer protocol."""
    return replace(
        member,
        instance_id=member.instance_id if beat.instance_id is None else beat.instance_id,
        rack_id=member.rack_id if beat.rack_id is None else beat.rack_id,
        client_id=beat.client_id,
        client_host=beat.client_host,
        rebalance_timeout_ms=member.rebalance_timeout_ms if beat.rebalance_timeout_ms == -1 else beat.rebalance_timeout_ms,
        server_assignor=member.server_assignor if beat.server_assignor is None else beat.server_assignor,
        topic_names=member.topic_names if beat.topic_names is None else beat.topic_names,
        topic_regex=member.topic_regex if beat.topic_regex is None else beat.topic_regex,
        classic=None,
    )
