"""The groups and offsets of one partition of `__consumer_offsets`, as one state machine.

Invariants:

* An operation decides and returns `Effects(records, response)`. The runtime appends the records, calls `apply` for each, and sends the
  response when they are durable. Loading uses `apply`, too, so the persisted state is the same live and after a restart.
* Only `apply` and `end_transaction` change offsets and create or delete a persisted group. A classic group's members between two
  generations are not persisted and change while an operation is decided; `on_write_failed` notifies a group of a failed write.
* One table has groups of all types, because an id names one group; `consumer_groups`, `share_groups` and `streams_groups` handle those of
  their kind.
* The first record of a classic group only shows that the group exists. It is written with the first JoinGroup, even a rejected one.

Errors of a whole request are raised as Rejected; errors of single members or partitions are in the response. An empty group id is rejected
as in Kafka, which still allows offsets to be committed and fetched under it, because very old consumers did that.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

from ottla.broker.core.effects import Effects
from ottla.broker.core.rejected import Rejected
from ottla.broker.groups.classic import ClassicConfig, ClassicGroup, ClassicOutcome, LeavingMember, SyncRequest
from ottla.broker.groups.classic_join import JoinRequest, join
from ottla.broker.groups.consumer import ConsumerGroup
from ottla.broker.groups.consumer_group_update import ConsumerConfig
from ottla.broker.groups.consumer_groups import ConsumerGroups
from ottla.broker.groups.consumer_heartbeat import Heartbeat, HeartbeatResult
from ottla.broker.groups.group_records import GroupMetadataKey, GroupMetadataValue, GroupRecord
from ottla.broker.groups.modern import CommitPartition, ModernGroup, OffsetsGroup
from ottla.broker.groups.modern_groups import ModernGroups
from ottla.broker.groups.offsets import NO_PRODUCER_ID, Offsets
from ottla.broker.groups.regexes import Resolution
from ottla.broker.groups.results import JoinGroupResult, PendingRequestKey, Reply, SyncGroupResult
from ottla.broker.groups.share_group import ShareGroup
from ottla.broker.groups.share_group_update import ShareConfig
from ottla.broker.groups.share_groups import ShareGroups
from ottla.broker.groups.states import ClassicState, Now
from ottla.broker.groups.streams_group import StreamsGroup
from ottla.broker.groups.streams_group_update import StreamsConfig
from ottla.broker.groups.streams_groups import StreamsGroups
from ottla.broker.groups.topics_view import NoTopics, TopicsView
from ottla.protocol.consumer_group_log import ConsumerKey
from ottla.protocol.error_codes import ErrorCode
from ottla.protocol.offset_log import NO_EXPIRY, OffsetCommitKey, OffsetCommitValue
from ottla.protocol.share_group_log import ShareKey
from ottla.protocol.streams_group_log import StreamsKey

Group = ClassicGroup | ConsumerGroup | ShareGroup | StreamsGroup

NO_OFFSET = -1
NO_LEADER_EPOCH = -1
NO_GENERATION = -1
NO_TOPIC_ID = bytes(16)
LAST_TIMESTAMP = 2**63 - 1


@dataclass(frozen=True, slots=True)
class GroupsConfig:
    """The settings of groups and offsets; times in ms. `offset_metadata_max` (offset.metadata.max.bytes) limits the metadata of a
    committed offset, in UTF-16 code units, as in Kafka."""

    classic: ClassicConfig = field(default_factory=ClassicConfig)
    consumer: ConsumerConfig = field(default_factory=ConsumerConfig)
    share: ShareConfig = field(default_factory=ShareConfig)
    streams: StreamsConfig = field(default_factory=StreamsConfig)
    min_session_timeout_ms: int = 6_000
    max_session_timeout_ms: int = 1_800_000
    offset_metadata_max: int = 4_096
    offsets_retention_ms: int = 7 * 24 * 60 * 60 * 1_000
    accepts_late_commits: bool = True
    """Whether a member may commit offsets with an older member epoch than its present one, as since Kafka 4.3 (KIP-1251)."""


@dataclass(frozen=True, slots=True)
class OffsetToCommit:
    """One partition of a commit request, with the offset to commit."""

    topic: str
    partition: int
    offset: int
    leader_epoch: int = NO_LEADER_EPOCH
    metadata: str | None = None
    topic_id: bytes = NO_TOPIC_ID


@dataclass(frozen=True, slots=True, kw_only=True)
class Commit:
    """An OffsetCommit or TxnOffsetCommit, independent of its version. `generation` is the classic generation or the member epoch, as the
    request has it. `retention_ms` is -1 unless the request has a retention time. `knows_epochs` is whether the request's version allows
    member epochs. `unknown_group_error` is the error code if the group does not exist."""

    group_id: str
    generation: int = NO_GENERATION
    member_id: str = ""
    instance_id: str | None = None
    retention_ms: int = -1
    transactional: bool = False
    knows_epochs: bool = True
    unknown_group_error: ErrorCode = ErrorCode.ILLEGAL_GENERATION
    offsets: list[OffsetToCommit]


@dataclass(frozen=True, slots=True)
class FetchedOffset:
    """The committed offset of one partition, as OffsetFetch returns it; `offset` is -1 if there is none."""

    partition: int
    offset: int = NO_OFFSET
    leader_epoch: int = NO_LEADER_EPOCH
    metadata: str = ""
    error: ErrorCode = ErrorCode.NONE


Topics = list[tuple[str, list[int]]]
Fetched = list[tuple[str, list[FetchedOffset]]]
Replies = list[Reply]


class GroupCoordinator:
    """All groups and committed offsets of one partition of `__consumer_offsets`."""

    def __init__(
        self,
        config: GroupsConfig,
        topics: TopicsView | None = None,
        consumer_config: Callable[[str], ConsumerConfig] | None = None,
        share_config: Callable[[str], ShareConfig] | None = None,
        streams_config: Callable[[str], StreamsConfig] | None = None,
    ) -> None:
        """Create the state machine of one partition of `__consumer_offsets`, without any group.

        `consumer_config`, `share_config` and `streams_config` return a group's settings by group id; if one is absent, every group of that
        kind gets the defaults in `config`.
        """
        self.config = config
        self.groups: dict[str, Group] = {}
        self._unwritten: dict[str, ConsumerGroup | StreamsGroup | None] = {}
        """The ids of classic groups whose first record is not in the log yet, each with the group without members that it replaces."""
        self.offsets = Offsets()
        topics = NoTopics() if topics is None else topics
        self.consumers = ConsumerGroups(self.groups, consumer_config or (lambda _: config.consumer), topics)
        self.shares = ShareGroups(self.groups, share_config or (lambda _: config.share), topics)
        self.streams = StreamsGroups(self.groups, streams_config or (lambda _: config.streams), topics)
        self._kinds: dict[type[Any], ModernGroups[Any, Any, Any]] = {
            kind.GROUP: kind for kind in (self.consumers, self.shares, self.streams)
        }

    # --- membership -----------------------------------------------------------------------------------------------------------

    def join(self, group_id: str, request: JoinRequest, request_key: PendingRequestKey, now: Now) -> Effects[GroupRecord, Replies]:
        """Process a JoinGroup; return the records and replies. The first JoinGroup creates the group. Errors are in the reply, for example
        UNKNOWN_MEMBER_ID if the request has a member id and the group does not exist."""
        error = self._join_refusal(group_id, request)
        if error is not ErrorCode.NONE:
            return Effects((), [Reply(request_key, JoinGroupResult(error=error, member_id=request.member_id))])
        group = self.groups.get(group_id)
        if isinstance(group, ConsumerGroup) and not group.is_empty:
            return self.consumers.join(group, request, request_key, now)
        if isinstance(group, ConsumerGroup | StreamsGroup) and group.is_empty:
            return self._replace_empty_group(group, request, request_key, now)
        if isinstance(group, ModernGroup):
            return Effects((), [Reply(request_key, JoinGroupResult(error=ErrorCode.INCONSISTENT_GROUP_PROTOCOL))])
        return (
            self._join_new_group(group_id, request, request_key, now)
            if group is None
            else _effects(group, join(group, request, request_key, now))
        )

    def _join_new_group(
        self,
        group_id: str,
        request: JoinRequest,
        request_key: PendingRequestKey,
        now: Now,
        replaced: ConsumerGroup | StreamsGroup | None = None,
    ) -> Effects[GroupRecord, Replies]:
        self._unwritten[group_id] = replaced
        group = self.groups[group_id] = ClassicGroup(group_id, self.config.classic)
        outcome = join(group, request, request_key, now)
        assert outcome.record is None, "nobody was assigned anything yet"
        outcome.record = GroupMetadataValue(current_state_timestamp=now.wall_ms)
        return _effects(group, outcome)

    def _replace_empty_group(
        self, group: ConsumerGroup | StreamsGroup, request: JoinRequest, request_key: PendingRequestKey, now: Now
    ) -> Effects[GroupRecord, Replies]:
        """Process the JoinGroup of the first member of a new classic group, which replaces a consumer or streams group without members."""
        if request.member_id:
            return Effects((), [Reply(request_key, JoinGroupResult(error=ErrorCode.UNKNOWN_MEMBER_ID, member_id=request.member_id))])
        tombstones = group.tombstones()
        effects = self._join_new_group(group.group_id, request, request_key, now, group)
        return Effects([*tombstones, *effects.records], effects.response)

    def sync(self, group_id: str, request: SyncRequest, request_key: PendingRequestKey, now: Now) -> Effects[GroupRecord, Replies]:
        group = self.groups.get(group_id)
        if isinstance(group, ConsumerGroup) and not group.is_empty:
            return self.consumers.sync(group, request, request_key, now)
        if isinstance(group, ClassicGroup) and group_id and not group.is_empty:
            return _effects(group, group.sync(request, request_key, now))
        return Effects(
            (), [Reply(request_key, SyncGroupResult(error=ErrorCode.UNKNOWN_MEMBER_ID if group_id else ErrorCode.INVALID_GROUP_ID))]
        )

    def heartbeat(self, group_id: str, member_id: str, instance_id: str | None, generation: int, now: Now) -> ErrorCode:
        if not group_id:
            return ErrorCode.INVALID_GROUP_ID
        group = self.groups.get(group_id)
        if isinstance(group, ConsumerGroup):
            return self.consumers.heartbeat_of_classic(group, member_id, instance_id, generation, now)
        if isinstance(group, ClassicGroup):
            return group.heartbeat(member_id, instance_id, generation, now)
        return ErrorCode.UNKNOWN_MEMBER_ID

    def consumer_heartbeat(self, beat: Heartbeat, now: Now) -> Effects[GroupRecord, tuple[HeartbeatResult, Replies]]:
        """Process a ConsumerGroupHeartbeat. Return the records, the response, and the replies to pending joins and syncs of a classic group
        that the heartbeat converts. Raises Rejected with the error code of the response."""
        return self.consumers.heartbeat(beat, now)

    def leave(self, group_id: str, leaving: list[LeavingMember], now: Now) -> tuple[list[ErrorCode], Effects[GroupRecord, Replies]]:
        """Process a LeaveGroup: remove the members that `leaving` names. Return an error code for each, in the same order, and the records
        and replies. Raises Rejected(INVALID_GROUP_ID) for an empty group id."""
        if not group_id:
            raise Rejected(ErrorCode.INVALID_GROUP_ID)
        group = self.groups.get(group_id)
        if isinstance(group, ConsumerGroup):
            return self.consumers.leave(group, leaving, now)
        if isinstance(group, ClassicGroup):
            errors, outcome = group.leave(leaving, now)
            return errors, _effects(group, outcome)
        return [ErrorCode.UNKNOWN_MEMBER_ID] * len(leaving), Effects((), [])

    def expire_members(self, group_id: str, now: Now) -> Effects[GroupRecord, Replies]:
        """Process the group's deadlines that have passed, such as expired sessions. Return the records and replies."""
        group = self.groups.get(group_id)
        if isinstance(group, ModernGroup):
            return self._kinds[type(group)].expire(group, now)
        return Effects((), []) if group is None else _effects(group, group.expire(now))

    def next_deadline(self, group_id: str) -> int | None:
        """Return the monotonic time in ms at which `expire_members` may have work for the group; None without deadlines."""
        group = self.groups.get(group_id)
        if isinstance(group, ModernGroup):
            return self._kinds[type(group)].next_deadline(group_id)
        return None if group is None else group.next_deadline()

    def after_append(self, group_id: str, now: Now) -> Replies:
        """Finish an operation whose records were appended and applied. If the operation converted a consumer group to a classic one, start
        its members' sessions and, if needed, a rebalance. Return the replies that the rebalance causes."""
        return self.consumers.after_append(group_id, now)

    def next_resolution(self, group_id: str) -> Resolution | None:
        """Return the group's planned resolution of regular expressions, or None if there is none or it was returned before. The caller runs
        it and then calls `end_resolution`."""
        return self.consumers.next_resolution(group_id)

    def end_resolution(self, resolution: Resolution, now: Now) -> Effects[GroupRecord, Replies]:
        """Remove a resolution of regular expressions that has ended. Return the records of the topics that it found; no records if it did
        not run to its end or the group is no longer a consumer group."""
        return self.consumers.end_resolution(resolution, now)

    def on_write_failed(self, group_id: str, now: Now) -> Replies:
        """Recover from a failed write of the last operation. Return the replies (errors) that make members rejoin."""
        group = self.groups.get(group_id)
        if isinstance(group, ModernGroup):
            self._kinds[type(group)].on_write_failed(group, now)
            return []
        if group is None:
            return []
        replies = group.on_write_failed(now).replies
        if group_id in self._unwritten:
            replaced = self._unwritten.pop(group_id)
            if replaced is None:
                del self.groups[group_id]
            else:
                self.groups[group_id] = replaced
            replies += group.fail_all_pending_requests(ErrorCode.COORDINATOR_NOT_AVAILABLE).replies
        return replies

    def fail_all_pending_requests(self, error: ErrorCode) -> Replies:
        """Complete every pending JoinGroup and SyncGroup with this error, because the broker shuts down. Return the replies."""
        return [
            r for group in self.groups.values() if isinstance(group, ClassicGroup) for r in group.fail_all_pending_requests(error).replies
        ]

    # --- offsets --------------------------------------------------------------------------------------------------------------

    def commit(self, commit: Commit, now: Now) -> Effects[GroupRecord, list[ErrorCode]]:
        """Return the records that commit the offsets of a request, and one error code for each offset, in the same order. Raises Rejected
        with the error code for all offsets if the group rejects the request's member id, instance id or generation, or is a share group."""
        self._check_commit(commit)
        group = self.groups.get(commit.group_id)
        if group is not None and not commit.transactional:
            self._touch_by_commit(group, commit.member_id, now)
        expiry = NO_EXPIRY if commit.retention_ms == -1 else min(now.wall_ms + commit.retention_ms, LAST_TIMESTAMP)
        records, errors = [], []
        for wanted in commit.offsets:
            if self._is_too_long(wanted.metadata):
                errors.append(ErrorCode.OFFSET_METADATA_TOO_LARGE)
                continue
            errors.append(ErrorCode.NONE)
            value = OffsetCommitValue(
                offset=wanted.offset,
                leader_epoch=wanted.leader_epoch,
                metadata=wanted.metadata or "",
                commit_timestamp=now.wall_ms,
                expire_timestamp=expiry,
                topic_id=wanted.topic_id,
            )
            records.append(GroupRecord(OffsetCommitKey(commit.group_id, wanted.topic, wanted.partition), value))
        return Effects(records, errors)

    def fetch(
        self,
        group_id: str,
        topics: Topics | None,
        *,
        require_stable: bool,
        member_id: str | None = None,
        member_epoch: int = -1,
        topic_ids: Mapping[str, bytes] | None = None,
    ) -> Effects[GroupRecord, Fetched]:
        """Return the committed offsets of `topics`, or of all partitions with a committed offset if `topics` is None. An unknown group has
        no offsets; that is not an error. With `require_stable`, a partition with an offset in an open transaction gets
        UNSTABLE_OFFSET_COMMIT.

        An offset that was committed for another topic id than that in `topic_ids` is ignored, because the topic was recreated. Raises
        Rejected(UNKNOWN_MEMBER_ID, STALE_MEMBER_EPOCH or ILLEGAL_GENERATION) if a consumer or streams group does not have this member with
        this epoch. For a share group, raises Rejected(GROUP_ID_NOT_FOUND) if `topics` is given, and returns no offsets if it is None.
        """
        group = self.groups.get(group_id)
        if isinstance(group, ShareGroup) and topics is not None:
            raise _no_consumer_group(group_id)
        if isinstance(group, OffsetsGroup):
            error = group.check_offset_fetch(member_id, member_epoch)
            if error is not ErrorCode.NONE:
                raise Rejected(error)
        committed = self.offsets.committed.of_group(group_id)
        wanted = [(topic, list(partitions)) for topic, partitions in committed.items()] if topics is None else topics
        ids = topic_ids or {}
        return Effects(
            (),
            [
                (topic, [self._fetch_one(group_id, topic, ids.get(topic, NO_TOPIC_ID), p, require_stable) for p in partitions])
                for topic, partitions in wanted
            ],
        )

    def delete_offsets(self, group_id: str, topics: Topics) -> Effects[GroupRecord, list[tuple[str, ErrorCode]]]:
        """Return the records that delete committed offsets, and an error code for each topic: GROUP_SUBSCRIBED_TO_TOPIC if a member
        subscribes to it, otherwise NONE. Raises Rejected: INVALID_GROUP_ID for an empty id; GROUP_ID_NOT_FOUND if the group does not exist
        or is a share group; NON_EMPTY_GROUP if it is a classic group with members that are not consumers."""
        if not group_id:
            raise Rejected(ErrorCode.INVALID_GROUP_ID)
        group = self._existing(group_id)
        if isinstance(group, ShareGroup):
            raise _no_consumer_group(group_id)
        if not group.is_empty and not group.uses_consumer_protocol:
            raise Rejected(ErrorCode.NON_EMPTY_GROUP)
        known = set(self.offsets.keys_of(group_id))
        records, errors = [], []
        for topic, partitions in topics:
            if group.is_subscribed_to(topic):
                errors.append((topic, ErrorCode.GROUP_SUBSCRIBED_TO_TOPIC))
                continue
            errors.append((topic, ErrorCode.NONE))
            records += [_no_offset(group_id, topic, partition) for partition in partitions if (topic, partition) in known]
        return Effects(records, errors)

    def forget_topic(self, topic: str, topic_id: bytes) -> Effects[GroupRecord, None]:
        """Return the records to write when a topic was deleted: tombstones of its committed offsets, so that a later topic with the same
        name does not inherit them, and the removal of the topic from share groups."""
        offsets = [_no_offset(group_id, topic, partition) for group_id, partition in self.offsets.keys_of_topic(topic, topic_id)]
        return Effects([*offsets, *self.shares.forget_topic(topic_id)], None)

    # --- groups ---------------------------------------------------------------------------------------------------------------

    def delete_group(self, group_id: str) -> Effects[GroupRecord, None]:
        """Return the records that delete a group and all its offsets. Raises Rejected: GROUP_ID_NOT_FOUND if it does not exist,
        NON_EMPTY_GROUP if it has members."""
        group = self._existing(group_id)
        if not group.is_empty:
            raise Rejected(ErrorCode.NON_EMPTY_GROUP)
        records = [_no_offset(group_id, topic, partition) for topic, partition in self.offsets.keys_of(group_id)]
        return Effects([*records, *_tombstones_of(group)], None)

    def expire_offsets(self, now: Now) -> Effects[GroupRecord, None]:
        """Return the records that delete expired offsets, and the groups that then have neither members nor offsets. The caller may append
        the records in several batches."""
        records: list[GroupRecord] = []
        for group_id, group in self.groups.items():
            if isinstance(group, ShareGroup):
                continue
            expired = self._expired_offsets(group, now)
            records += [_no_offset(group_id, topic, partition) for topic, partition in expired]
            nothing_left = len(expired) == len(self.offsets.keys_of(group_id)) and not self.offsets.has_open_transaction(group_id)
            if nothing_left and group.is_empty and not (isinstance(group, ClassicGroup) and group.pending):
                records += _tombstones_of(group)
        return Effects(records, None)

    # --- persistence ----------------------------------------------------------------------------------------------------------

    def apply(self, record: GroupRecord, record_offset: int, producer_id: int = NO_PRODUCER_ID) -> None:
        """Apply a record of the log, at `record_offset`. If `producer_id` is given, the record is part of that producer's transaction."""
        key, value = record.key, record.value
        if isinstance(key, OffsetCommitKey):
            if not isinstance(value, OffsetCommitValue):
                self.offsets.remove(key.group, key.topic, key.partition)
                return
            self._group(key.group)
            self.offsets.put(key.group, key.topic, key.partition, value, record_offset=record_offset, producer_id=producer_id)
        elif isinstance(key, ShareKey):
            self.shares.apply(key, value)
        elif isinstance(key, StreamsKey):
            self.streams.apply(key, value)
        elif isinstance(key, ConsumerKey):
            self.consumers.apply(key, value)
        elif isinstance(value, GroupMetadataValue):
            self._unwritten.pop(key.group, None)
            self._classic_group(key.group).apply(value)
        elif isinstance(gone := self.groups.get(key.group), ClassicGroup):
            del self.groups[key.group]
            gone.mark_dead()

    def end_transaction(self, producer_id: int, *, commit: bool) -> None:
        """Apply a transaction marker of the log: the producer's pending offsets become committed, or are discarded."""
        self.offsets.end_transaction(producer_id, commit=commit)

    def on_loaded(self, now: Now) -> None:
        """Start the sessions of all members, after the groups were loaded from the log. Requests are served only afterwards, so no
        JoinGroup or SyncGroup is pending.
        """
        for group in self.groups.values():
            if isinstance(group, ModernGroup):
                self._kinds[type(group)].on_loaded(group, now)
            else:
                group.on_loaded(now)

    # --- internals ------------------------------------------------------------------------------------------------------------

    def _group(self, group_id: str) -> Group:
        """Return the group. If it does not exist, create a simple group: one that only stores offsets and has no members."""
        group = self.groups.get(group_id)
        if group is None:
            group = self.groups[group_id] = ClassicGroup(group_id, self.config.classic)
        return group

    def _classic_group(self, group_id: str) -> ClassicGroup:
        """Return the classic group, created if necessary; it replaces a group of another kind with this id."""
        group = self.groups.get(group_id)
        if not isinstance(group, ClassicGroup):
            group = self.groups[group_id] = ClassicGroup(group_id, self.config.classic)
        return group

    def _existing(self, group_id: str) -> Group:
        group = self.groups.get(group_id)
        if group is None:
            raise Rejected(ErrorCode.GROUP_ID_NOT_FOUND, f"Group {group_id} not found.")
        return group

    def _join_refusal(self, group_id: str, request: JoinRequest) -> ErrorCode:
        if not group_id:
            return ErrorCode.INVALID_GROUP_ID
        if not self.config.min_session_timeout_ms <= request.session_timeout_ms <= self.config.max_session_timeout_ms:
            return ErrorCode.INVALID_SESSION_TIMEOUT
        if request.member_id and group_id not in self.groups:
            return ErrorCode.UNKNOWN_MEMBER_ID
        return ErrorCode.NONE

    def _check_commit(self, commit: Commit) -> None:
        if commit.transactional and not commit.group_id:
            raise Rejected(ErrorCode.INVALID_GROUP_ID)
        group = self.groups.get(commit.group_id)
        if group is None:
            error = ErrorCode.NONE if commit.generation < 0 else commit.unknown_group_error
        elif isinstance(group, OffsetsGroup):
            partitions = [
                CommitPartition(wanted.topic, wanted.topic_id, wanted.partition)
                for wanted in commit.offsets
                if not self._is_too_long(wanted.metadata)
            ]
            error = group.check_offset_commit(
                commit.member_id,
                commit.instance_id,
                commit.generation,
                partitions if self.config.accepts_late_commits else None,
                transactional=commit.transactional,
                knows_epochs=commit.knows_epochs,
            )
        elif isinstance(group, ShareGroup):
            raise _no_consumer_group(commit.group_id)
        else:
            error = group.check_offset_commit(commit.member_id, commit.instance_id, commit.generation, transactional=commit.transactional)
        if error is not ErrorCode.NONE:
            raise Rejected(error)

    def _touch_by_commit(self, group: Group, member_id: str, now: Now) -> None:
        if isinstance(group, ConsumerGroup):
            self.consumers.extend_session_by_commit(group, member_id, now)
        elif isinstance(group, ClassicGroup) and group.state in {ClassicState.STABLE, ClassicState.PREPARING_REBALANCE}:
            group.extend_session_by_commit(member_id, now)

    def _is_too_long(self, metadata: str | None) -> bool:
        return metadata is not None and len(metadata.encode("utf-16-le")) > 2 * self.config.offset_metadata_max

    def _fetch_one(self, group_id: str, topic: str, topic_id: bytes, partition: int, require_stable: bool) -> FetchedOffset:
        if require_stable and self.offsets.has_pending(group_id, topic, partition):
            return FetchedOffset(partition, error=ErrorCode.UNSTABLE_OFFSET_COMMIT)
        committed = self.offsets.committed.get(group_id, topic, partition)
        if committed is None or len({topic_id, committed.value.topic_id} - {NO_TOPIC_ID}) == 2:
            return FetchedOffset(partition)
        return FetchedOffset(partition, committed.value.offset, committed.value.leader_epoch, committed.value.metadata)

    def _expired_offsets(self, group: ClassicGroup | ConsumerGroup | StreamsGroup, now: Now) -> list[tuple[str, int]]:
        expired = []
        for topic, partitions in self.offsets.committed.of_group(group.group_id).items():
            if group.is_subscribed_to(topic):
                continue
            for partition, committed in partitions.items():
                base = group.offset_expiry_base(committed.value.commit_timestamp)
                if base is None or self.offsets.has_pending(group.group_id, topic, partition):
                    continue
                if self.offsets.is_expired(committed.value, base, self.config.offsets_retention_ms, now.wall_ms):
                    expired.append((topic, partition))
        return expired


def _effects(group: ClassicGroup, outcome: ClassicOutcome) -> Effects[GroupRecord, Replies]:
    if outcome.record is None:
        return Effects((), outcome.replies)
    return Effects([GroupRecord(GroupMetadataKey(group.group_id), outcome.record)], outcome.replies)


def _tombstones_of(group: Group) -> list[GroupRecord]:
    """Return the tombstone records that delete a group of any kind. The group must have no members."""
    return group.tombstones() if isinstance(group, ModernGroup) else [GroupRecord(GroupMetadataKey(group.group_id), None)]


def _no_consumer_group(group_id: str) -> Rejected:
    return Rejected(ErrorCode.GROUP_ID_NOT_FOUND, f"Group {group_id} is not a consumer group.")


def _no_offset(group_id: str, topic: str, partition: int) -> GroupRecord:
    return GroupRecord(OffsetCommitKey(group_id, topic, partition), None)
