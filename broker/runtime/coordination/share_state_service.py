"""The share coordinator of this broker (KIP-932): finds a share partition's state machine and applies its decisions.

Invariants:

* The state of a share partition lives in the partition of `__share_group_state` that its key hashes to.
* The topic is not compacted. Records before the oldest snapshot that is still needed are deleted periodically. Idle share partitions get
  new snapshots, so that an old snapshot does not prevent the deletion.
* A deleted topic's share partitions lose their state.

Source: Kafka's ShareCoordinatorService.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable
from typing import TYPE_CHECKING

from ottla.broker.cluster.catalog import Catalog
from ottla.broker.cluster.topic_names import SHARE_GROUP_STATE
from ottla.broker.core.effects import Effects
from ottla.broker.core.rejected import Rejected
from ottla.broker.core.settings import BrokerSettings
from ottla.broker.core.timers import TimerHandle
from ottla.broker.runtime.coordination.shard import Shard
from ottla.broker.runtime.coordination.shards import Shards
from ottla.broker.runtime.replicas.partition import Partition
from ottla.broker.runtime.replicas.partitions import Partitions
from ottla.broker.runtime.upkeep.nursery import Nursery
from ottla.broker.share.persister import ReadState, SharePartitionKey, StateSummary, WrittenState

if TYPE_CHECKING:
    from ottla.broker.share.state_coordinator import ShareState, ShareStateCoordinator
    from ottla.broker.share.state_records import ShareRecord

RECORDS_PER_BATCH = 1_000
"""The most snapshots of idle share partitions, or deletions of a topic's states, in one batch."""

logger = logging.getLogger(__name__)


class _Shard(Shard["ShareRecord", "ShareStateCoordinator"]):
    """One partition of `__share_group_state` that this broker leads, with its state machine."""


class ShareStateService:
    """The share coordinator of this broker. Its methods raise Rejected with the error code for the response, such as NOT_COORDINATOR."""

    def __init__(
        self,
        settings: BrokerSettings,
        nursery: Nursery,
        partitions: Partitions,
        *,
        create_topic: Callable[[str], Awaitable[object]],
        catalog: Catalog,
    ) -> None:
        self._settings = settings
        self._clock = nursery.clock
        self._timers = nursery.timers
        self._catalog = catalog
        self.writes = 0
        """The number of WriteShareGroupState operations since the broker's start."""
        self.shards: Shards[_Shard] = Shards(
            SHARE_GROUP_STATE,
            partitions,
            lambda: catalog.partition_count(SHARE_GROUP_STATE),
            self._make_shard,
            create_topic=create_topic,
            nursery=nursery,
            loaded=lambda _: None,
            chunk_bytes=settings.share_coordinator_load_buffer_size,
        )

    # --- life -----------------------------------------------------------------------------------------------------------------

    async def load(self) -> None:
        """Start to load the share state that this broker coordinates. Return when it is loaded, or after LOAD_BEFORE_SERVING_MS; the
        loading then continues while clients are served. Also start two periodic jobs: the deletion of records that are not needed any more,
        and snapshots of idle share partitions.
        """
        settings = self._settings
        self.shards.sweep_every("pruning of share state", settings.share_coordinator_state_topic_prune_interval_ms, self._prune)
        cold_ms = settings.share_coordinator_cold_partition_snapshot_interval_ms
        self.shards.sweep_every("snapshots of idle share partitions", cold_ms, self._snapshot_cold)
        await self.shards.load()

    def stop(self) -> None:
        """Stop the share coordinator, because the broker is shutting down. Its requests then get NOT_COORDINATOR."""
        self.shards.stop()

    def find(self, key: SharePartitionKey) -> ShareState | None:
        """Return the share partition's state; None if there is no state, or this broker does not coordinate it or has not loaded it."""
        try:
            return self.shards.of(key.coordinator_key).machine.states.get(key)
        except Rejected:
            return None

    # --- requests -------------------------------------------------------------------------------------------------------------

    def initialize(self, key: SharePartitionKey, state_epoch: int, start_offset: int) -> asyncio.Future[None] | None:
        """Initialize a share partition's state with a state epoch, a start offset and no delivery states. Return a future that is done when
        the state is durable, None if it is durable already. Raises Rejected, for example FENCED_STATE_EPOCH if a higher state epoch is
        stored.
        """
        shard = self._shard(key)
        return shard.run(shard.machine.initialize(key, state_epoch, start_offset, self._clock.now_ms()))

    def read(self, key: SharePartitionKey, leader_epoch: int) -> ReadState | asyncio.Future[ReadState]:
        """Return a share partition's state, or a future of the state, and store `leader_epoch`, so that writes with a lower leader epoch
        are rejected. Raises Rejected, for example FENCED_LEADER_EPOCH if a higher epoch is stored.
        """
        shard = self._shard(key)
        return shard.run(shard.machine.read(key, leader_epoch, self._clock.now_ms()))

    def write(self, key: SharePartitionKey, state: WrittenState) -> asyncio.Future[None] | None:
        """Write changes of a share partition's state. Return a future that is done when the changes are durable, or None if they are
        durable already. Raises Rejected, for example FENCED_STATE_EPOCH for a lower state epoch than the stored one.
        """
        shard = self._shard(key)
        self.writes += 1
        return shard.run(shard.machine.write(key, state, self._clock.now_ms()))

    def summary(self, key: SharePartitionKey) -> StateSummary | asyncio.Future[StateSummary]:
        """Return a share partition's start offset, state epoch and leader epoch, without its delivery states; or a future of them that
        waits for earlier writes.
        """
        shard = self._shard(key)
        return shard.run(Effects((), shard.machine.summary(key)))

    def delete(self, key: SharePartitionKey) -> asyncio.Future[None] | None:
        """Delete a share partition's state, if there is any. Return a future that is done when the deletion is durable, None if it is
        durable already."""
        shard = self._shard(key)
        return shard.run(shard.machine.delete(key))

    def forget_topic(self, topic_id: bytes) -> None:
        """Delete the share state of a deleted topic in all loaded partitions of `__share_group_state`. A failure is only logged."""
        for shard in self.shards.serving():
            self._append(shard, shard.machine.of_deleted_topic(topic_id), "delete the share state of a deleted topic")

    # --- internals ------------------------------------------------------------------------------------------------------------

    def _make_shard(self, partition: Partition) -> _Shard:
        from ottla.broker.share.state_records import decode_record, encode_record  # noqa: PLC0415 # a start does not need it

        return _Shard(partition, self._make_machine(), encode_record, decode_record, self._schedule_timeout)

    def _make_machine(self) -> ShareStateCoordinator:
        from ottla.broker.share import state_coordinator  # noqa: PLC0415 # a start does not need it

        updates_per_snapshot = self._settings.share_coordinator_snapshot_update_records_per_snapshot
        return state_coordinator.ShareStateCoordinator(
            updates_per_snapshot,
            self._has_partition,
            is_strict=self._settings.release_behaviour.has_strict_share_states,
            reads_unfenced=self._settings.release_behaviour.reads_share_state_unfenced,
        )

    def _has_partition(self, topic_id: bytes, index: int) -> bool:
        topic = self._catalog.topic_by_id(topic_id)
        return topic is not None and index < len(topic.partitions)

    def _shard(self, key: SharePartitionKey) -> _Shard:
        return self.shards.of(key.coordinator_key)

    def _schedule_timeout(self, callback: Callable[[], None]) -> TimerHandle:
        return self._timers.schedule(self._clock.mono_ms() + self._settings.share_coordinator_write_timeout_ms, callback)

    def _prune(self, shard: _Shard) -> None:
        offset, log = shard.machine.redundant_before(), shard.partition.log
        if offset is None or offset <= log.log_start_offset:
            return
        try:
            log.delete_records_before(min(offset, log.high_watermark))
        except Rejected as error:
            logger.warning("Could not delete superseded records of %s-%d: %s", SHARE_GROUP_STATE, shard.partition.index, error)

    def _snapshot_cold(self, shard: _Shard) -> None:
        interval_ms = self._settings.share_coordinator_cold_partition_snapshot_interval_ms
        self._append(shard, shard.machine.cold_snapshots(interval_ms, self._clock.now_ms()), "write snapshots of idle share partitions")

    @staticmethod
    def _append(shard: _Shard, records: list[ShareRecord], purpose: str) -> None:
        try:
            shard.append_independently(records, RECORDS_PER_BATCH)
        except Rejected as error:
            logger.warning("Could not %s in %s-%d: %s", purpose, SHARE_GROUP_STATE, shard.partition.index, error)
