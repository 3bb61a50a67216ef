"""The partitions of one internal topic that this broker coordinates, for groups, transactions and share state alike. The state machine of
one such partition is a shard.

Invariants:

* A key belongs to the partition whose index is the key's hash modulo the topic's partition count. Offline partitions count, so that a
  failure does not move keys to other partitions.
* A shard exists for one leader epoch. Metadata updates start and end it (`follow`), and a shard of an older epoch is never used.
* A shard answers COORDINATOR_LOAD_IN_PROGRESS while it loads and NOT_COORDINATOR if it cannot be loaded. An empty partition is served at
  once.

Source: Kafka's CoordinatorRuntime, TransactionStateManager.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Iterable
from contextlib import suppress
from functools import partial
from typing import Any, Generic, Protocol, TypeVar

from ottla.broker.core.java_hash import partition_of
from ottla.broker.core.rejected import Rejected
from ottla.broker.runtime.coordination.shard import Shard, ShardState
from ottla.broker.runtime.replicas.partition import Partition
from ottla.broker.runtime.replicas.partitions import Partitions
from ottla.broker.runtime.upkeep.nursery import Nursery
from ottla.broker.runtime.upkeep.timer_driver import wait_at_most
from ottla.protocol.error_codes import ErrorCode

LOAD_CHUNK_BYTES = 128 * 1024
"""The most bytes of a log that are read at a time while a shard is loaded: about 1,000 records."""

LOAD_BEFORE_SERVING_MS = 200
"""How many milliseconds a broker's start waits for a coordinator's partitions to be loaded: about 20,000 records, more than most compacted
logs hold."""

ShardT = TypeVar("ShardT", bound=Shard[Any, Any])


class Elections(Protocol):
    """The source of leadership changes (`Publisher`): two lists of callbacks. Each callback gets topic, partition index and leader epoch.
    The epoch is None if this broker's replica was removed (as in onElection and onResignation of Kafka's coordinators).
    """

    on_election: list[Callable[[str, int, int], None]]
    on_resignation: list[Callable[[str, int, int | None], None]]


class Shards(Generic[ShardT]):
    """The shards of one internal topic: the state machines of the partitions that this broker leads. `make` builds a shard; `loaded` is
    called with each shard after it was loaded (not if its partition was empty), `closed` with each shard that has ended.

    `partition_count` returns the topic's partition count, 0 while the topic does not exist. `create_topic` creates the topic with Kafka's
    settings, or raises Rejected. A log is loaded in chunks of `chunk_bytes`, at most LOAD_CHUNK_BYTES.
    """

    def __init__(
        self,
        topic: str,
        partitions: Partitions,
        partition_count: Callable[[], int],
        make: Callable[[Partition], ShardT],
        *,
        create_topic: Callable[[str], Awaitable[object]],
        nursery: Nursery,
        loaded: Callable[[ShardT], object],
        closed: Callable[[ShardT], object] = lambda _: None,
        chunk_bytes: int = LOAD_CHUNK_BYTES,
    ) -> None:
        self._topic = topic
        self._partitions = partitions
        self._partition_count = partition_count
        self._make = make
        self._create_topic = create_topic
        self._nursery = nursery
        self._loaded = loaded
        self._closed = closed
        self._chunk_bytes = min(chunk_bytes, LOAD_CHUNK_BYTES)
        self._shards: dict[int, ShardT] = {}

    # --- life -----------------------------------------------------------------------------------------------------------------

    async def load(self) -> None:
        """Load the shards (state machines) of all partitions that this broker leads.

        Return when all are loaded, or after LOAD_BEFORE_SERVING_MS; the loading then continues while clients are served.
        """
        topic = self._partitions.by_name(self._topic)
        led = [] if topic is None else [partition for partition in topic.partitions.values() if partition.leads]
        shards = [self._begin(partition) for partition in led if not self._is_current(partition)]
        if not shards:
            return
        nursery = self._nursery
        await wait_at_most(nursery.timers, nursery.clock, LOAD_BEFORE_SERVING_MS, [self._spawn(shards)])

    def follow(self, elections: Elections) -> None:
        """From now on, start the shard of a partition when this broker becomes the partition's leader, and end the shard when the
        leadership ends. `elections` reports these changes."""
        elections.on_election.append(lambda topic, index, _: self.on_election(index) if topic == self._topic else None)
        elections.on_resignation.append(lambda topic, index, epoch: self.on_resignation(index, epoch) if topic == self._topic else None)

    def on_election(self, index: int) -> None:
        """Start the state machine (shard) of partition `index`, which this broker leads now; it loads in the background."""
        with suppress(Rejected):  # the partition is offline; a request for it gets the error
            self.at(index)

    def on_resignation(self, index: int, leader_epoch: int | None) -> None:
        """End the shard of partition `index`: another broker leads the partition since `leader_epoch`, or the replica was removed (None).

        A notification of an earlier leader epoch than the shard's is ignored.
        """
        shard = self._shards.get(index)
        if shard is not None and (leader_epoch is None or shard.epoch < leader_epoch):
            self._close(self._shards.pop(index))

    def sweep_every(self, name: str, interval_ms: int, sweep: Callable[[ShardT], object]) -> None:
        """Call `sweep` for each loaded shard every `interval_ms`, one shard per turn of the event loop, because all of them together may
        take a second."""

        async def sweep_all() -> None:
            for shard in self.serving():
                if shard.state is ShardState.SERVING and not shard.partition.removed:
                    with self._nursery.step(f"{name} of %s-%d", self._topic, shard.partition.index):
                        sweep(shard)
                await asyncio.sleep(0)

        self._nursery.every(name, interval_ms, sweep_all)

    def stop(self) -> None:
        """End the state machines (shards) of all partitions, because the broker is shutting down. Requests for their keys then get
        NOT_COORDINATOR.
        """
        for shard in self._shards.values():
            self._close(shard)

    # --- lookup ---------------------------------------------------------------------------------------------------------------

    @property
    def exist(self) -> bool:
        """Whether the internal topic of these shards, such as `__consumer_offsets`, exists."""
        return self._partition_count() > 0

    async def create_topic(self) -> None:
        """Create the internal topic of these shards, such as `__consumer_offsets`. Raises Rejected if it cannot be created."""
        await self._create_topic(self._topic)

    def of(self, key: str) -> ShardT:
        """Return the shard (state machine of a partition) that has the state of `key`, such as a group id. Raises Rejected:
        NOT_COORDINATOR, or COORDINATOR_LOAD_IN_PROGRESS while the shard is not loaded.
        """
        count = self._partition_count()
        if not count:
            raise Rejected(ErrorCode.NOT_COORDINATOR)
        try:
            shard = self.at(partition_of(key, count))
        except Rejected as error:
            raise Rejected(ErrorCode.NOT_COORDINATOR) from error
        if shard.state is not ShardState.SERVING:
            raise Rejected(ErrorCode.COORDINATOR_LOAD_IN_PROGRESS if shard.state is ShardState.LOADING else ErrorCode.NOT_COORDINATOR)
        return shard

    def at(self, index: int) -> ShardT:
        """Return the shard of a partition in the current leader epoch, loaded or not. If there is none yet, create it and begin to load it.
        Raises Rejected with the partition's error, such as NOT_LEADER_OR_FOLLOWER, if this broker does not lead it.
        """
        shard = self._shards.get(index)
        if shard is None or not self._is_current(shard.partition):
            return self._elect(index)
        return shard

    def serving(self) -> list[ShardT]:
        """Return the shards (state machines of partitions) that are loaded and serve requests."""
        return [shard for shard in self._shards.values() if shard.state is ShardState.SERVING and not shard.partition.removed]

    def all(self) -> list[ShardT]:
        """Return the loaded shards (state machines of partitions). Raises Rejected(COORDINATOR_LOAD_IN_PROGRESS) while any shard is being
        loaded.
        """
        if any(shard.state is ShardState.LOADING for shard in self._shards.values()):
            raise Rejected(ErrorCode.COORDINATOR_LOAD_IN_PROGRESS)
        return self.serving()

    # --- internals ------------------------------------------------------------------------------------------------------------

    def _is_current(self, partition: Partition) -> bool:
        shard = self._shards.get(partition.index)
        return shard is not None and shard.partition is partition and not partition.removed and shard.epoch == partition.leader_epoch

    def _elect(self, index: int) -> ShardT:
        shard = self._begin(self._partitions.get(self._topic, index))
        if shard.state is ShardState.LOADING:
            self._spawn([shard])
        return shard

    def _begin(self, partition: Partition) -> ShardT:
        before = self._shards.pop(partition.index, None)
        if before is not None:
            self._close(before)
        if not partition.leads:
            raise Rejected(ErrorCode.NOT_LEADER_OR_FOLLOWER)
        shard = self._shards[partition.index] = self._make(partition)
        if partition.log.log_start_offset == partition.log.log_end_offset:
            shard.state = ShardState.SERVING
        return shard

    def _close(self, shard: ShardT) -> None:
        shard.state = ShardState.CLOSED
        self._closed(shard)

    def _spawn(self, shards: Iterable[ShardT]) -> asyncio.Future[None]:
        return self._nursery.run(f"loading of {self._topic}", partial(self._load, shards))

    async def _load(self, shards: Iterable[ShardT]) -> None:
        """Load the shards one by one. If a shard cannot be loaded, requests for its keys get NOT_COORDINATOR in this leader epoch."""
        for shard in shards:
            if shard.state is not ShardState.LOADING:
                continue
            with self._nursery.step("loading of %s-%d", self._topic, shard.partition.index) as step:
                await shard.load(self._chunk_bytes)
                if shard.state is ShardState.LOADING:
                    shard.state = ShardState.SERVING
                    self._loaded(shard)
            if step.error is not None:
                shard.state = ShardState.UNREADABLE
