"""The group coordinator of this broker: finds a group's state machine, applies its decisions and completes waiting requests.

Invariants:

* A group lives in the partition of `__consumer_offsets` that its id hashes to. The topic is created when a coordinator is first looked up,
  before the response, so that the client need not retry.
* Each waiting JoinGroup or SyncGroup request has a future. The state machine holds the future and names it in the decision that answers the
  request. The future is completed when the join or sync phase ends, even if the client's connection was closed meanwhile.
* Each group has at most one timer, never later than its next deadline; a timer that fires too early is scheduled again. A heartbeat that
  only extends deadlines does not touch the timer. If the response is REBALANCE_IN_PROGRESS, the member may have got a new deadline, for its
  rejoin, so the timer is adjusted.
* The state machines (`ottla.broker.groups`) are imported when the first partition is served. They would be half of all imports at the
  start, and a broker without groups does not need them.
* Without an offsets topic group requests get NOT_COORDINATOR, as in Kafka's CoordinatorRuntime. The client then looks up the coordinator,
  which creates the topic. Only TxnOffsetCommit gets COORDINATOR_NOT_AVAILABLE (`offsets_partition`).
* A heartbeat of a classic group that is not loaded yet succeeds, as in Kafka.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable, Iterator, Mapping
from functools import partial
from typing import TYPE_CHECKING, TypeVar

from ottla.broker.cluster.topic_names import CONSUMER_OFFSETS
from ottla.broker.configs.group_config import INITIAL_REBALANCE_DELAY_MS, STANDBYS, effective_group_values, effective_value, rack_tags
from ottla.broker.core.effects import Effects
from ottla.broker.core.rejected import Rejected
from ottla.broker.core.settings import BrokerSettings
from ottla.broker.core.timers import TimerHandle
from ottla.broker.groups.results import JoinGroupResult, Reply, SyncGroupResult
from ottla.broker.groups.states import Now
from ottla.broker.runtime.coordination.shard import Committed, ScheduleTimeout, Shard, ShardState
from ottla.broker.runtime.coordination.shards import Shards
from ottla.broker.runtime.metadata.cluster_view import ClusterView
from ottla.broker.runtime.replicas.partition import Partition
from ottla.broker.runtime.replicas.partitions import Partitions
from ottla.broker.runtime.upkeep.nursery import Nursery
from ottla.broker.storage.txn_guard import VerificationGuard
from ottla.broker.txns.txn_marker import TxnMarker
from ottla.protocol.error_codes import ErrorCode
from ottla.protocol.wire import STRING_BYTES_MAX

if TYPE_CHECKING:
    from ottla.broker.groups.classic import LeavingMember, SyncRequest
    from ottla.broker.groups.classic_join import JoinRequest
    from ottla.broker.groups.consumer_group_update import ConsumerConfig
    from ottla.broker.groups.consumer_heartbeat import Heartbeat, HeartbeatResult
    from ottla.broker.groups.coordinator import Commit, Fetched, Group, GroupCoordinator, GroupsConfig, Replies, Topics
    from ottla.broker.groups.group_records import GroupRecord
    from ottla.broker.groups.regexes import Resolution
    from ottla.broker.groups.share_group_update import ShareConfig
    from ottla.broker.groups.streams_group_update import StreamsConfig
    from ottla.broker.groups.streams_heartbeat import StreamsHeartbeatResult
    from ottla.protocol.messages.k88_streams_group_heartbeat import StreamsGroupHeartbeatRequest

EXPIRY_RECORDS_PER_BATCH = 1_000
"""The most tombstones of expired or deleted offsets in one batch: at 100 bytes each, well below the smallest usual max.message.bytes."""

T = TypeVar("T")

logger = logging.getLogger(__name__)


def groups_config(settings: BrokerSettings) -> GroupsConfig:
    """Return the broker's settings that apply to every group, in the form that the group state machines use."""
    from ottla.broker.groups.classic import ClassicConfig  # noqa: PLC0415 # a start does not need it
    from ottla.broker.groups.coordinator import GroupsConfig  # noqa: PLC0415 # a start does not need it

    return GroupsConfig(
        consumer=consumer_config(settings, {}),
        share=share_config(settings, {}),
        streams=streams_config(settings, {}),
        classic=ClassicConfig(initial_rebalance_delay_ms=settings.group_initial_rebalance_delay_ms, max_size=settings.group_max_size),
        min_session_timeout_ms=settings.group_min_session_timeout_ms,
        max_session_timeout_ms=settings.group_max_session_timeout_ms,
        offset_metadata_max=settings.offset_metadata_max_bytes,
        offsets_retention_ms=settings.offsets_retention_minutes * 60_000,
        accepts_late_commits=settings.release_behaviour.accepts_late_commits,
    )


def consumer_config(settings: BrokerSettings, overrides: Mapping[str, str]) -> ConsumerConfig:
    """Return the settings of one consumer group: the broker's, overridden by the group's dynamic settings, `overrides`."""
    from ottla.broker.groups.consumer_group_update import ConsumerConfig  # noqa: PLC0415 # a start does not need it

    policy = settings.group_consumer_migration_policy.lower()
    values = effective_group_values("consumer", overrides, settings)
    return ConsumerConfig(
        session_timeout_ms=values["session.timeout.ms"],
        heartbeat_interval_ms=values["heartbeat.interval.ms"],
        max_size=settings.group_consumer_max_size,
        assignors=settings.group_consumer_assignors,
        allows_upgrade=policy in {"bidirectional", "upgrade"},
        allows_downgrade=policy in {"bidirectional", "downgrade"},
        classic_max_size=settings.group_max_size,
        assignment_interval_ms=values["assignment.interval.ms"],
        delays_assignments=settings.release_behaviour.delays_assignments,
        ends_removed_expressions=settings.release_behaviour.ends_removed_expressions,
        ends_subscriptions_at_once=settings.release_behaviour.ends_subscriptions_at_once,
        assigns_empty=settings.release_behaviour.assigns_empty_groups,
        follows_preferred_assignor=settings.release_behaviour.follows_preferred_assignor,
        regex_refresh_interval_ms=settings.group_consumer_regex_refresh_interval_ms,
    )


def share_config(settings: BrokerSettings, overrides: Mapping[str, str]) -> ShareConfig:
    """Return the settings of one share group: the broker's, overridden by the group's dynamic settings, `overrides`."""
    from ottla.broker.groups.share_group_update import ShareConfig  # noqa: PLC0415 # a start does not need it

    values = effective_group_values("share", overrides, settings)
    return ShareConfig(
        session_timeout_ms=values["session.timeout.ms"],
        heartbeat_interval_ms=values["heartbeat.interval.ms"],
        max_size=settings.group_share_max_size,
        assignment_interval_ms=values["assignment.interval.ms"],
        delays_assignments=settings.release_behaviour.delays_assignments,
        assigns_empty=settings.release_behaviour.assigns_empty_groups,
        initialize_retry_interval_ms=settings.group_share_initialize_retry_interval_ms,
        reads_added_partitions_whole=settings.release_behaviour.reads_added_partitions_whole,
    )


def streams_config(settings: BrokerSettings, overrides: Mapping[str, str]) -> StreamsConfig:
    """Return the settings of one streams group: the broker's, overridden by the group's dynamic settings, `overrides`."""
    from ottla.broker.groups.streams_group_update import StreamsConfig  # noqa: PLC0415 # a start does not need it

    values = effective_group_values("streams", overrides, settings)
    return StreamsConfig(
        session_timeout_ms=values["session.timeout.ms"],
        heartbeat_interval_ms=values["heartbeat.interval.ms"],
        max_size=settings.group_streams_max_size,
        num_standby_replicas=effective_value(STANDBYS, overrides, settings),
        initial_rebalance_delay_ms=effective_value(INITIAL_REBALANCE_DELAY_MS, overrides, settings),
        assignment_interval_ms=values["assignment.interval.ms"],
        delays_assignments=settings.release_behaviour.delays_assignments,
        assigns_empty=settings.release_behaviour.assigns_empty_groups,
        has_4_4_features=settings.release_behaviour.extends_streams_groups,
        rack_tags=rack_tags(overrides, settings),
    )


class _Shard(Shard["GroupRecord", "GroupCoordinator"]):
    """One partition of `__consumer_offsets` that this broker leads, with the state machine and the timers of its groups."""

    def __init__(self, partition: Partition, machine: GroupCoordinator, schedule_timeout: ScheduleTimeout) -> None:
        # Imported when the first partition is served, as the module's invariants say.
        from ottla.broker.groups.group_records import decode_record, encode_record  # noqa: PLC0415 # a start does not need it

        super().__init__(partition, machine, encode_record, decode_record, schedule_timeout)
        self.timers: dict[str, TimerHandle] = {}


class GroupService:
    """The group coordinator of this broker, for classic, consumer, share and streams groups. `cluster` has the topics that groups subscribe
    to. `overrides_of` returns the dynamic settings of a group, by name, with values as text.
    """

    def __init__(
        self,
        settings: BrokerSettings,
        nursery: Nursery,
        partitions: Partitions,
        create_topic: Callable[[str], Awaitable[object]],
        *,
        cluster: ClusterView,
        overrides_of: Callable[[str], Mapping[str, str]] = lambda _: {},
    ) -> None:
        self._settings = settings
        self._nursery = nursery
        self._clock = nursery.clock
        self._timers = nursery.timers
        self.cluster = cluster
        self._overrides_of = overrides_of
        self.shards: Shards[_Shard] = Shards(
            CONSUMER_OFFSETS,
            partitions,
            lambda: cluster.partition_count(CONSUMER_OFFSETS),
            self._make_shard,
            create_topic=create_topic,
            nursery=nursery,
            loaded=self._on_loaded,
            closed=self._on_closed,
            chunk_bytes=settings.offsets_load_buffer_size,
        )

    # --- life -----------------------------------------------------------------------------------------------------------------

    async def load(self) -> None:
        """Start to load all groups. Return when they are loaded, or after LOAD_BEFORE_SERVING_MS; the loading then continues while clients
        are served. Also start the periodic expiry of offsets.
        """
        self.shards.sweep_every("expiry of offsets", self._settings.offsets_retention_check_interval_ms, self._expire_offsets)
        await self.shards.load()

    def stop(self) -> None:
        """Answer every waiting request with NOT_COORDINATOR and stop all timers, because the broker is shutting down."""
        self.shards.stop()

    def _make_shard(self, partition: Partition) -> _Shard:
        from ottla.broker.groups.coordinator import GroupCoordinator  # noqa: PLC0415 # a start does not need it

        settings, overrides_of = self._settings, self._overrides_of
        machine = GroupCoordinator(
            groups_config(settings),
            self.cluster,
            self._consumer_config,
            lambda group_id: share_config(settings, overrides_of(group_id)),
            lambda group_id: streams_config(settings, overrides_of(group_id)),
        )
        return _Shard(partition, machine, self._schedule_timeout)

    def _schedule_timeout(self, callback: Callable[[], None]) -> TimerHandle:
        return self._timers.schedule(self._clock.mono_ms() + self._settings.offsets_commit_timeout_ms, callback)

    def _on_loaded(self, shard: _Shard) -> None:
        shard.machine.on_loaded(self.now())
        for group_id in shard.machine.groups:
            self._watch(shard, group_id)

    def _on_closed(self, shard: _Shard) -> None:
        for timer in shard.timers.values():
            timer.cancel()
        shard.timers.clear()
        _send(shard.machine.fail_all_pending_requests(ErrorCode.NOT_COORDINATOR))

    # --- lookup ---------------------------------------------------------------------------------------------------------------

    def get(self, group_id: str) -> Group | None:
        """Return the group with this id, or None if it does not exist. Raises Rejected if this broker does not coordinate the group, or has
        not loaded the group's partition yet.
        """
        return self.shards.of(group_id).machine.groups.get(group_id)

    def all_groups(self) -> Iterator[Group]:
        """Yield every group that this broker coordinates. Raises Rejected(COORDINATOR_LOAD_IN_PROGRESS) while some are not loaded."""
        for shard in self.shards.all():
            yield from shard.machine.groups.values()

    def machines(self) -> Iterator[GroupCoordinator]:
        """Yield the group state machine of each loaded partition of `__consumer_offsets`; one machine has all groups of its partition."""
        for shard in self.shards.serving():
            yield shard.machine

    # --- membership -----------------------------------------------------------------------------------------------------------

    def join(self, group_id: str, request: JoinRequest) -> JoinGroupResult | asyncio.Future[JoinGroupResult]:
        """Handle JoinGroup. Return the response, or a future of the response if the client has to wait for the join phase. Raises Rejected
        if the group id is empty (INVALID_GROUP_ID), or if this broker does not coordinate the group or has not loaded it yet; any other
        error is in the response."""
        shard = self._shard_of_members(group_id)
        future: asyncio.Future[JoinGroupResult] = asyncio.get_running_loop().create_future()
        self.append_and_deliver(shard, group_id, shard.machine.join(group_id, request, future, self.now()))
        return future.result() if future.done() else future

    def sync(self, group_id: str, request: SyncRequest) -> SyncGroupResult | asyncio.Future[SyncGroupResult]:
        """Handle SyncGroup. Return the response, or a future of the response if the client has to wait for the leader's assignment. Raises
        Rejected if the group id is empty (INVALID_GROUP_ID), or if this broker does not coordinate the group or has not loaded it yet; any
        other error is in the response."""
        shard = self._shard_of_members(group_id)
        future: asyncio.Future[SyncGroupResult] = asyncio.get_running_loop().create_future()
        self.append_and_deliver(shard, group_id, shard.machine.sync(group_id, request, future, self.now()))
        return future.result() if future.done() else future

    def heartbeat(self, group_id: str, member_id: str, instance_id: str | None, generation: int) -> ErrorCode:
        """Handle the heartbeat of a classic group's member. Return the error code of the response; nothing is raised. While the group is
        being loaded the heartbeat succeeds (NONE), as in Kafka.
        """
        try:
            shard = self._shard_of_members(group_id)
        except Rejected as refused:
            return ErrorCode.NONE if refused.code is ErrorCode.COORDINATOR_LOAD_IN_PROGRESS else refused.code
        error = shard.machine.heartbeat(group_id, member_id, instance_id, generation, self.now())
        if error is ErrorCode.REBALANCE_IN_PROGRESS:
            self._watch(shard, group_id)
        return error

    def consumer_heartbeat(self, beat: Heartbeat) -> HeartbeatResult | asyncio.Future[HeartbeatResult]:
        """Handle ConsumerGroupHeartbeat: let a member join, stay in or leave a consumer group. Return the response, or a future of the
        response that completes when the records that the heartbeat has written are committed. Raises Rejected with the response's error
        code, such as FENCED_MEMBER_EPOCH.
        """
        try:
            shard = self.shards.of(beat.group_id)
        except Rejected:
            from ottla.broker.groups.consumer_heartbeat import check  # noqa: PLC0415 # see the module's rules

            # Kafka validates the request before it looks for the coordinator, so an invalid one gets its own error either way.
            check(beat, self._consumer_config(beat.group_id))
            raise
        effects = shard.machine.consumer_heartbeat(beat, self.now())
        answer, replies = effects.response
        try:
            return shard.run(Effects(effects.records, answer))
        except Rejected:
            replies += shard.machine.on_write_failed(beat.group_id, self.now())
            raise
        finally:
            self.append_and_deliver(shard, beat.group_id, Effects((), replies))

    def streams_heartbeat(
        self, beat: StreamsGroupHeartbeatRequest, client_id: str, client_host: str
    ) -> StreamsHeartbeatResult | asyncio.Future[StreamsHeartbeatResult]:
        """Handle StreamsGroupHeartbeat: let a member join, stay in or leave a streams group. Return the response, or a future of the
        response that completes when the records that the heartbeat has written are committed. Raises Rejected with the response's error
        code, such as FENCED_MEMBER_EPOCH.
        """
        from ottla.broker.groups.streams_heartbeat import check  # noqa: PLC0415 # see the module's rules

        # As in Kafka, an invalid request gets its own error, even if another broker coordinates the group.
        check(beat, has_4_4_features=self._settings.release_behaviour.extends_streams_groups)
        shard = self.shards.of(beat.group_id)
        return self.append_and_respond(shard, beat.group_id, shard.machine.streams.heartbeat(beat, client_id, client_host, self.now()))

    def leave(self, group_id: str, leaving: list[LeavingMember]) -> list[ErrorCode] | asyncio.Future[list[ErrorCode]]:
        """Handle LeaveGroup: remove members from a group. Return one error code per member, in the order of `leaving`, or a future of the
        codes that completes when the records are committed. Raises Rejected for an error of the whole request, such as NOT_COORDINATOR.
        """
        shard = self._shard_of_members(group_id)
        errors, effects = shard.machine.leave(group_id, leaving, self.now())
        failure = self.append_and_deliver(shard, group_id, effects)
        if failure is not None:
            raise failure
        return shard.run(Effects((), errors))

    # --- offsets --------------------------------------------------------------------------------------------------------------

    def commit(self, commit: Commit) -> list[ErrorCode] | asyncio.Future[list[ErrorCode]]:
        """Handle OffsetCommit: write a group's offsets. Return one error code per offset, in order, or a future of the codes that completes
        when the records of the offsets are below the high watermark. Raises Rejected for an error of the whole request, such as
        NOT_COORDINATOR.
        """
        shard = self.shards.of(commit.group_id)
        return shard.run(shard.machine.commit(commit, self.now()))

    def offsets_partition(self, group_id: str) -> Partition:
        """Return the partition that the group's offsets are written to. Raises Rejected: NOT_COORDINATOR if this broker does not lead the
        partition, COORDINATOR_LOAD_IN_PROGRESS while the partition is being loaded.

        Without an offsets topic the error is COORDINATOR_NOT_AVAILABLE, as for a transactional append to a missing partition (Kafka's
        CoordinatorOperationExceptionHelper); all other group requests get NOT_COORDINATOR then.
        """
        if not self.shards.exist:
            raise Rejected(ErrorCode.COORDINATOR_NOT_AVAILABLE)
        return self.shards.of(group_id).partition

    def commit_transactional(
        self, commit: Commit, producer_id: int, producer_epoch: int, guard: VerificationGuard | None
    ) -> list[ErrorCode] | asyncio.Future[list[ErrorCode]]:
        """Handle TxnOffsetCommit: write offsets that the group gets when the producer's transaction commits. Return one error code per
        offset, in order, or a future of the codes. Raises Rejected for an error of the whole request, such as NOT_COORDINATOR.

        The caller has verified with the transaction coordinator that the offsets partition belongs to the transaction. `guard` is the proof
        of that verification; it is None if the transaction is already open in the partition.
        """
        shard = self.shards.of(commit.group_id)
        effects = shard.machine.commit(commit, self.now())
        if not effects.records:
            return shard.run(effects)
        return shard.run_transactional(effects, producer_id, producer_epoch, self._clock.now_ms(), guard)

    def write_marker(self, index: int, marker: TxnMarker) -> Committed:
        """Write a transaction marker to partition `index` of the offsets topic: the producer's offsets become visible, or are dropped.
        Return None if the marker is committed already, otherwise a future that is done when it is.

        Raises Rejected: NOT_LEADER_OR_FOLLOWER if this broker does not lead the partition or has not loaded it, UNKNOWN_TOPIC_OR_PARTITION
        if the partition does not exist.
        """
        shard = self.shards.at(index)
        if shard.state is not ShardState.SERVING:
            raise Rejected(ErrorCode.NOT_LEADER_OR_FOLLOWER, "the groups of this partition are not loaded yet")
        return shard.append_marker(marker)

    def fetch(
        self,
        group_id: str,
        topics: Topics | None,
        *,
        require_stable: bool,
        member_id: str | None = None,
        member_epoch: int = -1,
        topic_ids: Mapping[str, bytes] | None = None,
    ) -> Fetched | asyncio.Future[Fetched]:
        """Handle OffsetFetch: return a group's committed offsets by topic, in the order of `topics`, or a future of the offsets. If
        `topics` is None, return all committed offsets. Raises Rejected for an error of the whole request, such as STALE_MEMBER_EPOCH if
        `member_epoch` is not the current epoch of `member_id`.

        With `require_stable`, an offset with a pending transactional commit gets the error UNSTABLE_OFFSET_COMMIT. An offset that was
        committed for another topic id than that in `topic_ids` is ignored, because the topic was deleted and created again.
        """
        shard = self.shards.of(group_id)
        wanted = shard.machine.fetch(
            group_id, topics, require_stable=require_stable, member_id=member_id, member_epoch=member_epoch, topic_ids=topic_ids
        )
        return shard.run(wanted)

    def delete_offsets(self, group_id: str, topics: Topics) -> list[tuple[str, ErrorCode]] | asyncio.Future[list[tuple[str, ErrorCode]]]:
        """Handle OffsetDelete. Return the topics in order, each with an error code (GROUP_SUBSCRIBED_TO_TOPIC if a member subscribes to the
        topic), or a future of this list that completes when the deletion is committed. Raises Rejected for an error of the whole request,
        such as GROUP_ID_NOT_FOUND.
        """
        shard = self.shards.of(group_id)
        return shard.run(shard.machine.delete_offsets(group_id, topics))

    def delete_group(self, group_id: str) -> asyncio.Future[None] | None:
        """Delete a group. Return a future that is done when the deletion is committed, or None if it is committed already. Raises Rejected,
        for example NON_EMPTY_GROUP if the group has members.
        """
        shard = self.shards.of(group_id)
        return shard.run(shard.machine.delete_group(group_id))

    def forget_topic(self, topic: str, topic_id: bytes) -> None:
        """Delete the committed offsets of a deleted topic in all loaded groups, and remove the topic from share groups."""
        for shard in self.shards.serving():
            self._append_in_pieces(shard, shard.machine.forget_topic(topic, topic_id))

    # --- internals ------------------------------------------------------------------------------------------------------------

    def now(self) -> Now:
        """Return the current monotonic time and wall-clock time, both in milliseconds."""
        return Now(self._clock.mono_ms(), self._clock.now_ms())

    def _shard_of_members(self, group_id: str) -> _Shard:
        """Return the shard (partition of `__consumer_offsets`) that stores a group, for the request of a group member. Raises Rejected:
        INVALID_GROUP_ID for an empty group id, otherwise a coordinator error such as NOT_COORDINATOR.
        """
        if not group_id:
            raise Rejected(ErrorCode.INVALID_GROUP_ID)
        return self.shards.of(group_id)

    def _consumer_config(self, group_id: str) -> ConsumerConfig:
        return consumer_config(self._settings, self._overrides_of(group_id))

    def append_and_respond(self, shard: _Shard, group_id: str, effects: Effects[GroupRecord, T]) -> T | asyncio.Future[T]:
        """Append and apply the records of `effects`, the state machine's decision on a member's request, and schedule the group's next
        deadline. Return the decision's response, or a future of the response that completes when the records are committed.

        Raises Rejected if the append fails.
        """
        try:
            return shard.run(effects)
        except Rejected:
            shard.machine.on_write_failed(group_id, self.now())
            raise
        finally:
            self.append_and_deliver(shard, group_id, Effects((), []))

    def append_and_deliver(self, shard: _Shard, group_id: str, effects: Effects[GroupRecord, Replies]) -> Rejected | None:
        """Append and apply the records of `effects`, the state machine's decision about a group. Complete the waiting JoinGroup and
        SyncGroup requests that the decision answers, and schedule the group's next deadline.

        If the append fails, these requests get the error of the append, and it is returned, not raised.
        """
        replies, committed, failure = effects.response, None, None
        try:
            committed = shard.append(effects.records)
        except Rejected as error:
            failure = error
            logger.warning("Could not write the metadata of group %s: %s", group_id, error)
            replies = _failed(replies, error.code) + shard.machine.on_write_failed(group_id, self.now())
        else:
            replies = replies + shard.machine.after_append(group_id, self.now())
        self._deliver(shard, replies, committed)
        self._watch(shard, group_id)
        resolution = shard.machine.next_resolution(group_id)
        if resolution is not None:
            # If the resolution fails because of a bug, the members get no matching topics until a later heartbeat starts another one.
            self._nursery.run("resolution of a regular expression", partial(self._resolve, shard, resolution))
        return failure

    async def _resolve(self, shard: _Shard, resolution: Resolution) -> None:
        """Match the regular expressions of a consumer group's members with the topics, in several turns of the event loop, and write the
        result. Drop the result if this broker stops leading the group's partition meanwhile.
        """
        try:
            for _ in resolution.steps(self.cluster, self._clock.now_ms()):
                await asyncio.sleep(0)
        finally:
            effects = shard.machine.end_resolution(resolution, self.now())
        if shard.state is ShardState.SERVING:
            self.append_and_deliver(shard, resolution.group_id, effects)

    def _deliver(self, shard: _Shard, replies: Replies, committed: Committed) -> None:
        """Complete the waiting JoinGroup and SyncGroup requests with `replies`, when the records on which the responses depend are
        committed (`committed`).
        """
        due = shard.respond_after(committed, replies, lambda error: _failed(replies, error.code)) if replies else replies
        if isinstance(due, asyncio.Future):
            due.add_done_callback(lambda done: _send(done.result()))
        else:
            _send(due)

    def _watch(self, shard: _Shard, group_id: str) -> None:
        """Schedule the group's timer for the group's next deadline, such as a session timeout. A timer that is due earlier is kept; when it
        fires, this method is called again.
        """
        deadline = shard.machine.next_deadline(group_id)
        timer = shard.timers.get(group_id)
        if deadline is None:
            if timer is not None:
                shard.timers.pop(group_id).cancel()
            return
        if timer is not None:
            if timer.deadline_ms <= deadline:
                return
            timer.cancel()
        shard.timers[group_id] = self._timers.schedule(deadline, lambda: self._deadline(shard, group_id))

    def _deadline(self, shard: _Shard, group_id: str) -> None:
        effects = shard.machine.expire_members(group_id, self.now())
        timer = shard.timers.pop(group_id, None)
        if timer is not None:
            timer.cancel()
        self.append_and_deliver(shard, group_id, effects)

    def _expire_offsets(self, shard: _Shard) -> None:
        self._append_in_pieces(shard, shard.machine.expire_offsets(self.now()))

    def _append_in_pieces(self, shard: _Shard, effects: Effects[GroupRecord, None]) -> None:
        """Append the records that delete committed offsets, in several batches. If a batch fails, the later ones are not written; the next
        periodic check finds their offsets again.
        """
        try:
            shard.append_independently(effects.records, EXPIRY_RECORDS_PER_BATCH)
        except Rejected as error:
            logger.warning("Could not delete offsets in %s-%d: %s", CONSUMER_OFFSETS, shard.partition.index, error)


def new_member_id(prefix: str, random_bytes: Callable[[int], bytes]) -> str:
    """Return the id of a new member: `prefix` (client id or instance id), a hyphen and a random UUID (Kafka's
    ClassicGroup.generateMemberId).

    The prefix is cut so that the id has at most STRING_BYTES_MAX bytes.
    """
    suffix = f"-{random_member_id(random_bytes)}"
    return prefix.encode()[: STRING_BYTES_MAX - len(suffix)].decode(errors="ignore") + suffix


def random_member_id(random_bytes: Callable[[int], bytes]) -> str:
    """Return a random member id, for a client that sent none (version 0 of ConsumerGroupHeartbeat)."""
    from uuid import UUID  # noqa: PLC0415 # keeps it out of the start-up time

    return str(UUID(bytes=random_bytes(16), version=4))


def _send(replies: Replies) -> None:
    for future, result in replies:
        assert isinstance(future, asyncio.Future), "this service uses futures as request keys"
        if not future.done():
            future.set_result(result)


def _failed(replies: Replies, error: ErrorCode) -> Replies:
    """Return `replies` (the responses to waiting JoinGroup and SyncGroup requests) with each response replaced by one with `error`."""
    return [
        Reply(future, JoinGroupResult(error=error) if isinstance(result, JoinGroupResult) else SyncGroupResult(error=error))
        for future, result in replies
    ]
