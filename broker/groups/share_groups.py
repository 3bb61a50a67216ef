"""The share groups of one partition of `__consumer_offsets`.

Invariants, besides those of `modern_groups`:

* A share group never becomes a group of another type, and no other becomes a share group.
* A new share partition is initialized in three steps: the group writes that it is being initialized, the share coordinator writes its
  state, and the group writes that it is initialized; then it is assigned. An initialization that fails, or whose result never arrives, is
  begun again by a later heartbeat. The deletion of state has the same three steps.

Source: Kafka's GroupMetadataManager (share groups).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any, NamedTuple

from ottla.broker.core.effects import Effects
from ottla.broker.core.rejected import Rejected
from ottla.broker.groups import share_heartbeat
from ottla.broker.groups.consumer_heartbeat import HeartbeatResult
from ottla.broker.groups.consumer_member import JOIN_EPOCH, LEAVE_EPOCH
from ottla.broker.groups.group_records import GroupRecord
from ottla.broker.groups.modern_groups import ModernGroups
from ottla.broker.groups.results import Reply
from ottla.broker.groups.share_group import SharedTopic, SharedTopics, ShareGroup, StatePartitions, record_of, subtracted, united
from ottla.broker.groups.share_group_update import ShareConfig, ShareGroupUpdate
from ottla.broker.groups.share_heartbeat import ShareHeartbeat
from ottla.broker.groups.states import Now
from ottla.broker.groups.topics_view import TopicsView
from ottla.protocol import share_group_log as records
from ottla.protocol.error_codes import ErrorCode

UNKNOWN_TOPIC = "<UNKNOWN>"
"""The name that Kafka writes in a group's record for a topic that was deleted."""

Partitions = Mapping[bytes, frozenset[int]]
"""Partition numbers by topic id."""


class Initialization(NamedTuple):
    """The share partitions that the share coordinator has to initialize. Their start offsets are given by (topic id, partition); -1 means
    that the partition's leader determines the start offset. `state_epoch` is the group epoch."""

    state_epoch: int
    start_offsets: Mapping[tuple[bytes, int], int]


class Deletion(NamedTuple):
    """The share state that a DeleteShareGroupOffsets request deletes: the topics, with the partitions whose state is to be deleted.
    `unknown` has the names of requested topics for which the group has no state."""

    topics: SharedTopics
    unknown: Sequence[str] = ()


class ShareGroups(ModernGroups[ShareGroup, ShareConfig, ShareGroupUpdate]):
    """Operations on the share groups of one partition of `__consumer_offsets`."""

    GROUP, UPDATE, EPOCH_KEY = ShareGroup, ShareGroupUpdate, records.ShareGroupMetadataKey

    def __init__(self, groups: dict[str, Any], config_of: Callable[[str], ShareConfig], topics: TopicsView) -> None:
        super().__init__(groups, config_of, topics)
        self._initialization_begun_ms: dict[str, dict[bytes, int]] = {}
        """By group id and topic id, when the initialization of the topic's share partitions was last begun, in monotonic ms."""

    # --- membership -----------------------------------------------------------------------------------------------------------

    def heartbeat(self, beat: ShareHeartbeat, now: Now) -> Effects[GroupRecord, tuple[HeartbeatResult, Initialization]]:
        """Process a ShareGroupHeartbeat. Return the records, the response, and the share partitions that are to be initialized afterwards.
        Raises Rejected with the error code of the response."""
        share_heartbeat.check(beat)
        if beat.epoch == LEAVE_EPOCH:
            update = self._begin_update(self.existing(beat.group_id), now)
            return self._effects(update, (share_heartbeat.leave(update, beat.member_id), Initialization(update.group.epoch, {})))
        group = self._existing_or_new_group(beat)
        update, known = self._begin_update(group, now), {*group.partitions.initialized, *group.partitions.initializing}
        result = share_heartbeat.heartbeat(update, beat)
        missing = update.initialize(self._initializing(group, now))
        self._note_initialization_begun(beat.group_id, missing, now)
        begins_at_0 = known if update.config.reads_added_partitions_whole else ()
        starts = {topic_id: 0 if topic_id in begins_at_0 else -1 for topic_id in missing}
        offsets = {(topic_id, partition): starts[topic_id] for topic_id, topic in missing.items() for partition in sorted(topic.partitions)}
        return self._effects(update, (result, Initialization(update.group.epoch, offsets)))

    def expire(self, group: ShareGroup, now: Now) -> Effects[GroupRecord, list[Reply]]:
        """Remove the members whose sessions have expired. Return the records and replies."""
        update = self._begin_update(group, now)
        for due in update.deadlines.take_due(now.mono_ms):
            if due.member_id in update.group.members:
                share_heartbeat.fence(update, due.member_id)
        return self._effects(update, update.replies)

    def on_loaded(self, group: ShareGroup, now: Now) -> None:
        """Start every member's session anew after the group was loaded."""
        update = self._begin_update(group, now)
        for member_id in group.members:
            update.start_session(member_id, update.config.session_timeout_ms)

    def on_write_failed(self, group: ShareGroup, now: Now) -> None:
        """After a failed write, restart all sessions, and let a later heartbeat begin the initializations again."""
        self._initialization_begun_ms.pop(group.group_id, None)
        self.on_loaded(group, now)

    # --- share partitions -----------------------------------------------------------------------------------------------------

    def mark_initialized(self, group_id: str, partitions: Partitions, now: Now) -> Effects[GroupRecord, None]:
        """Return the record that marks these share partitions as initialized, after the share coordinator has confirmed it. There is no
        record if the group was deleted."""
        group = self._groups.get(group_id)
        if not isinstance(group, ShareGroup):
            return Effects((), None)
        update, known = self._begin_update(group, now), group.partitions
        done = {topic_id: SharedTopic(self._name_of(topic_id), indexes) for topic_id, indexes in partitions.items()}
        initializing = subtracted(known.initializing, partitions)
        update.put_partitions(replace(known, initializing=initializing, initialized=united(known.initialized, done)))
        return self._effects(update, None)

    def mark_uninitialized(self, group_id: str, partitions: Partitions, now: Now) -> Effects[GroupRecord, None]:
        """Return the record that no longer marks these share partitions as being initialized, because their initialization failed. A later
        heartbeat begins it again."""
        group = self._groups.get(group_id)
        self._initialization_begun_ms.pop(group_id, None)
        if not isinstance(group, ShareGroup) or not group.partitions.initializing:
            return Effects((), None)
        update = self._begin_update(group, now)
        update.put_partitions(replace(group.partitions, initializing=subtracted(group.partitions.initializing, partitions)))
        return self._effects(update, None)

    def alter_offsets(self, group_id: str, offsets: Mapping[tuple[bytes, int], int], now: Now) -> Effects[GroupRecord, Initialization]:
        """Reset share partitions to new start offsets, which `offsets` has by (topic id, partition). Return the record that marks these
        share partitions as being initialized, and the initialization that the share coordinator has to perform.

        Raises Rejected: NON_EMPTY_GROUP if the group has members, or GROUP_ID_NOT_FOUND if the id belongs to a group of another type.
        """
        group = self._groups.get(group_id)
        group = self._new(group_id) if group is None else self.existing(group_id)
        if not group.is_empty:
            raise Rejected(ErrorCode.NON_EMPTY_GROUP, "The group is not empty.")
        update = self._begin_update(group, now)
        topics: dict[bytes, SharedTopic] = {}
        for topic_id, partition in offsets:
            before = topics.get(topic_id) or SharedTopic(self._name_of(topic_id), frozenset())
            topics[topic_id] = before._replace(partitions=before.partitions | {partition})
        update.put_initializing(topics)
        self._note_initialization_begun(group_id, topics, now)
        return self._effects(update, Initialization(update.group.epoch, offsets))

    def delete_offsets(self, group_id: str, topics: Sequence[str], now: Now) -> Effects[GroupRecord, Deletion]:
        """Return the record that marks the share state of the named topics as being deleted, and the partitions concerned. Raises Rejected:
        NON_EMPTY_GROUP if the group has members, or GROUP_ID_NOT_FOUND if there is no such share group.

        A topic whose deletion has begun but not ended is deleted again.
        """
        group = self.existing(group_id)
        if not group.is_empty:
            raise Rejected(ErrorCode.NON_EMPTY_GROUP, "The group is not empty.")
        known, found, unknown = group.partitions, {}, []
        if not group.has_partitions_record:
            return Effects((), Deletion({}))
        initialized, deleting = dict(known.initialized), dict(known.deleting)
        for name in topics:
            info = self._topics.by_name(name)
            if info is not None and info.topic_id in initialized:
                found[info.topic_id] = initialized.pop(info.topic_id)
                deleting[info.topic_id] = name
            elif info is not None and info.topic_id in deleting:
                found[info.topic_id] = SharedTopic(name, frozenset(range(info.partitions)))
            else:
                unknown.append(name)
        update = self._begin_update(group, now)
        update.put_partitions(StatePartitions(known.initializing, initialized, self._named(deleting)))
        return self._effects(update, Deletion(found, unknown))

    def mark_deleted(self, group_id: str, topic_ids: Sequence[bytes], now: Now) -> Effects[GroupRecord, None]:
        """Return the group's record without these topics among those whose state is being deleted, because the share coordinator has
        deleted it."""
        group = self._groups.get(group_id)
        if not isinstance(group, ShareGroup) or not group.has_partitions_record:
            return Effects((), None)
        left = {topic_id: name for topic_id, name in group.partitions.deleting.items() if topic_id not in topic_ids}
        update = self._begin_update(group, now)
        update.put_partitions(replace(group.partitions, deleting=self._named(left)))
        return self._effects(update, None)

    def begin_deletion(self, group: ShareGroup, now: Now) -> Effects[GroupRecord, SharedTopics]:
        """Begin to delete the share state of a group that is to be deleted. Return the record that marks the state as being deleted, and
        the topics with their partitions. Raises Rejected(NON_EMPTY_GROUP) if the group has members."""
        if not group.is_empty:
            raise Rejected(ErrorCode.NON_EMPTY_GROUP)
        if not group.has_partitions_record:
            return Effects((), {})
        known = group.partitions
        infos = (self._topics.by_id(topic_id) for topic_id in known.deleting)
        again = {info.topic_id: SharedTopic(info.name, frozenset(range(info.partitions))) for info in infos if info is not None}
        topics = united(united(known.initialized, known.initializing), again)
        update = self._begin_update(group, now)
        update.put_partitions(StatePartitions(deleting={topic_id: topic.name for topic_id, topic in topics.items()}))
        return self._effects(update, topics)

    def forget_topic(self, topic_id: bytes) -> list[GroupRecord]:
        """Return the records that remove a deleted topic from all share groups; the share coordinator deletes its state by itself."""
        found = []
        for group in self._groups.values():
            if isinstance(group, ShareGroup) and (left := group.partitions.without(topic_id)) != group.partitions:
                found.append(
                    GroupRecord(
                        records.ShareGroupStatePartitionMetadataKey(group.group_id),
                        record_of(replace(left, deleting=self._named(left.deleting))),
                    )
                )
        return found

    def forget(self, group_id: str) -> None:
        super().forget(group_id)
        self._initialization_begun_ms.pop(group_id, None)

    # --- internals ------------------------------------------------------------------------------------------------------------

    def _existing_or_new_group(self, beat: ShareHeartbeat) -> ShareGroup:
        if beat.epoch == JOIN_EPOCH and beat.group_id not in self._groups:
            return self._new(beat.group_id)
        return self.existing(beat.group_id)

    def _note_initialization_begun(self, group_id: str, topics: SharedTopics, now: Now) -> None:
        self._initialization_begun_ms.setdefault(group_id, {}).update(dict.fromkeys(topics, now.mono_ms))

    def _initializing(self, group: ShareGroup, now: Now) -> SharedTopics:
        """Return the partitions whose initialization began less than `initialize_retry_interval_ms` ago and has not ended."""
        earliest_ms = now.mono_ms - self._config_of(group.group_id).initialize_retry_interval_ms
        begun = self._initialization_begun_ms.get(group.group_id, {})
        fresh = {topic_id for topic_id, begun_ms in begun.items() if begun_ms > earliest_ms}
        return {topic_id: topic for topic_id, topic in group.partitions.initializing.items() if topic_id in fresh}

    def _name_of(self, topic_id: bytes) -> str:
        info = self._topics.by_id(topic_id)
        return UNKNOWN_TOPIC if info is None else info.name

    def _named(self, topic_ids: Mapping[bytes, str]) -> dict[bytes, str]:
        return {topic_id: self._name_of(topic_id) for topic_id in topic_ids}
