"""The consumer groups of one partition of `__consumer_offsets`.

Invariants, besides those of `modern_groups`:

* If a member joins with the other protocol type, the group with the same id is converted or replaced where Kafka allows it (`migration`),
  in the record batch of that join.
* When a conversion to a classic group is in the log, `after_append` starts the members' sessions, and the rebalance if one is needed.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar

from ottla.broker.core.effects import Effects
from ottla.broker.core.rejected import Rejected
from ottla.broker.groups import consumer_classic, consumer_heartbeat, migration
from ottla.broker.groups.classic import ClassicGroup, ClassicOutcome, LeavingMember, SyncRequest
from ottla.broker.groups.classic_join import JoinRequest
from ottla.broker.groups.consumer import ConsumerGroup
from ottla.broker.groups.consumer_group_update import ConsumerConfig, ConsumerGroupUpdate
from ottla.broker.groups.consumer_heartbeat import Heartbeat, HeartbeatResult
from ottla.broker.groups.consumer_member import JOIN_EPOCH, LEAVE_EPOCH, LEAVE_STATIC_EPOCH, MemberState
from ottla.broker.groups.deadlines import DeadlineKind
from ottla.broker.groups.group_records import GroupRecord
from ottla.broker.groups.modern_groups import ModernGroups
from ottla.broker.groups.regexes import Resolution
from ottla.broker.groups.results import JoinGroupResult, PendingRequestKey, Reply, SyncGroupResult
from ottla.broker.groups.states import Now
from ottla.broker.groups.topics_view import TopicsView
from ottla.protocol.consumer_group_log import ConsumerGroupMetadataKey
from ottla.protocol.error_codes import ErrorCode

T = TypeVar("T")


class ConsumerGroups(ModernGroups[ConsumerGroup, ConsumerConfig, ConsumerGroupUpdate]):
    """Operations on the consumer groups of one partition of `__consumer_offsets`: heartbeats, requests of classic protocol members,
    deadlines."""

    GROUP, UPDATE, EPOCH_KEY = ConsumerGroup, ConsumerGroupUpdate, ConsumerGroupMetadataKey

    def __init__(self, groups: dict[str, Any], config_of: Callable[[str], ConsumerConfig], topics: TopicsView) -> None:
        super().__init__(groups, config_of, topics)
        self._downgraded: dict[str, bool] = {}
        """The groups that the last operation converts to classic groups: by group id, whether the classic group must rebalance.
        `after_append` removes them.
        """
        self._resolutions: dict[str, Resolution] = {}
        """By group id, the planned or running resolution of the group's regular expressions. It stays here until it has ended, so that a
        group has one at a time.
        """

    # --- operations -----------------------------------------------------------------------------------------------------------

    def heartbeat(self, beat: Heartbeat, now: Now) -> Effects[GroupRecord, tuple[HeartbeatResult, list[Reply]]]:
        """Process a ConsumerGroupHeartbeat. Return the records, the response, and the replies to pending joins and syncs of a classic group
        that the heartbeat converts. Raises Rejected with the error code of the response."""
        consumer_heartbeat.check(beat, self._config_of(beat.group_id))
        if beat.epoch in {LEAVE_EPOCH, LEAVE_STATIC_EPOCH}:
            update = self._begin_update(self.existing(beat.group_id), now)
            result = consumer_heartbeat.leave(update, beat)
        else:
            update = self._begin_heartbeat_update(beat, now)
            result = consumer_heartbeat.heartbeat(update, beat)
            if isinstance(upgraded := self._groups.get(beat.group_id), ClassicGroup):
                update.replies += upgraded.fail_all_pending_requests(ErrorCode.REBALANCE_IN_PROGRESS).replies
        return self._effects(update, (result, update.replies))

    def join(
        self, group: ConsumerGroup, request: JoinRequest, request_key: PendingRequestKey, now: Now
    ) -> Effects[GroupRecord, list[Reply]]:
        """Process the JoinGroup of a classic protocol member, in a consumer group that has members. Return the records and the reply."""
        update = self._begin_update(group, now)
        try:
            result = consumer_classic.join(update, request)
        except Rejected as refused:
            return Effects((), [Reply(request_key, JoinGroupResult(error=refused.code))])
        return self._effects(update, [Reply(request_key, result)])

    def sync(
        self, group: ConsumerGroup, request: SyncRequest, request_key: PendingRequestKey, now: Now
    ) -> Effects[GroupRecord, list[Reply]]:
        """Process the SyncGroup of a classic protocol member. Return the reply, which has the member's assignment or an error."""
        try:
            result = consumer_classic.sync(self._begin_update(group, now), request)
        except Rejected as refused:
            result = SyncGroupResult(error=refused.code)
        return Effects((), [Reply(request_key, result)])

    def heartbeat_of_classic(self, group: ConsumerGroup, member_id: str, instance_id: str | None, generation: int, now: Now) -> ErrorCode:
        """Process the Heartbeat (not ConsumerGroupHeartbeat) of a classic protocol member in a consumer group, and return its error
        code."""
        try:
            return consumer_classic.heartbeat(self._begin_update(group, now), member_id, instance_id, generation)
        except Rejected as refused:
            return refused.code

    def leave(
        self, group: ConsumerGroup, leaving: list[LeavingMember], now: Now
    ) -> tuple[list[ErrorCode], Effects[GroupRecord, list[Reply]]]:
        """Process a LeaveGroup, which can remove members of either protocol. Return an error code for each member in `leaving`, and the
        records to append."""
        update = self._begin_update(group, now)
        errors = consumer_classic.leave(update, leaving)
        return errors, self._effects(update, [])

    def extend_session_by_commit(self, group: ConsumerGroup, member_id: str, now: Now) -> None:
        """Extend the session of a member that commits offsets, if it uses the classic protocol: such a member sends fewer heartbeats while
        it commits."""
        member = group.members.get(member_id)
        if member is not None and member.classic is not None:
            self._begin_update(group, now).keep_session(member)

    # --- time -----------------------------------------------------------------------------------------------------------------

    def expire(self, group: ConsumerGroup, now: Now) -> Effects[GroupRecord, list[Reply]]:
        """Remove the members whose deadlines (session, revocation, rejoin) have passed. Return the records and replies."""
        update = self._begin_update(group, now)
        for due in update.deadlines.take_due(now.mono_ms):
            member = update.group.members.get(due.member_id)
            if member is None or update.downgraded is not None or (due.kind is DeadlineKind.REBALANCE and due.epoch != member.epoch):
                continue
            consumer_heartbeat.fence(update, due.member_id)
        return self._effects(update, update.replies)

    def on_loaded(self, group: ConsumerGroup, now: Now) -> None:
        """Start the members' timers after the group was loaded from the log: every member gets a full session, and its full time to revoke
        partitions.
        """
        update = self._begin_update(group, now)
        for member in group.members.values():
            update.keep_session(member)
            if member.classic is None and member.state is MemberState.UNREVOKED_PARTITIONS:
                update.deadlines.set(DeadlineKind.REBALANCE, member.member_id, now.mono_ms + member.rebalance_timeout_ms, member.epoch)

    def on_write_failed(self, group: ConsumerGroup, now: Now) -> None:
        """Recover from a failed write: restart every session and revocation deadline, because the failed operation may have removed some,
        and let the regular expressions be resolved again."""
        self._downgraded.pop(group.group_id, None)
        group.creation_version_at_resolution = None
        self.on_loaded(group, now)

    def after_append(self, group_id: str, now: Now) -> list[Reply]:
        """If the last operation converted this group to a classic one, start its members' sessions and, if needed, a rebalance. Return the
        replies to send."""
        has_to_rebalance = self._downgraded.pop(group_id, None)
        group = self._groups.get(group_id)
        outcome = ClassicOutcome()
        if has_to_rebalance is not None and isinstance(group, ClassicGroup):
            for member in group.members:
                group.reset_session(member, now)
            if has_to_rebalance:
                group.prepare_rebalance(now, outcome)
        return outcome.replies

    # --- regular expressions --------------------------------------------------------------------------------------------------

    def next_resolution(self, group_id: str) -> Resolution | None:
        """Return the group's planned resolution of regular expressions, or None if there is none or it was returned before. The caller runs
        it and then calls `end_resolution`."""
        resolution = self._resolutions.get(group_id)
        return resolution if resolution is not None and resolution.start() else None

    def end_resolution(self, resolution: Resolution, now: Now) -> Effects[GroupRecord, list[Reply]]:
        """Remove a resolution of regular expressions that has ended. Return the records of the topics that it found; no records if it did
        not run to its end or the group is no longer a consumer group."""
        del self._resolutions[resolution.group_id]
        group = self._groups.get(resolution.group_id)
        if not isinstance(group, ConsumerGroup) or not resolution.found:
            return Effects((), [])
        update = self._begin_update(group, now)
        update.put_resolved(resolution)
        group.creation_version_at_resolution = resolution.creation_version
        return self._effects(update, [])

    # --- internals ------------------------------------------------------------------------------------------------------------

    def _begin_heartbeat_update(self, beat: Heartbeat, now: Now) -> ConsumerGroupUpdate:
        """Return an update (the operation that decides changes on a copy) of the existing group, or of a new one for a joining member.
        Raises Rejected(GROUP_ID_NOT_FOUND) if a member that is not joining names no consumer group, or if the id belongs to a group that
        cannot be converted."""
        group = self._groups.get(beat.group_id)
        if isinstance(group, ConsumerGroup) or beat.epoch != JOIN_EPOCH:
            return self._begin_update(self.existing(beat.group_id), now)
        update = self._begin_update(self._new(beat.group_id), now)
        if group is None:
            return update
        if isinstance(group, ClassicGroup) and group.is_empty:
            update.end_classic_group()
        elif isinstance(group, ClassicGroup) and migration.may_upgrade(group, update):
            migration.upgrade(group, update)
        else:
            self.existing(beat.group_id)
        return update

    def _effects(self, update: ConsumerGroupUpdate, response: T) -> Effects[GroupRecord, T]:
        if update.downgraded is not None:
            self._downgraded[update.group_id] = update.downgraded
        if update.resolution is not None:
            self._resolutions.setdefault(update.group_id, update.resolution)
        return super()._effects(update, response)
