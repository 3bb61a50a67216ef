"""The share groups that this broker coordinates: performs operations on them, for which it calls share coordinators and partition leaders.

Invariants:

* A heartbeat may add share partitions whose state must be initialized. The initialization begins after the heartbeat's records are
  committed, and the heartbeat's response does not wait for it. A later heartbeat assigns the partitions to members.
* A share partition has one initialization at a time, and none after one has succeeded, because each deletes the delivery states. It begins
  when no deletion of the group's state is in progress, because a deletion that is retried could take effect after it. (Kafka ensures
  neither.)
* The share coordinator alters offsets and deletes state. The response waits for it, and has an error for each share partition or topic that
  failed.
* A share group is deleted only when all its state is deleted.

Source: Kafka's GroupCoordinatorService (share groups).
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, TypeVar
from weakref import WeakValueDictionary

from ottla.broker.core.effects import Effects
from ottla.broker.core.rejected import Rejected
from ottla.broker.runtime.coordination.end_offsets import EndOffsets
from ottla.broker.runtime.coordination.group_service import GroupService
from ottla.broker.runtime.upkeep.nursery import Nursery, OnFailure
from ottla.broker.share.persister import UNINITIALIZED_START_OFFSET, Persister, SharePartitionKey, StateSummary
from ottla.protocol.error_codes import ErrorCode

if TYPE_CHECKING:
    from ottla.broker.groups.consumer_heartbeat import HeartbeatResult
    from ottla.broker.groups.group_records import GroupRecord
    from ottla.broker.groups.share_group import SharedTopics
    from ottla.broker.groups.share_groups import Initialization, ShareGroups
    from ottla.broker.groups.share_heartbeat import ShareHeartbeat

CALLS_PER_TURN = 100
"""The most calls to share coordinators in one turn of the event loop; then other work runs. A call to the share coordinator on this broker
takes about 50 microseconds."""

T = TypeVar("T")
TopicIdPartition = tuple[bytes, int]
"""A topic id and a partition index."""

logger = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class DescribedOffset:
    """The start offset of a share partition; -1 if there is none or the share state cannot be read. `lag` is the number of records up to
    the end offset whose delivery is not complete; -1 if it is unknown. If the end offset cannot be read, `error` is set and `start_offset`
    is 0.
    """

    partition: int
    start_offset: int = UNINITIALIZED_START_OFFSET
    leader_epoch: int = 0
    lag: int = -1
    error: ErrorCode = ErrorCode.NONE


class ShareGroupService:
    """All share groups that this broker coordinates. `groups` is the group coordinator, which has the groups' state machines; `persister`
    calls the share coordinators.
    """

    def __init__(self, groups: GroupService, persister: Persister, end_offsets: EndOffsets, nursery: Nursery) -> None:
        self._groups = groups
        self._persister = persister
        self._end_offsets = end_offsets
        self._nursery = nursery
        self._initializing: set[tuple[str, TopicIdPartition]] = set()
        """The share partitions whose initialization is in progress, with their group ids."""
        self._deleting: WeakValueDictionary[str, asyncio.Lock] = WeakValueDictionary()
        """A lock for each group whose share state is being deleted."""

    # --- operations -----------------------------------------------------------------------------------------------------------

    def heartbeat(self, beat: ShareHeartbeat) -> HeartbeatResult | asyncio.Future[HeartbeatResult]:
        """Handle ShareGroupHeartbeat: let a member join, stay in or leave a share group. Return the response, or a future of the response
        that completes when the records that the heartbeat has written are committed. Raises Rejected with the response's error code, such
        as FENCED_MEMBER_EPOCH.
        """
        from ottla.broker.groups.share_heartbeat import check  # noqa: PLC0415 # a start does not need it

        check(beat)  # as in Kafka, an invalid request gets its own error, even if another broker coordinates the group
        shard = self._groups.shards.of(beat.group_id)
        effects = shard.machine.shares.heartbeat(beat, self._groups.now())
        answer, initialization = effects.response
        response = self._groups.append_and_respond(shard, beat.group_id, Effects(effects.records, answer))
        if initialization.start_offsets:
            work = partial(self._initialize_after, response, beat.group_id, initialization)
            self._nursery.start("initialization of share partitions", work, OnFailure.GIVE_UP)
        return response

    async def alter_offsets(self, group_id: str, offsets: Mapping[TopicIdPartition, int]) -> Mapping[TopicIdPartition, Rejected]:
        """Set the start offsets of share partitions, by topic id and partition. Return an error for each share partition that failed.
        Raises Rejected for an error of the whole request, such as NON_EMPTY_GROUP if the group has members.
        """
        initialization = await self._write(group_id, lambda shares: shares.alter_offsets(group_id, offsets, self._groups.now()))
        failures = await self._initialize(group_id, initialization)
        if not failures:
            await self._write(group_id, lambda shares: shares.mark_initialized(group_id, _by_topic(offsets), self._groups.now()))
        return failures

    async def delete_offsets(self, group_id: str, topics: Sequence[str]) -> tuple[Mapping[bytes, Rejected | None], Sequence[str]]:
        """Delete the group's share state for whole topics. Return a map from the ids of topics with state to an error (None: the state was
        deleted), and the names of topics without state. Raises Rejected for an error of the whole request, such as NON_EMPTY_GROUP if the
        group has members.
        """
        deletion = await self._write(group_id, lambda shares: shares.delete_offsets(group_id, topics, self._groups.now()))
        failures = await self._delete(group_id, deletion.topics)
        results = {topic_id: failures.get(topic_id) for topic_id in deletion.topics}
        done = [topic_id for topic_id, failure in results.items() if failure is None]
        if done:
            await self._write(group_id, lambda shares: shares.mark_deleted(group_id, done, self._groups.now()))
        return results, deletion.unknown

    def has(self, group_id: str) -> bool:
        """Return whether a share group with this id exists. Raises Rejected if this broker does not coordinate the group id or has not
        loaded it yet.
        """
        group = self._groups.get(group_id)
        return group is not None and group.protocol_type == "share"

    async def delete_group(self, group_id: str) -> None:
        """Delete a share group without members, after the share coordinator has deleted all state of the group. Raises Rejected if the
        group cannot be deleted, for example because it has members.
        """

        def begin(shares: ShareGroups) -> Effects[GroupRecord, SharedTopics]:
            return shares.begin_deletion(shares.existing(group_id), self._groups.now())

        failures = await self._delete(group_id, await self._write(group_id, begin))
        if failures:
            raise next(iter(failures.values()))
        deleted = self._groups.delete_group(group_id)
        if deleted is not None:
            await deleted

    async def describe_offsets(self, group_id: str, topics: Mapping[bytes, Sequence[int]]) -> dict[bytes, list[DescribedOffset]]:
        """Return the start offset and lag of each of the group's share partitions in `topics` (topic ids and partitions), by topic id, in
        the requested order. Nothing is raised: `DescribedOffset` says what could not be read."""
        tps = [(topic_id, partition) for topic_id, partitions in topics.items() for partition in partitions]
        found = await self._each(tps, lambda tp: self._persister.summary(SharePartitionKey(group_id, *tp)))
        described: dict[bytes, list[DescribedOffset]] = {topic_id: [] for topic_id in topics}
        for (topic_id, partition), summary in zip(tps, found, strict=True):
            described[topic_id].append(await self._described(topic_id, partition, summary))
        return described

    def initialized_partitions(self, group_id: str) -> Mapping[bytes, Sequence[int]]:
        """Return the partitions whose share state is initialized for the group, by topic id; none if there is no such share group. Raises
        Rejected if this broker does not coordinate the group or has not loaded it yet.
        """
        group = self._groups.get(group_id)
        partitions = getattr(group, "partitions", None)
        return {} if partitions is None else {topic_id: sorted(topic.partitions) for topic_id, topic in partitions.initialized.items()}

    # --- internals ------------------------------------------------------------------------------------------------------------

    async def _described(self, topic_id: bytes, partition: int, summary: StateSummary | Rejected) -> DescribedOffset:
        if isinstance(summary, Rejected):
            return DescribedOffset(partition)
        start_offset = summary.start_offset
        if start_offset == UNINITIALIZED_START_OFFSET or summary.delivery_complete_count < 0:
            return DescribedOffset(partition, start_offset, summary.leader_epoch)
        try:
            end_offset = await self._end_offsets.of(topic_id, partition)
        except Rejected as rejected:
            return DescribedOffset(partition, start_offset=0, error=rejected.code)
        lag = end_offset - start_offset - summary.delivery_complete_count
        return DescribedOffset(partition, start_offset, summary.leader_epoch, lag)

    async def _initialize_after(self, response: object, group_id: str, initialization: Initialization) -> None:
        """Wait for `response`, the response to a heartbeat. Then initialize the share partitions in `initialization`, and write to the
        group whether all were initialized. Do nothing if the heartbeat failed.
        """
        if isinstance(response, asyncio.Future):
            await asyncio.wait([response])
            if response.cancelled() or response.exception() is not None:
                return
        async with self._lock_of(group_id):
            pass  # a deletion of the group's state has ended
        begun = initialization._replace(start_offsets=self._not_begun(group_id, initialization.start_offsets))
        if begun.start_offsets:
            await self._initialize_and_mark(group_id, begun)

    def _not_begun(self, group_id: str, start_offsets: Mapping[TopicIdPartition, int]) -> Mapping[TopicIdPartition, int]:
        """Return those of the share partitions in `start_offsets` which the group still has to initialize, and which no earlier request
        is initializing. No share partition is returned if this broker does not coordinate the group any more."""
        try:
            group = self._groups.get(group_id)
        except Rejected:
            return {}
        known = getattr(group, "partitions", None)
        wanted = {} if known is None else known.initializing
        return {
            (topic_id, partition): offset
            for (topic_id, partition), offset in start_offsets.items()
            if topic_id in wanted
            and partition in wanted[topic_id].partitions
            and (group_id, (topic_id, partition)) not in self._initializing
        }

    async def _initialize_and_mark(self, group_id: str, initialization: Initialization) -> None:
        failures = await self._initialize(group_id, initialization)
        partitions = _by_topic(initialization.start_offsets)
        for (topic_id, partition), failure in failures.items():
            logger.warning(
                "Could not initialize partition %d of topic %s for share group %s: %s", partition, topic_id.hex(), group_id, failure
            )
        try:
            if failures:
                await self._write(group_id, lambda shares: shares.mark_uninitialized(group_id, partitions, self._groups.now()))
            else:
                await self._write(group_id, lambda shares: shares.mark_initialized(group_id, partitions, self._groups.now()))
        except Rejected as rejected:
            logger.warning("Could not write which partitions of share group %s are initialized: %s", group_id, rejected)

    async def _initialize(self, group_id: str, initialization: Initialization) -> dict[TopicIdPartition, Rejected]:
        epoch, offsets = initialization
        keys = {(group_id, tp) for tp in offsets}
        self._initializing |= keys
        try:
            results = await self._each(offsets, lambda tp: self._persister.initialize(SharePartitionKey(group_id, *tp), epoch, offsets[tp]))
        finally:
            self._initializing -= keys
        return {tp: result for tp, result in zip(offsets, results, strict=True) if isinstance(result, Rejected)}

    async def _delete(self, group_id: str, topics: SharedTopics) -> dict[bytes, Rejected]:
        tps = [(topic_id, partition) for topic_id, topic in topics.items() for partition in sorted(topic.partitions)]
        async with self._lock_of(group_id):
            results = await self._each(tps, lambda tp: self._persister.delete(SharePartitionKey(group_id, *tp)))
        return {tp[0]: result for tp, result in zip(tps, results, strict=True) if isinstance(result, Rejected)}

    def _lock_of(self, group_id: str) -> asyncio.Lock:
        return self._deleting.setdefault(group_id, asyncio.Lock())

    async def _write(self, group_id: str, decide: Callable[[ShareGroups], Effects[GroupRecord, T]]) -> T:
        """Append the records that `decide` returns for the group, and return the response of that decision when the records are committed.
        Raises Rejected if `decide` rejects the operation or the append fails.
        """
        shard = self._groups.shards.of(group_id)
        response = shard.run(decide(shard.machine.shares))
        return await response if isinstance(response, asyncio.Future) else response

    async def _each(self, tps: Iterable[TopicIdPartition], call: Callable[[TopicIdPartition], T | asyncio.Future[T]]) -> list[T | Rejected]:
        """Run `call` for each share partition and return the results in order. An error (Rejected) is a result, too; it is not raised."""
        begun: list[T | asyncio.Future[T] | Rejected] = []
        for count, tp in enumerate(tps, 1):
            try:
                begun.append(call(tp))
            except Rejected as rejected:
                begun.append(rejected.without_traceback())
            if count % CALLS_PER_TURN == 0:
                await asyncio.sleep(0)
        results: list[T | Rejected] = []
        for each in begun:
            try:
                results.append(await each if isinstance(each, asyncio.Future) else each)
            except Rejected as rejected:
                results.append(rejected.without_traceback())
        return results


def _by_topic(tps: Iterable[TopicIdPartition]) -> dict[bytes, frozenset[int]]:
    found: dict[bytes, frozenset[int]] = {}
    for topic_id, partition in tps:
        found[topic_id] = found.get(topic_id, frozenset()) | {partition}
    return found
