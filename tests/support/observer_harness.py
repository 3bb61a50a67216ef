"""An observer with its own directory and a quorum in memory, on a loop where time passes only when the test advances it."""

from __future__ import annotations

import asyncio
import random
from collections.abc import Awaitable, Callable, Sequence

from ottla.broker.cluster.image import EMPTY
from ottla.broker.cluster.image_changes import difference
from ottla.broker.cluster.metadata_loader import Published
from ottla.broker.cluster.observer_state import Observer
from ottla.broker.core.clock import VirtualClock
from ottla.broker.core.log_config import LogConfig
from ottla.broker.core.timers import Timers
from ottla.broker.runtime.nodes.link import Node
from ottla.broker.runtime.nodes.observer import MetadataObserver, ObserverSettings
from ottla.broker.runtime.replicas.flusher import Flusher
from ottla.broker.runtime.upkeep.nursery import Nursery
from ottla.broker.sim.memory_files import MemoryFiles
from ottla.broker.sim.sim_threads import InlineThreads
from ottla.broker.storage.log_values import Isolation
from ottla.protocol.records.batch import split_batches
from tests.support.metadata_quorum import MemoryQuorum
from tests.support.raft_logs import DIRECTORY, open_metadata_log
from tests.support.simulation import settle

ME = Observer(7, b"d" * 16, "cluster")


class ObserverHarness:
    """An observer. `published` is everything that was published, over restarts; `failures` are its fatal errors."""

    def __init__(self, *, seed: int = 0, settings: ObserverSettings | None = None, size: int = 3, config: LogConfig | None = None) -> None:
        self.clock = VirtualClock()
        self.timers = Timers()
        self.quorum = MemoryQuorum(self.clock, self.timers, size)
        self.settings = settings
        self.random = random.Random(seed)
        self.heard: Callable[[Published], Awaitable[None]] = self._heard
        self.checkpoints: list[int] = []
        """The end offset of the log at each checkpoint after a truncation."""
        self.failures: list[BaseException] = []
        self.published: list[Published] = []
        self.bootstrap: Sequence[Node] = self.quorum.bootstrap
        self.files = MemoryFiles()
        self.directory = DIRECTORY
        self.log = open_metadata_log(self.files, config)
        self.observer = self._made()

    def _made(self) -> MetadataObserver:
        self.nursery = Nursery(self.timers, self.clock, self.failures.append)
        return MetadataObserver(
            self.log,
            ME,
            self.bootstrap,
            connect=self.quorum.connect,
            nursery=self.nursery,
            flusher=Flusher(self.failures.append, InlineThreads),
            random=self.random,
            on_published=self.heard,
            truncation_checkpoint=self.truncation_checkpoint,
            settings=self.settings,
        )

    def truncation_checkpoint(self) -> Callable[[], None]:
        return lambda: self.checkpoints.append(self.log.log_end_offset)

    async def _heard(self, published: Published) -> None:
        """Check that each published change starts from the image published before it, or, after a restart, from an empty image."""
        before = self.published[-1].image if self.published and self.observer.applied_offset >= 0 else EMPTY
        assert published.changes == difference(before, published.image)
        assert published.provenance.offset > self.observer.applied_offset
        self.published.append(published)

    @property
    def log_bytes(self) -> bytes:
        """Return the bytes of the observer's copy of the metadata log."""
        log, data, offset = self.log, b"", self.log.log_start_offset
        while offset < log.log_end_offset:
            read = log.read(offset, 1 << 20, isolation=Isolation.LOG_END, min_one_batch=True).records
            offset = list(split_batches(read))[-1][1].next_offset
            data += read
        return data

    async def until(self, condition: Callable[[], bool]) -> None:
        """Let tasks run, without advancing the time, until the condition holds."""
        for _ in range(1000):
            if condition():
                return
            await asyncio.sleep(0)
        raise AssertionError("that never came")

    async def pass_time(self, ms: int, step_ms: int = 20) -> None:
        """Advance the time by `ms` milliseconds, in steps of `step_ms`."""
        await settle()
        for _ in range(ms // step_ms):
            self.clock.advance(step_ms)
            self.timers.run_due(self.clock.mono_ms())
            await settle()

    async def restart(self, *, clean: bool = True) -> None:
        """Restart the observer on the same files. With `clean` False, restart as after SIGKILL, without a checkpoint of the high
        watermark."""
        await self.nursery.stop()
        old = self.log
        if clean:
            old.close()
        else:
            old.release()
        self.log = open_metadata_log(self.files, old.config, clean=clean, recovery_point=old.recovery_point)
        if clean:
            self.log.advance_high_watermark(max(old.high_watermark, self.log.high_watermark))
        self.observer = self._made()
        self.observer.start()
        await settle()
