"""The consumer groups among the groups of one partition of `__consumer_offsets`: part of `GroupCoordinator`.

Rules that hold here:

* An operation makes a `Draft` on the group, whose records the runtime appends; `apply` puts them into effect. What a draft refuses, it
  refuses before anything was decided.
* A group of the other kind under the same id is replaced where Kafka allows it (`migration`), in the batch of the operation that needs it.
* `after_append` does what may be done only once the records of a conversion took effect: a new classic group begins to wait for its
  members.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeVar

from ottla.broker.core.effects import Effects
from ottla.broker.core.rejected import Rejected
from ottla.broker.groups import consumer_classic, consumer_heartbeat, migration
from ottla.broker.groups.answers import JoinAnswer, Reply, SyncAnswer, Ticket
from ottla.broker.groups.classic import ClassicGroup, ClassicOutcome, Leaving, Syncing
from ottla.broker.groups.classic_join import Joining
from ottla.broker.groups.consumer import ConsumerGroup
from ottla.broker.groups.consumer_draft import ConsumerConfig, Draft
from ottla.broker.groups.consumer_heartbeat import Heartbeat, HeartbeatAnswer
from ottla.broker.groups.consumer_member import JOIN_EPOCH, LEAVE_EPOCH, LEAVE_STATIC_EPOCH, MemberState
from ottla.broker.groups.consumer_records import ConsumerGroupMetadataKey, ConsumerKey, ConsumerValue
from ottla.broker.groups.deadlines import DeadlineKind, Deadlines
from ottla.broker.groups.group_records import GroupRecord
from ottla.broker.groups.regexes import Resolution
from ottla.broker.groups.states import Now
from ottla.broker.groups.topics_view import TopicsView
from ottla.protocol.error_codes import ErrorCode

Group = ClassicGroup | ConsumerGroup
T = TypeVar("T")


class ConsumerGroups:
    """`groups` is the coordinator's table of groups of both kinds; `config_of` gives what a group, by its id, runs with now."""

    def __init__(self, groups: dict[str, Group], config_of: Callable[[str], ConsumerConfig], topics: TopicsView) -> None:
        self._groups = groups
        self._config_of = config_of
        self._topics = topics
        self.deadlines: dict[str, Deadlines] = {}
        """By group id; a group that is gone, or was refused before it began, has none."""
        self._downgraded: dict[str, bool] = {}
        """Groups that the last operation made classic ones; whether they have to rebalance."""
        self._resolutions: dict[str, Resolution] = {}
        """By group id; one stays until it has ended, so that a group has one at a time."""

    # --- operations -----------------------------------------------------------------------------------------------------------

    def heartbeat(self, beat: Heartbeat, now: Now) -> Effects[GroupRecord, tuple[HeartbeatAnswer, list[Reply]]]:
        """The answer, and whom else to answer: members of a classic group that the heartbeat converts. Raises Rejected."""
        consumer_heartbeat.check(beat, self._config_of(beat.group_id))
        if beat.epoch in {LEAVE_EPOCH, LEAVE_STATIC_EPOCH}:
            draft = self._draft(self._existing(beat.group_id), now)
            answer = consumer_heartbeat.leave(draft, beat)
        else:
            draft = self._draft_to_join(beat, now)
            answer = consumer_heartbeat.heartbeat(draft, beat)
            if isinstance(upgraded := self._groups.get(beat.group_id), ClassicGroup):
                draft.replies += upgraded.release_waiting(ErrorCode.REBALANCE_IN_PROGRESS).replies
        return self._effects(draft, (answer, draft.replies))

    def join(self, group: ConsumerGroup, joining: Joining, ticket: Ticket, now: Now) -> Effects[GroupRecord, list[Reply]]:
        """A member of the classic protocol joins a group that has members."""
        draft = self._draft(group, now)
        try:
            answer = consumer_classic.join(draft, joining)
        except Rejected as refused:
            return Effects((), [Reply(ticket, JoinAnswer(error=refused.code))])
        return self._effects(draft, [Reply(ticket, answer)])

    def sync(self, group: ConsumerGroup, syncing: Syncing, ticket: Ticket, now: Now) -> Effects[GroupRecord, list[Reply]]:
        """A member of the classic protocol fetches its assignment."""
        try:
            answer = consumer_classic.sync(self._draft(group, now), syncing)
        except Rejected as refused:
            answer = SyncAnswer(error=refused.code)
        return Effects((), [Reply(ticket, answer)])

    def heartbeat_of_classic(self, group: ConsumerGroup, member_id: str, instance_id: str | None, generation: int, now: Now) -> ErrorCode:
        """A member of the classic protocol shows that it lives."""
        try:
            return consumer_classic.heartbeat(self._draft(group, now), member_id, instance_id, generation)
        except Rejected as refused:
            return refused.code

    def leave(self, group: ConsumerGroup, leaving: list[Leaving], now: Now) -> tuple[list[ErrorCode], Effects[GroupRecord, list[Reply]]]:
        """Members of either protocol leave by a LeaveGroup."""
        draft = self._draft(group, now)
        errors = consumer_classic.leave(draft, leaving)
        return errors, self._effects(draft, [])

    def touch_by_commit(self, group: ConsumerGroup, member_id: str, now: Now) -> None:
        """An offset commit keeps the session of a member of the classic protocol, which sends fewer heartbeats while it commits."""
        member = group.members.get(member_id)
        if member is not None and member.classic is not None:
            self._draft(group, now).keep_session(member)

    # --- time -----------------------------------------------------------------------------------------------------------------

    def next_deadline(self, group_id: str) -> int | None:
        deadlines = self.deadlines.get(group_id)
        return None if deadlines is None else deadlines.next_ms

    def expire(self, group: ConsumerGroup, now: Now) -> Effects[GroupRecord, list[Reply]]:
        """Put out whose deadline has come."""
        draft = self._draft(group, now)
        for due in draft.deadlines.take_due(now.mono_ms):
            member = draft.group.members.get(due.member_id)
            if member is None or draft.downgraded is not None or (due.kind is DeadlineKind.REBALANCE and due.epoch != member.epoch):
                continue
            consumer_heartbeat.fence(draft, due.member_id)
        return self._effects(draft, draft.replies)

    def on_loaded(self, group: ConsumerGroup, now: Now) -> None:
        """The log was read back: every member has a full session, and its full time to give back what it has to."""
        draft = self._draft(group, now)
        for member in group.members.values():
            draft.keep_session(member)
            if member.classic is None and member.state is MemberState.UNREVOKED_PARTITIONS:
                draft.deadlines.set(DeadlineKind.REBALANCE, member.member_id, now.mono_ms + member.rebalance_timeout_ms, member.epoch)

    def abandon(self, group: ConsumerGroup, now: Now) -> None:
        """Nothing that was decided took effect: members whose time was up are looked at again."""
        self._downgraded.pop(group.group_id, None)
        group.resolved_created = None
        draft = self._draft(group, now)
        for member in group.members.values():
            if draft.deadlines.get(DeadlineKind.SESSION, member.member_id) is None:
                draft.keep_session(member)

    def after_append(self, group_id: str, now: Now) -> list[Reply]:
        """What the last operation decided is in the log."""
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
        """Return a resolution that the group is due, once. The caller runs it and ends it by `end_resolution`."""
        resolution = self._resolutions.get(group_id)
        return resolution if resolution is not None and resolution.start() else None

    def end_resolution(self, resolution: Resolution, now: Now) -> Effects[GroupRecord, list[Reply]]:
        """Take what a resolution has found, if it has ended and there is still such a group."""
        del self._resolutions[resolution.group_id]
        group = self._groups.get(resolution.group_id)
        if not isinstance(group, ConsumerGroup) or not resolution.found:
            return Effects((), [])
        draft = self._draft(group, now)
        draft.put_resolved(resolution)
        group.resolved_created = resolution.created
        return self._effects(draft, [])

    # --- persistence ----------------------------------------------------------------------------------------------------------

    def apply(self, key: ConsumerKey, value: ConsumerValue | None) -> None:
        """A record of a consumer group. A value makes the group, in the place of a classic one that only stored offsets."""
        group = self._groups.get(key.group)
        ended = value is None and isinstance(key, ConsumerGroupMetadataKey)
        if ended:
            self.deadlines.pop(key.group, None)
        if value is not None and not isinstance(group, ConsumerGroup):
            group = self._groups[key.group] = ConsumerGroup(key.group)
        if not isinstance(group, ConsumerGroup):
            return
        group.apply(key, value)
        if ended:
            del self._groups[key.group]

    # --- the leaves -----------------------------------------------------------------------------------------------------------

    def _draft(self, group: ConsumerGroup, now: Now) -> Draft:
        """What it decides counts only when `_effects` was told, or when the group is there already."""
        deadlines = self.deadlines.get(group.group_id) or Deadlines()
        if self._groups.get(group.group_id) is group:
            self.deadlines[group.group_id] = deadlines
        return Draft(group, deadlines, self._topics, self._config_of(group.group_id), now)

    def _existing(self, group_id: str) -> ConsumerGroup:
        group = self._groups.get(group_id)
        if not isinstance(group, ConsumerGroup):
            kind = "not found" if group is None else "not a consumer group"
            raise Rejected(ErrorCode.GROUP_ID_NOT_FOUND, f"Group {group_id} is {kind}." if group else f"Group {group_id} {kind}.")
        return group

    def _draft_to_join(self, beat: Heartbeat, now: Now) -> Draft:
        """On the group there is; for a member that joins, on a new one if need be."""
        group = self._groups.get(beat.group_id)
        if isinstance(group, ConsumerGroup) or beat.epoch != JOIN_EPOCH:
            return self._draft(self._existing(beat.group_id), now)
        draft = self._draft(ConsumerGroup(beat.group_id), now)
        if group is None:
            return draft
        if group.is_empty:
            draft.end_classic_group()
        elif migration.may_upgrade(group, draft):
            migration.upgrade(group, draft)
        else:
            self._existing(beat.group_id)
        return draft

    def _effects(self, draft: Draft, response: T) -> Effects[GroupRecord, T]:
        if draft.downgraded is not None:
            self._downgraded[draft.group_id] = draft.downgraded
        self.deadlines[draft.group_id] = draft.deadlines
        if draft.resolution is not None:
            self._resolutions.setdefault(draft.group_id, draft.resolution)
        return Effects(draft.records, response)
