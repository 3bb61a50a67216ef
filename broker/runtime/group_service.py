"""The groups of this broker: finds the machine of a group, carries out what it decides, and answers whoever waits.

Rules that hold here:

* A group lives in the partition of `__consumer_offsets` that its id hashes to. The topic is created when a coordinator is first needed,
  at once, so that nobody has to ask again.
* A member that has to wait holds a future, which is its ticket in the machine. It is answered when the phase that it waits for ends, even
  if its connection has gone meanwhile and nobody hears it; so nothing is left behind.
* Each group has at most one timer, never later than its next deadline. A heartbeat only moves deadlines back, so it touches no timer: one
  that comes too early looks again. One that tells the member to join again may begin a deadline, the member's for doing so.
* The machines (`broker.groups`) are imported when the first partition is served: half of what a start would import, and a broker without
  groups needs none of it.
* Without an offsets topic there is no coordinator yet, and every group answers NOT_COORDINATOR (KAFKA: CoordinatorRuntime), by which a
  client asks for the coordinator and so has the topic made.
* Until its partition is read back, a group answers COORDINATOR_LOAD_IN_PROGRESS (heartbeats: nothing wrong, as KAFKA does); if it cannot
  be, NOT_COORDINATOR.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable, Iterator, Mapping
from typing import TYPE_CHECKING, TypeVar
from uuid import uuid4

from broker.core.effects import Effects
from broker.core.java_hash import partition_of
from broker.core.rejected import Rejected
from broker.groups.answers import JoinAnswer, Reply, SyncAnswer
from broker.groups.states import Now
from broker.runtime.coordinator import Coordinator, Durable, append_error
from broker.runtime.group_topics import GroupTopics
from broker.topics.group_config import HEARTBEAT_INTERVAL_MS, SESSION_TIMEOUT_MS, effective_group_values
from protocol.error_codes import ErrorCode
from protocol.wire import STRING_BYTES_MAX

if TYPE_CHECKING:
    from broker.core.clock import Clock
    from broker.core.settings import BrokerSettings
    from broker.core.timers import TimerHandle, Timers
    from broker.groups.classic import Leaving, Syncing
    from broker.groups.classic_join import Joining
    from broker.groups.consumer_draft import ConsumerConfig
    from broker.groups.consumer_groups import Group
    from broker.groups.consumer_heartbeat import Heartbeat, HeartbeatAnswer
    from broker.groups.coordinator import Commit, Fetched, GroupsConfig, Replies, Topics
    from broker.groups.group_records import GroupRecord
    from broker.runtime.partition import Partition
    from broker.runtime.partitions import Partitions

OFFSETS_TOPIC = "__consumer_offsets"
EXPIRY_RECORDS_PER_BATCH = 1_000
"""Tombstones of expired offsets in one batch: at 100 bytes each well below the smallest max.message.bytes in use."""

LOAD_CHUNK_BYTES = 128 * 1024
"""Read back in one turn of the loop: about 1,000 offsets, 10 ms."""

LOAD_BEFORE_SERVING_S = 0.2
"""How long a start waits for groups: about 20,000 offsets. Most brokers have fewer and so never answer COORDINATOR_LOAD_IN_PROGRESS."""

T = TypeVar("T")

logger = logging.getLogger(__name__)


def groups_config(settings: BrokerSettings) -> GroupsConfig:
    """The machine's settings from the broker's."""
    from broker.groups.classic import ClassicConfig  # noqa: PLC0415 # see the module's rules
    from broker.groups.coordinator import GroupsConfig  # noqa: PLC0415 # see the module's rules

    return GroupsConfig(
        consumer=consumer_config(settings, {}),
        classic=ClassicConfig(initial_rebalance_delay_ms=settings.group_initial_rebalance_delay_ms, max_size=settings.group_max_size),
        min_session_timeout_ms=settings.group_min_session_timeout_ms,
        max_session_timeout_ms=settings.group_max_session_timeout_ms,
        offset_metadata_max=settings.offset_metadata_max_bytes,
        offsets_retention_ms=settings.offsets_retention_minutes * 60_000,
    )


def consumer_config(settings: BrokerSettings, overrides: Mapping[str, str]) -> ConsumerConfig:
    """What one consumer group runs with, from the broker's settings and its own."""
    from broker.groups.consumer_draft import ConsumerConfig  # noqa: PLC0415 # see the module's rules

    policy = settings.group_consumer_migration_policy.lower()
    values = effective_group_values(overrides, settings)
    return ConsumerConfig(
        session_timeout_ms=values[SESSION_TIMEOUT_MS],
        heartbeat_interval_ms=values[HEARTBEAT_INTERVAL_MS],
        max_size=settings.group_consumer_max_size,
        assignors=settings.group_consumer_assignors,
        allows_upgrade=policy in {"bidirectional", "upgrade"},
        allows_downgrade=policy in {"bidirectional", "downgrade"},
    )


class _Shard:
    """One partition of the offsets topic: its machine, its way to the log, and the timers of its groups."""

    def __init__(
        self, partition: Partition, config: GroupsConfig, topics: GroupTopics, config_of_consumers: Callable[[str], ConsumerConfig]
    ) -> None:
        from broker.groups.coordinator import GroupCoordinator  # noqa: PLC0415 # see the module's rules
        from broker.groups.group_records import decode_record, encode_record  # noqa: PLC0415 # see the module's rules

        self.partition = partition
        self.machine = GroupCoordinator(config, topics, config_of_consumers)
        self.coordinator: Coordinator[GroupRecord] = Coordinator(partition, self.machine, encode_record, decode_record)
        self.timers: dict[str, TimerHandle] = {}
        self.loaded = False
        self.unreadable = False

    def stop(self) -> None:
        for timer in self.timers.values():
            timer.cancel()
        self.timers.clear()


class GroupService:
    """All groups. `create_topic` makes the offsets topic with Kafka's settings for it, if it is not there; it raises Rejected when it
    cannot. `overrides_of` gives the settings of one group, as text."""

    def __init__(
        self,
        settings: BrokerSettings,
        clock: Clock,
        timers: Timers,
        partitions: Partitions,
        create_topic: Callable[[str], Awaitable[object]],
        *,
        overrides_of: Callable[[str], Mapping[str, str]] = lambda _: {},
    ) -> None:
        self._settings = settings
        self._clock = clock
        self._timers = timers
        self._partitions = partitions
        self._topics = GroupTopics(partitions)
        self._create_topic = create_topic
        self._overrides_of = overrides_of
        self._shards: dict[int, _Shard] = {}
        self._expiry: TimerHandle | None = None
        self._loading: asyncio.Task[None] | None = None
        self._stopped = False

    # --- life -----------------------------------------------------------------------------------------------------------------

    async def load(self) -> None:
        """Read all groups back. Returns when that is done, or after a moment: the rest is read while clients are served already."""
        self._schedule_expiry()
        self._loading = asyncio.get_running_loop().create_task(self._load_all())
        await asyncio.wait({self._loading}, timeout=LOAD_BEFORE_SERVING_S)
        if self._loading.done():
            self._loading.result()
        else:
            self._loading.add_done_callback(_report_bug)

    def stop(self) -> None:
        """Nobody waits any longer: members are told to find another coordinator, timers are off."""
        self._stopped = True
        if self._loading is not None:
            self._loading.cancel()
        if self._expiry is not None:
            self._expiry.cancel()
        for shard in self._shards.values():
            shard.stop()
            self._deliver(shard.machine.release_waiting(ErrorCode.NOT_COORDINATOR), None)

    # --- where a group is -----------------------------------------------------------------------------------------------------

    @property
    def topics(self) -> GroupTopics:
        """The topics as groups see them."""
        return self._topics

    @property
    def has_topic(self) -> bool:
        """Whether groups have a place to live in."""
        return self._partitions.by_name(OFFSETS_TOPIC) is not None

    async def create_topic(self) -> None:
        """Make the offsets topic. Raises Rejected."""
        await self._create_topic(OFFSETS_TOPIC)

    def get(self, group_id: str) -> Group | None:
        """The group, or None. Raises Rejected while it is not loaded."""
        return self._shard(group_id).machine.groups.get(group_id)

    def all_groups(self) -> Iterator[Group]:
        """Every group that is served. Raises Rejected(COORDINATOR_LOAD_IN_PROGRESS) while some are not loaded."""
        for shard in self._shards.values():
            if shard.unreadable:
                continue
            if not shard.loaded:
                raise Rejected(ErrorCode.COORDINATOR_LOAD_IN_PROGRESS)
            yield from shard.machine.groups.values()

    # --- membership -----------------------------------------------------------------------------------------------------------

    def join(self, group_id: str, joining: Joining) -> JoinAnswer | asyncio.Future[JoinAnswer]:
        """The answer, or a future of it. Raises Rejected when there is no coordinator."""
        shard = self._shard_of_members(group_id)
        ticket: asyncio.Future[JoinAnswer] = asyncio.get_running_loop().create_future()
        self._settle(shard, group_id, shard.machine.join(group_id, joining, ticket, self._now()))
        return ticket.result() if ticket.done() else ticket

    def sync(self, group_id: str, syncing: Syncing) -> SyncAnswer | asyncio.Future[SyncAnswer]:
        """The answer, or a future of it. Raises Rejected when there is no coordinator."""
        shard = self._shard_of_members(group_id)
        ticket: asyncio.Future[SyncAnswer] = asyncio.get_running_loop().create_future()
        self._settle(shard, group_id, shard.machine.sync(group_id, syncing, ticket, self._now()))
        return ticket.result() if ticket.done() else ticket

    def heartbeat(self, group_id: str, member_id: str, instance_id: str | None, generation: int) -> ErrorCode:
        """What the heartbeat is answered; it never waits."""
        try:
            shard = self._shard_of_members(group_id)
        except Rejected as refused:
            return ErrorCode.NONE if refused.code is ErrorCode.COORDINATOR_LOAD_IN_PROGRESS else refused.code
        error = shard.machine.heartbeat(group_id, member_id, instance_id, generation, self._now())
        if error is ErrorCode.REBALANCE_IN_PROGRESS:
            self._watch(shard, group_id)
        return error

    def consumer_heartbeat(self, beat: Heartbeat) -> HeartbeatAnswer | asyncio.Future[HeartbeatAnswer]:
        """Join, go on in or leave a consumer group. Raises Rejected."""
        try:
            shard = self._shard(beat.group_id)
        except Rejected:
            from broker.groups.consumer_heartbeat import check  # noqa: PLC0415 # see the module's rules

            check(beat, self._consumer_config(beat.group_id))  # what no coordinator would take is told so, whether there is one or not
            raise
        effects = shard.machine.consumer_heartbeat(beat, self._now())
        answer, replies = effects.response
        try:
            return self._run(shard, Effects(effects.records, answer))
        except Rejected:
            replies += shard.machine.abandon(beat.group_id, self._now())
            raise
        finally:
            self._settle(shard, beat.group_id, Effects((), replies))

    def leave(self, group_id: str, leaving: list[Leaving]) -> list[ErrorCode]:
        """One error for each of them. Raises Rejected for the whole request."""
        shard = self._shard_of_members(group_id)
        errors, effects = shard.machine.leave(group_id, leaving, self._now())
        self._settle(shard, group_id, effects)
        return errors

    # --- offsets --------------------------------------------------------------------------------------------------------------

    def commit(self, commit: Commit) -> list[ErrorCode] | asyncio.Future[list[ErrorCode]]:
        """One error for each offset, in order. Raises Rejected for the whole request."""
        shard = self._shard(commit.group_id)
        return self._run(shard, shard.machine.commit(commit, self._now()))

    def offsets_partition(self, group_id: str) -> Partition:
        """Where the group's offsets are written. Raises Rejected when there is no coordinator, or none yet.

        Without an offsets topic COORDINATOR_NOT_AVAILABLE, as a transaction's append to a partition that is not there (KAFKA:
        CoordinatorOperationExceptionHelper), where all that does not write to a transaction is NOT_COORDINATOR.
        """
        if not self.has_topic:
            raise Rejected(ErrorCode.COORDINATOR_NOT_AVAILABLE)
        return self._shard(group_id).partition

    def commit_transactional(
        self, commit: Commit, producer_id: int, producer_epoch: int
    ) -> list[ErrorCode] | asyncio.Future[list[ErrorCode]]:
        """One error for each offset, in order; what was taken becomes visible when the transaction commits.

        The caller has verified that the offsets' partition belongs to the transaction. Raises Rejected for the whole request.
        """
        shard = self._shard(commit.group_id)
        effects = shard.machine.commit(commit, self._now())
        if not effects.records:
            return self._run(shard, effects)
        try:
            return shard.coordinator.run_transactional(effects, producer_id, producer_epoch, self._clock.now_ms())
        except Rejected as error:
            raise Rejected(append_error(error.code), error.message) from error

    def write_marker(
        self, index: int, producer_id: int, epoch: int, *, commit: bool, coordinator_epoch: int, transaction_version: int
    ) -> Durable:
        """End a producer's transaction in partition `index` of the offsets topic: its offsets become visible, or go.

        Raises Rejected: NOT_LEADER_OR_FOLLOWER while the partition is not read back, UNKNOWN_TOPIC_OR_PARTITION when there is none.
        """
        shard = self._shard_at(index)
        if not shard.loaded:
            raise Rejected(ErrorCode.NOT_LEADER_OR_FOLLOWER, "the groups of this partition are not read back yet")
        return shard.coordinator.append_marker(producer_id, epoch, commit, coordinator_epoch, transaction_version)

    def fetch(
        self, group_id: str, topics: Topics | None, *, require_stable: bool, member_id: str | None = None, member_epoch: int = -1
    ) -> Fetched | asyncio.Future[Fetched]:
        """Committed offsets by topic, in the order asked. Raises Rejected for the whole group."""
        shard = self._shard(group_id)
        return self._run(
            shard, shard.machine.fetch(group_id, topics, require_stable=require_stable, member_id=member_id, member_epoch=member_epoch)
        )

    def delete_offsets(self, group_id: str, topics: Topics) -> list[tuple[str, ErrorCode]] | asyncio.Future[list[tuple[str, ErrorCode]]]:
        """One error for each topic, in order. Raises Rejected for the whole group."""
        shard = self._shard(group_id)
        return self._run(shard, shard.machine.delete_offsets(group_id, topics))

    def delete_group(self, group_id: str) -> asyncio.Future[None] | None:
        """Forget an empty group. Raises Rejected."""
        shard = self._shard(group_id)
        return self._run(shard, shard.machine.delete_group(group_id))

    def forget_topic(self, topic: str) -> None:
        """A topic was deleted: drop the offsets that groups committed for it."""
        for shard in self._shards.values():
            if shard.loaded:
                self._append_in_pieces(shard, shard.machine.forget_topic(topic))

    # --- the leaves -----------------------------------------------------------------------------------------------------------

    def _now(self) -> Now:
        return Now(self._clock.mono_ms(), self._clock.now_ms())

    def _shard(self, group_id: str) -> _Shard:
        """The loaded shard of a group. Raises Rejected."""
        topic = self._partitions.by_name(OFFSETS_TOPIC)
        if topic is None:
            raise Rejected(ErrorCode.NOT_COORDINATOR)
        try:
            shard = self._shard_at(partition_of(group_id, topic.count))
        except Rejected as error:
            raise Rejected(append_error(error.code), error.message) from error
        if not shard.loaded:
            raise Rejected(ErrorCode.NOT_COORDINATOR if shard.unreadable else ErrorCode.COORDINATOR_LOAD_IN_PROGRESS)
        return shard

    def _shard_of_members(self, group_id: str) -> _Shard:
        """The same for what only a group with a name can have. Raises Rejected, first of all for a name that is empty."""
        if not group_id:
            raise Rejected(ErrorCode.INVALID_GROUP_ID)
        return self._shard(group_id)

    def _shard_at(self, index: int) -> _Shard:
        shard = self._shards.get(index)
        if shard is None or shard.partition.removed:
            shard = self._open(index)
        return shard

    def _open(self, index: int) -> _Shard:
        """Begin to serve a partition. One without records has nothing to load."""
        before = self._shards.pop(index, None)
        if before is not None:
            before.stop()
        partition = self._partitions.get(OFFSETS_TOPIC, index)
        shard = self._shards[index] = _Shard(partition, groups_config(self._settings), self._topics, self._consumer_config)
        log = shard.partition.log
        shard.loaded = log.log_start_offset == log.log_end_offset
        return shard

    def _consumer_config(self, group_id: str) -> ConsumerConfig:
        return consumer_config(self._settings, self._overrides_of(group_id))

    async def _load_all(self) -> None:
        topic = self._partitions.by_name(OFFSETS_TOPIC)
        for shard in [self._open(index) for index in ([] if topic is None else topic.partitions)]:
            try:
                await self._load(shard)
            except Rejected as error:
                shard.unreadable = True
                logger.error("Could not read %s-%d back, its groups are not served: %s", OFFSETS_TOPIC, shard.partition.index, error)

    async def _load(self, shard: _Shard) -> None:
        if shard.loaded:
            return
        await shard.coordinator.load(min(self._settings.offsets_load_buffer_size, LOAD_CHUNK_BYTES))
        shard.loaded = True
        shard.machine.on_loaded(self._now())
        for group_id in shard.machine.groups:
            self._watch(shard, group_id)

    def _run(self, shard: _Shard, effects: Effects[GroupRecord, T]) -> T | asyncio.Future[T]:
        try:
            return shard.coordinator.run(effects)
        except Rejected as error:
            raise Rejected(append_error(error.code), error.message) from error

    def _settle(self, shard: _Shard, group_id: str, effects: Effects[GroupRecord, Replies]) -> None:
        """Carry out what a group decided, answer whom it answers, and see to its next deadline."""
        replies, durable = effects.response, None
        try:
            durable = shard.coordinator.append(effects.records)
        except Rejected as error:
            logger.warning("Could not write the metadata of group %s: %s", group_id, error)
            replies = _failed(replies, append_error(error.code)) + shard.machine.abandon(group_id, self._now())
        else:
            replies = replies + shard.machine.after_append(group_id, self._now())
        self._deliver(replies, durable)
        self._watch(shard, group_id)

    def _deliver(self, replies: Replies, durable: Durable) -> None:
        if durable is None:
            for reply in replies:
                _answer(reply)
        elif replies:
            durable.add_done_callback(lambda done: self._deliver_after(replies, done))

    def _deliver_after(self, replies: Replies, done: asyncio.Future[None]) -> None:
        error = None if done.cancelled() else done.exception()
        lost = done.cancelled() or error is not None
        self._deliver(_failed(replies, ErrorCode.NOT_COORDINATOR) if lost else replies, None)

    def _watch(self, shard: _Shard, group_id: str) -> None:
        """Have a timer run no later than the group's next deadline."""
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
        del shard.timers[group_id]
        self._settle(shard, group_id, shard.machine.expire_members(group_id, self._now()))

    def _schedule_expiry(self) -> None:
        interval = self._settings.offsets_retention_check_interval_ms
        self._expiry = self._timers.schedule(self._clock.mono_ms() + interval, self._expire_offsets)

    def _expire_offsets(self) -> None:
        self._schedule_expiry()
        self._expire_in(list(self._shards.values()))

    def _expire_in(self, shards: list[_Shard]) -> None:
        """Forget the expired offsets of one of these partitions, and of the others in later turns: all together may take a second."""
        if not shards or self._stopped:
            return
        shard = shards.pop()
        if shard.loaded and not shard.partition.removed:
            self._append_in_pieces(shard, shard.machine.expire_offsets(self._now()))
        asyncio.get_running_loop().call_soon(self._expire_in, shards)

    def _append_in_pieces(self, shard: _Shard, effects: Effects[GroupRecord, None]) -> None:
        """Tombstones that stand each for itself; those that cannot be written now will be decided again."""
        records = effects.records
        try:
            for start in range(0, len(records), EXPIRY_RECORDS_PER_BATCH):
                shard.coordinator.append(records[start : start + EXPIRY_RECORDS_PER_BATCH])
        except Rejected as error:
            logger.warning("Could not forget offsets in %s-%d: %s", OFFSETS_TOPIC, shard.partition.index, error)


def new_member_id(prefix: str) -> str:
    """The id of a new member, which begins with its client's or its instance's (KAFKA: ClassicGroup.generateMemberId), cut where the whole
    would be longer than a string of the protocol."""
    suffix = f"-{uuid4()}"
    return prefix.encode()[: STRING_BYTES_MAX - len(suffix)].decode(errors="ignore") + suffix


def random_member_id() -> str:
    """The id of a member that left the choice to us (version 0 of ConsumerGroupHeartbeat)."""
    return str(uuid4())


def _report_bug(loading: asyncio.Task[None]) -> None:
    """Groups that are not read back answer COORDINATOR_LOAD_IN_PROGRESS for ever; somebody has to learn why."""
    if not loading.cancelled() and loading.exception() is not None:
        logger.error("Bug while reading groups back", exc_info=loading.exception())


def _answer(reply: Reply) -> None:
    ticket = reply.ticket
    assert isinstance(ticket, asyncio.Future), "the tickets of this service are futures"
    if not ticket.done():
        ticket.set_result(reply.answer)


def _failed(replies: Replies, error: ErrorCode) -> Replies:
    """The same waiters, told that it came to nothing."""
    return [
        Reply(ticket, JoinAnswer(error=error, member_id=answer.member_id) if isinstance(answer, JoinAnswer) else SyncAnswer(error=error))
        for ticket, answer in replies
    ]
