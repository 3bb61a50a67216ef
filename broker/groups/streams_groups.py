"""The streams groups of one partition of `__consumer_offsets`.

Invariants, besides those of `modern_groups`:

* A streams group replaces a classic group without members, and a classic group replaces a streams group without members; their offsets
  stay. No other group becomes a streams group, and no streams group becomes another.
* A new group delays its first target assignment by group.streams.initial.rebalance.delay.ms, so that more members can join. `expire`
  computes it when that delay has passed.

Source: Kafka's GroupMetadataManager (streams groups).
"""

from __future__ import annotations

from ottla.broker.core.effects import Effects
from ottla.broker.core.rejected import Rejected
from ottla.broker.groups import streams_heartbeat
from ottla.broker.groups.classic import ClassicGroup
from ottla.broker.groups.consumer_member import JOIN_EPOCH, LEAVE_EPOCH, LEAVE_STATIC_EPOCH
from ottla.broker.groups.deadlines import DeadlineKind
from ottla.broker.groups.group_records import GroupRecord
from ottla.broker.groups.modern_groups import ModernGroups
from ottla.broker.groups.results import Reply
from ottla.broker.groups.states import Now
from ottla.broker.groups.streams_group import StreamsGroup
from ottla.broker.groups.streams_group_update import StreamsConfig, StreamsGroupUpdate
from ottla.broker.groups.streams_heartbeat import StreamsHeartbeatResult
from ottla.protocol.error_codes import ErrorCode
from ottla.protocol.messages.k88_streams_group_heartbeat import StreamsGroupHeartbeatRequest
from ottla.protocol.streams_group_log import StreamsGroupMetadataKey


class StreamsGroups(ModernGroups[StreamsGroup, StreamsConfig, StreamsGroupUpdate]):
    """Operations on the streams groups of one partition of `__consumer_offsets`."""

    GROUP, UPDATE, EPOCH_KEY = StreamsGroup, StreamsGroupUpdate, StreamsGroupMetadataKey

    def heartbeat(
        self, beat: StreamsGroupHeartbeatRequest, client_id: str, client_host: str, now: Now
    ) -> Effects[GroupRecord, StreamsHeartbeatResult]:
        """Process a heartbeat, with which a member joins, stays in or leaves a group. Return the records and the response. Raises Rejected
        with the error code of the response."""
        streams_heartbeat.check(beat, has_4_4_features=self._config_of(beat.group_id).has_4_4_features)
        if beat.member_epoch in {LEAVE_EPOCH, LEAVE_STATIC_EPOCH}:
            update = self._begin_update(self.existing(beat.group_id), now)
            return self._effects(update, streams_heartbeat.leave(update, beat))
        update = self._begin_heartbeat_update(beat, now)
        exists = update.original_group is self._groups.get(beat.group_id)
        return self._effects(update, streams_heartbeat.heartbeat(update, beat, client_id, client_host, exists=exists))

    def expire(self, group: StreamsGroup, now: Now) -> Effects[GroupRecord, list[Reply]]:
        """Remove the members whose deadlines have passed. If the initial rebalance delay has ended, compute the first target assignment."""
        update = self._begin_update(group, now)
        for due in update.deadlines.take_due(now.mono_ms):
            member = update.group.members.get(due.member_id)
            if due.kind is DeadlineKind.INITIAL_REBALANCE:
                if update.group.members and update.original_group.configured is not None:
                    update.maybe_compute_target()
            elif member is not None and (due.kind is not DeadlineKind.REBALANCE or due.epoch == member.epoch):
                streams_heartbeat.fence(update, due.member_id)
        return self._effects(update, update.replies)

    def on_loaded(self, group: StreamsGroup, now: Now) -> None:
        """Start the members' timers after the group was loaded from the log: every member gets a full session, and its full time to revoke
        tasks.
        """
        update = self._begin_update(group, now)
        for member in group.members.values():
            update.start_session(member.member_id, update.config.session_timeout_ms)
            update.watch_revocation(member)

    def on_write_failed(self, group: StreamsGroup, now: Now) -> None:
        """After a failed write, restart all sessions and revocation deadlines, and let the next heartbeat configure the topology again."""
        group.configured = None
        self.on_loaded(group, now)

    def _begin_heartbeat_update(self, beat: StreamsGroupHeartbeatRequest, now: Now) -> StreamsGroupUpdate:
        """Return an update (the operation that decides changes on a copy) of the existing group, or of a new one for a joining member.
        Raises Rejected(GROUP_ID_NOT_FOUND) if a member that is not joining names no streams group, or if the id belongs to a group that a
        streams group cannot replace."""
        group = self._groups.get(beat.group_id)
        if group is None and beat.member_epoch != JOIN_EPOCH:
            raise Rejected(ErrorCode.GROUP_ID_NOT_FOUND, f"Streams group {beat.group_id} not found.")
        replaces = isinstance(group, ClassicGroup) and group.is_empty and beat.member_epoch == JOIN_EPOCH
        if group is not None and not replaces:
            return self._begin_update(self.existing(beat.group_id), now)
        update = self._begin_update(self._new(beat.group_id), now)
        if replaces:
            update.end_classic_group()
        return update
