"""ShareGroupHeartbeat: the single request with which a member joins, stays in and leaves a share group.

Invariants:

* A member joins with epoch 0, stays with a positive epoch, and leaves with -1. A field that is absent has not changed.
* A member with the epoch before its current one is accepted, because the response with the new epoch may have been lost. Any other wrong
  epoch fences the member, which must rejoin.

Source: Kafka's GroupCoordinatorService.throwIfShareGroupHeartbeatRequestIsInvalid, GroupMetadataManager.shareGroupHeartbeat,
shareGroupLeave, shareGroupFenceMember (4.3).
"""

from __future__ import annotations

from dataclasses import dataclass, replace

from ottla.broker.core.rejected import Rejected
from ottla.broker.groups.consumer_heartbeat import ID_BYTES_MAX, HeartbeatResult, is_empty
from ottla.broker.groups.consumer_member import JOIN_EPOCH, LEAVE_EPOCH
from ottla.broker.groups.deadlines import DeadlineKind
from ottla.broker.groups.share_group import ShareMember
from ottla.broker.groups.share_group_update import ShareGroupUpdate
from ottla.protocol.error_codes import ErrorCode


@dataclass(frozen=True, slots=True, kw_only=True)
class ShareHeartbeat:
    """A ShareGroupHeartbeat request, independent of its version. A field that is None has not changed."""

    group_id: str
    member_id: str
    epoch: int
    rack_id: str | None = None
    client_id: str = ""
    client_host: str = ""
    topic_names: frozenset[str] | None = None


def check(beat: ShareHeartbeat) -> None:
    """Raise Rejected(INVALID_REQUEST) if a field of the heartbeat is invalid by itself, whatever the group's state."""
    for name, value in (("MemberId", beat.member_id), ("GroupId", beat.group_id), ("RackId", beat.rack_id)):
        if is_empty(value):
            raise Rejected(ErrorCode.INVALID_REQUEST, f"{name} can't be empty.")
    if len(beat.group_id.encode()) > ID_BYTES_MAX:
        raise Rejected(ErrorCode.INVALID_REQUEST, f"GroupId is longer than {ID_BYTES_MAX} bytes.")
    if beat.epoch == JOIN_EPOCH and not beat.topic_names:
        raise Rejected(ErrorCode.INVALID_REQUEST, "SubscribedTopicNames must be set in first request.")
    if beat.epoch < LEAVE_EPOCH:
        raise Rejected(ErrorCode.INVALID_REQUEST, "MemberEpoch is invalid.")


def heartbeat(update: ShareGroupUpdate, beat: ShareHeartbeat) -> HeartbeatResult:
    """Process a heartbeat with an epoch of 0 (join) or above (stay), and return the response. Raises Rejected: GROUP_MAX_SIZE_REACHED,
    UNKNOWN_MEMBER_ID, or FENCED_MEMBER_EPOCH for a wrong epoch."""
    members = update.group.members
    if len(members) >= update.config.max_size and beat.member_id not in members:
        raise Rejected(
            ErrorCode.GROUP_MAX_SIZE_REACHED, f"The share group has reached its maximum capacity of {update.config.max_size} members."
        )
    before = members.get(beat.member_id) or ShareMember(member_id=beat.member_id)
    if beat.epoch != JOIN_EPOCH:
        before = update.group.existing_member(beat.member_id)
        _check_epoch(before, beat.epoch)
    after = replace(
        before,
        rack_id=before.rack_id if beat.rack_id is None else beat.rack_id,
        client_id=beat.client_id,
        client_host=beat.client_host,
        topic_names=before.topic_names if beat.topic_names is None else beat.topic_names,
    )
    epoch_bumped = update.change_member(before, after)
    update.maybe_compute_target()
    member = update.reconcile(beat.member_id, epoch_bumped=epoch_bumped)
    update.start_session(member.member_id, update.config.session_timeout_ms)
    tells = beat.epoch == JOIN_EPOCH or beat.topic_names is not None or member.assigned != before.assigned
    return HeartbeatResult(
        member_id=beat.member_id,
        epoch=member.epoch,
        heartbeat_interval_ms=update.config.heartbeat_interval_ms,
        assignment=member.assigned if tells else None,
    )


def leave(update: ShareGroupUpdate, member_id: str) -> HeartbeatResult:
    """Remove the member from the share group, and return the response. Raises Rejected(UNKNOWN_MEMBER_ID)."""
    fence(update, update.group.existing_member(member_id).member_id)
    return HeartbeatResult(member_id=member_id, epoch=LEAVE_EPOCH)


def fence(update: ShareGroupUpdate, member_id: str) -> None:
    """Remove a member from the share group, because its session has expired or it left."""
    update.remove_member(member_id)
    update.bump_after_leave()
    update.deadlines.cancel(DeadlineKind.SESSION, member_id)


def _check_epoch(member: ShareMember, epoch: int) -> None:
    if epoch > member.epoch:
        raise Rejected(
            ErrorCode.FENCED_MEMBER_EPOCH,
            f"The share group member has a greater member epoch ({epoch}) than the one known by the group coordinator ({member.epoch}). "
            "The member must abandon all its partitions and rejoin.",
        )
    if epoch < member.epoch and epoch != member.previous_epoch:
        raise Rejected(
            ErrorCode.FENCED_MEMBER_EPOCH,
            f"The share group member has a smaller member epoch ({epoch}) than the one known by the group coordinator ({member.epoch}), "
            f"and it does not match the previous member epoch ({member.previous_epoch}). The member must abandon all its partitions and "
            "rejoin.",
        )
