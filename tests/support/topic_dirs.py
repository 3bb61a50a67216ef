"""A data directory with its topics, without sockets: opened, crashed and opened again, on real files or a disk in memory."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from itertools import count
from pathlib import Path
from random import Random

from ottla.broker.cluster.metadata_records import MetadataRecord
from ottla.broker.controller.alter_configs import AlterResource
from ottla.broker.controller.cluster_configs import alter_cluster_configs
from ottla.broker.controller.create_topics import CreatedTopic, MorePartitions, NewTopic, create_cluster_topics, create_partitions
from ottla.broker.controller.delete_topics import DeletedTopic, TopicRef, delete_topics
from ottla.broker.controller.placement import Placement
from ottla.broker.core.clock import VirtualClock
from ottla.broker.core.effects import Effects
from ottla.broker.core.rejected import Rejected
from ottla.broker.core.settings import BrokerSettings
from ottla.broker.core.timers import Timers
from ottla.broker.runtime.metadata.standalone import StandaloneMetadata
from ottla.broker.runtime.quorum.active_controller import ActiveController
from ottla.broker.runtime.replicas.flusher import Flusher
from ottla.broker.runtime.replicas.partitions import Partitions
from ottla.broker.runtime.upkeep.nursery import Nursery
from ottla.broker.sim.sim_threads import InlineThreads
from ottla.broker.storage.files import FILES, Files
from ottla.broker.storage.log_dir import LogDir
from ottla.protocol.records.record import SimpleRecord, build_batch

_seeds = count()


class Decisions:
    """The controller's operations, called as its handlers call them for authorized and well-formed requests."""

    def __init__(self, active: ActiveController) -> None:
        self._active = active

    async def create_topics(self, topics: Sequence[NewTopic], *, validate_only: bool = False) -> list[CreatedTopic]:
        return await self._active.run(partial(create_cluster_topics, topics=topics), validate_only=validate_only)

    async def delete_topics(self, refs: Sequence[TopicRef]) -> list[DeletedTopic]:
        return await self._active.run(lambda state: delete_topics(state.catalog, refs))

    async def create_partitions(self, topics: Sequence[MorePartitions]) -> list[tuple[str, Rejected | None]]:
        return await self._active.run(lambda state: create_partitions(state.catalog, topics, Placement.in_cluster(state)))

    async def alter_configs(self, resources: Sequence[AlterResource]) -> list[Rejected | None]:
        return await self._active.run(partial(alter_cluster_configs, resources=resources, forwarded=True))


class TopicDir:
    """A broker's services over the data directory `path`. The constructor opens it; `close` or `crash` ends its use. Operations need a
    running loop. The future `failed` gets the error when a sync fails."""

    def __init__(self, path: Path, *, files: Files = FILES, settings: BrokerSettings | None = None) -> None:
        self.clock = VirtualClock()
        self.failed: asyncio.Future[BaseException] = asyncio.get_running_loop().create_future()
        self.flusher = Flusher(self._on_failure, ThreadPoolExecutor if files is FILES else InlineThreads)
        self.partitions = Partitions(self.flusher, self.clock)
        self.log_dir = LogDir.open(path, settings or BrokerSettings(), self.clock.now_ms(), files=files)
        self.timers = Timers()
        self.nursery = Nursery(self.timers, self.clock, self._on_failure)
        try:
            self.metadata = StandaloneMetadata(
                self.log_dir,
                self.log_dir.settings,
                nursery=self.nursery,
                flusher=self.flusher,
                partitions=self.partitions,
                random=Random(next(_seeds)),
                listeners=[],
                on_failure=self._on_failure,
            )
        except BaseException:
            self._release(clean=False)
            raise
        self.catalog, self.topics, self.controller = self.metadata.catalog, self.metadata.topics, self.metadata.controller
        self.decisions, self.settings = Decisions(self.controller.active), self.log_dir.settings

    @property
    def catalog_names(self) -> list[str]:
        return [topic.name for topic in self.catalog.topics()]

    def served(self) -> list[tuple[str, int]]:
        return sorted((partition.topic, partition.index) for partition in self.partitions)

    def append(self, topic: str, index: int, value: bytes = b"x") -> int:
        """Append one record; return its offset."""
        batch = build_batch([SimpleRecord(None, value, self.clock.now_ms())])
        return self.partitions.get(topic, index).append(batch).first_offset

    def write(self, records: Sequence[MetadataRecord]) -> None:
        """Append these records to the metadata log, without a decision of the controller."""
        self.controller.active.begin(lambda _: Effects(records, None))
        self.controller.voter.sync()

    def crash(self) -> None:
        """Stop as a crash does: release file descriptors and the directory's lock without writing anything."""
        self._release(clean=False)

    def close(self) -> None:
        """Stop the data directory's services cleanly."""
        self._release(clean=True)

    def _release(self, *, clean: bool) -> None:
        self.nursery.crash()
        self.flusher.close()
        self.log_dir.close(clean=clean)

    def _on_failure(self, error: BaseException) -> None:
        if not self.failed.done():
            self.failed.set_result(error)


def failing_after(calls: int) -> Callable[[str, Path], None]:
    """Return a function for `MemoryFiles.on_call` that raises OSError for all changing calls after the first `calls`."""
    left = calls

    def on_call(operation: str, path: Path) -> None:
        nonlocal left
        if operation == "read":
            return
        left -= 1
        if left < 0:
            raise OSError(5, "the machine is off", str(path))

    return on_call
