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
from ottla.broker.groups.classic import ClassicGroup, ClassicOutcome, Leaving, Syncing
from ottla.broker.groups.classic_join import Joining
from ottla.broker.groups.consumer import ConsumerGroup
from ottla.broker.groups.consumer_draft import ConsumerConfig, Draft
from ottla.broker.groups.consumer_heartbeat import Heartbeat, HeartbeatResult
from ottla.broker.groups.consumer_member import JOIN_EPOCH, LEAVE_EPOCH, LEAVE_STATIC_EPOCH, MemberState
from ottla.broker.groups.deadlines import DeadlineKind
from ottla.broker.groups.group_records import GroupRecord
from ottla.broker.groups.modern_groups import ModernGroups
from ottla.broker.groups.regexes import Resolution
from ottla.broker.groups.results import Caller, JoinGroupResult, Reply, SyncGroupResult
from ottla.broker.groups.states import Now
from ottla.broker.groups.topics_view import TopicsView
from ottla.protocol.consumer_group_log import ConsumerGroupMetadataKey
from ottla.protocol.error_codes import ErrorCode

T = TypeVar("T")


class ConsumerGroups(ModernGroups[ConsumerGroup, ConsumerConfig, Draft]):
    """Operations on the consumer groups of one partition of `__consumer_offsets`: heartbeats, requests of classic protocol members,
    deadlines."""

    GROUP, DRAFT, EPOCH_KEY = ConsumerGroup, Draft, ConsumerGroupMetadataKey

    def __init__(self, groups: dict[str, Any], config_of: Callable[[str], ConsumerConfig], topics: TopicsView) -> None:
        super().__init__(groups, config_of, topics)
        self._downgraded: dict[str, bool] = {}
        """The ids of groups that the last operation converts to classic groups, with whether they must rebalance."""
        self._resolutions: dict[str, Resolution] = {}
        """By group id; a resolution stays until it has ended, so that a group has one at a time."""

    # --- operations -----------------------------------------------------------------------------------------------------------

    def heartbeat(self, beat: Heartbeat, now: Now) -> Effects[GroupRecord, tuple[HeartbeatResult, list[Reply]]]:
        """Process a ConsumerGroupHeartbeat. Return the response, and replies to pending joins and syncs of a classic group that the
        heartbeat converts. Raises Rejected."""
        consumer_heartbeat.check(beat, self._config_of(beat.group_id))
        if beat.epoch in {LEAVE_EPOCH, LEAVE_STATIC_EPOCH}:
            draft = self._draft(self.existing(beat.group_id), now)
            result = consumer_heartbeat.leave(draft, beat)
        else:
            draft = self._draft_to_join(beat, now)
            result = consumer_heartbeat.heartbeat(draft, beat)
            if isinstance(upgraded := self._groups.get(beat.group_id), ClassicGroup):
                draft.replies += upgraded.release_waiting(ErrorCode.REBALANCE_IN_PROGRESS).replies
        return self._effects(draft, (result, draft.replies))

    def join(self, group: ConsumerGroup, joining: Joining, caller: Caller, now: Now) -> Effects[GroupRecord, list[Reply]]:
        """Process the JoinGroup of a classic protocol member, in a consumer group that has members. Return the records and the reply."""
        draft = self._draft(group, now)
        try:
            result = consumer_classic.join(draft, joining)
        except Rejected as refused:
            return Effects((), [Reply(caller, JoinGroupResult(error=refused.code))])
        return self._effects(draft, [Reply(caller, result)])

    def sync(self, group: ConsumerGroup, syncing: Syncing, caller: Caller, now: Now) -> Effects[GroupRecord, list[Reply]]:
        """Process the SyncGroup of a classic protocol member. Return the reply, which has the member's assignment or an error."""
        try:
            result = consumer_classic.sync(self._draft(group, now), syncing)
        except Rejected as refused:
            result = SyncGroupResult(error=refused.code)
        return Effects((), [Reply(caller, result)])

    def heartbeat_of_classic(self, group: ConsumerGroup, member_id: str, instance_id: str | None, generation: int, now: Now) -> ErrorCode:
        """Process the heartbeat of a classic protocol member, and return its error code."""
        try:
            return consumer_classic.heartbeat(self._draft(group, now), member_id, instance_id, generation)
        except Rejected as refused:
            return refused.code

    def leave(self, group: ConsumerGroup, leaving: list[Leaving], now: Now) -> tuple[list[ErrorCode], Effects[GroupRecord, list[Reply]]]:
        """Remove members of either protocol by a LeaveGroup. Return one error code for each, and the records and replies."""
        draft = self._draft(group, now)
        errors = consumer_classic.leave(draft, leaving)
        return errors, self._effects(draft, [])

    def touch_by_commit(self, group: ConsumerGroup, member_id: str, now: Now) -> None:
        """Extend the session of a classic protocol member, which sends fewer heartbeats while it commits."""
        member = group.members.get(member_id)
        if member is not None and member.classic is not None:
            self._draft(group, now).keep_session(member)

    # --- time -----------------------------------------------------------------------------------------------------------------

    def expire(self, group: ConsumerGroup, now: Now) -> Effects[GroupRecord, list[Reply]]:
        """Remove the members whose deadlines (session, revocation, rejoin) have passed. Return the records and replies."""
        draft = self._draft(group, now)
        for due in draft.deadlines.take_due(now.mono_ms):
            member = draft.group.members.get(due.member_id)
            if member is None or draft.downgraded is not None or (due.kind is DeadlineKind.REBALANCE and due.epoch != member.epoch):
                continue
            consumer_heartbeat.fence(draft, due.member_id)
        return self._effects(draft, draft.replies)

    def on_loaded(self, group: ConsumerGroup, now: Now) -> None:
        """Start after loading: every member gets a full session, and its full time to revoke partitions."""
        draft = self._draft(group, now)
        for member in group.members.values():
            draft.keep_session(member)
            if member.classic is None and member.state is MemberState.UNREVOKED_PARTITIONS:
                draft.deadlines.set(DeadlineKind.REBALANCE, member.member_id, now.mono_ms + member.rebalance_timeout_ms, member.epoch)

    def abandon(self, group: ConsumerGroup, now: Now) -> None:
        """Recover from a failed write: restart every session and revocation deadline, because the failed operation may have removed some,
        and let the regular expressions be resolved again."""
        self._downgraded.pop(group.group_id, None)
        group.resolved_created = None
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
        """Return the records of the topics that a resolution of regular expressions has found; none if it did not run to its end or the
        group is no longer a consumer group."""
        del self._resolutions[resolution.group_id]
        group = self._groups.get(resolution.group_id)
        if not isinstance(group, ConsumerGroup) or not resolution.found:
            return Effects((), [])
        draft = self._draft(group, now)
        draft.put_resolved(resolution)
        group.resolved_created = resolution.created
        return self._effects(draft, [])

    # --- internals ------------------------------------------------------------------------------------------------------------

    def _draft_to_join(self, beat: Heartbeat, now: Now) -> Draft:
        """Return a draft (the copy on which an operation decides its changes) of the existing group, or of a new one for a joining member.
        Raises Rejected(GROUP_ID_NOT_FOUND)."""
        group = self._groups.get(beat.group_id)
        if isinstance(group, ConsumerGroup) or beat.epoch != JOIN_EPOCH:
            return self._draft(self.existing(beat.group_id), now)
        draft = self._draft(self._new(beat.group_id), now)
        if group is None:
            return draft
        if isinstance(group, ClassicGroup) and group.is_empty:
            draft.end_classic_group()
        elif isinstance(group, ClassicGroup) and migration.may_upgrade(group, draft):
            migration.upgrade(group, draft)
        else:
            self.existing(beat.group_id)
        return draft

    def _effects(self, draft: Draft, response: T) -> Effects[GroupRecord, T]:
        if draft.downgraded is not None:
            self._downgraded[draft.group_id] = draft.downgraded
        if draft.resolution is not None:
            self._resolutions.setdefault(draft.group_id, draft.resolution)
        return super()._effects(draft, response)
