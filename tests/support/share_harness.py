"""Share partitions of a real partition, with a persister in memory and a clock that the test advances."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

from ottla.broker.core.clock import VirtualClock
from ottla.broker.core.rejected import Rejected
from ottla.broker.core.timers import Timers
from ottla.broker.runtime.replicas.partition import Partition
from ottla.broker.runtime.share.share_fetch import FetchResult, Results, ShareFetch, ShareFetches
from ottla.broker.runtime.share.share_partitions import SharePartitionManager
from ottla.broker.runtime.upkeep.nursery import Nursery
from ottla.broker.runtime.upkeep.turns import Turns
from ottla.broker.share.dead_letters import DeadLetters
from ottla.broker.share.persister import SharePartitionKey
from ottla.broker.share.sessions import TopicPartition
from ottla.broker.share.settings import ShareSettings
from ottla.broker.storage.partition_log import Isolation
from tests.support.memory_persister import MemoryPersister
from tests.support.partition_logs import TOPIC_ID, PartitionHarness, one_batch

KEY = SharePartitionKey("g", TOPIC_ID, 0)
LOCK_MS = 30_000


class ShareHarness:
    """The share partitions of topic "t" on one broker, and their persister, timers and clock."""

    def __init__(self, path: Path, *, partitions: int = 1, start_offset: int = 0, settings: ShareSettings | None = None) -> None:
        self.clock, self.timers = VirtualClock(), Timers()
        self.logs = PartitionHarness(path, self.clock, partitions=partitions)
        self.persister = MemoryPersister(start_offset)
        self.settings = settings or ShareSettings()
        self.dead_letters: list[DeadLetters] = []
        self.queue_refusal: Rejected | None = None
        self.nursery = Nursery(self.timers, self.clock, self.logs.failures.append)
        self.shares = SharePartitionManager(
            self.logs.partitions,
            self.persister,
            self.clock,
            self.timers,
            settings_of=lambda _: self.settings,
            max_sessions=10,
            write_dead_letters=self._write_dead_letters,
            nursery=self.nursery,
        )
        self.fetches = ShareFetches(self.shares, self.timers, Turns(self.clock))
        self.on_closed: dict[object, Callable[[], object]] = {}
        self.is_closed = False

    def partition(self, index: int = 0) -> Partition:
        return self.logs.partitions.get("t", index)

    async def _write_dead_letters(self, group_id: str, source: Partition, letters: DeadLetters) -> None:
        if self.queue_refusal is not None:
            raise self.queue_refusal
        self.dead_letters.append(letters)

    def append(self, *values: bytes, index: int = 0) -> None:
        self.partition(index).append(one_batch(*values, timestamp=self.clock.now_ms()))

    def advance(self, ms: int) -> None:
        """Advance the clock by `ms`, and run the timers that are due."""
        self.clock.advance(ms)
        self.timers.run_due(self.clock.mono_ms())

    def disconnect(self) -> None:
        """Close the connection of the client, as which the harness sends its fetches."""
        self.is_closed = True
        for callback in list(self.on_closed.values()):
            callback()

    def fetch(self, member: str = "m", *, partitions: int | list[TopicPartition] = 1, **changes: Any) -> Results | Awaitable[Results]:
        fields: dict[str, Any] = {
            "group_id": "g",
            "member_id": member,
            "partitions": self.keys(partitions) if isinstance(partitions, int) else partitions,
            "max_wait_ms": 0,
            "min_bytes": 1,
            "max_bytes": 1 << 20,
            "max_records": 500,
            "batch_size": 500,
            "record_limit": False,
            "isolation": Isolation.READ_UNCOMMITTED,
        }
        return self.fetches.fetch(ShareFetch(**(fields | changes)), self)

    def results(self, **changes: Any) -> list[FetchResult]:
        """Fetch from the share partitions without waiting, and return the results."""
        results = self.fetch(**changes)
        assert isinstance(results, dict), "the fetch waits"
        return list(results.values())

    def keys(self, partitions: int) -> list[TopicPartition]:
        return [TopicPartition(TOPIC_ID, index) for index in range(partitions)]

    def begin(self, **changes: Any) -> asyncio.Task[Results]:
        """Start a fetch from the share partitions that waits for up to a second; return its task."""
        waiting = self.fetch(**({"max_wait_ms": 1_000} | changes))
        assert isinstance(waiting, Awaitable), waiting
        return asyncio.ensure_future(waiting)


def acquired(results: Results | Awaitable[Results]) -> list[tuple[int, int, int]]:
    """Return (first offset, last offset, delivery count) of the acquired ranges of all partitions."""
    assert isinstance(results, dict), "the fetch waits"
    return [(first, last, count) for result in results.values() for first, last, count in result.acquired]
