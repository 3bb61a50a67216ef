"""Writes snapshots of the metadata log, so that a restart reads less and the log's old segments can be deleted (Kafka's SnapshotGenerator).

Invariants:
- One snapshot is written at a time, on a thread. A metadata image is immutable, so nothing has to wait for the writer.
- A snapshot is written only of an image that contains all records read so far: at the end of a batch, never inside a metadata transaction.
- If a snapshot cannot be written, the error is logged, and the next one is tried later; the log still holds every record.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Iterator
from typing import NamedTuple

from ottla.broker.cluster.image_feed import ImageFeed, Quorum
from ottla.broker.cluster.image_records import to_records
from ottla.broker.cluster.metadata_loader import Published
from ottla.broker.cluster.snapshots import Snapshot, SnapshotId, write_snapshot
from ottla.broker.core.clock import Clock
from ottla.broker.runtime.replicas.flusher import Flusher
from ottla.broker.storage.raft_log import RaftLog

logger = logging.getLogger(__name__)


class SnapshotPolicy(NamedTuple):
    """When to write a snapshot of the metadata log: the settings metadata.log.max.record.bytes.between.snapshots and
    metadata.log.max.snapshot.interval.ms (0: no snapshots by time).
    """

    max_bytes: int = 20 << 20
    interval_ms: int = 3_600_000


class SnapshotGenerator:
    """Writes snapshots of the metadata log. It is called after each metadata image that this node has published to its broker or
    controller, and decides whether a snapshot of that image is due.
    """

    def __init__(self, log: RaftLog, feed: ImageFeed, flusher: Flusher, clock: Clock, policy: SnapshotPolicy) -> None:
        self._log = log
        self._feed = feed
        self._flusher = flusher
        self._clock = clock
        self._policy = policy
        self._last_mono_ms = clock.mono_ms()
        self._making: asyncio.Future[None] | None = None

    def published(self, published: Published) -> None:
        """Start to write a snapshot of this metadata image if one is due (`SnapshotPolicy`), and the image contains all records that were
        read from the log.
        """
        provenance = published.provenance
        is_latest = provenance.offset + 1 == self._feed.next_offset
        if is_latest and self._is_due() and (self._making is None or self._making.done()):
            self._make(SnapshotId(provenance.offset + 1, provenance.epoch), published)

    def _is_due(self) -> bool:
        max_bytes, interval_ms = self._policy
        by_time = interval_ms > 0 and self._clock.mono_ms() - self._last_mono_ms >= interval_ms
        return self._feed.bytes_since_snapshot >= max_bytes or (by_time and self._feed.bytes_since_snapshot > 0)

    def _make(self, snapshot: SnapshotId, published: Published) -> None:
        self._last_mono_ms = self._clock.mono_ms()
        self._feed.bytes_since_snapshot = 0
        if self._log.has_snapshot(snapshot):
            return
        batches = _batches(published, self._feed.quorum, snapshot.epoch, self._clock.now_ms())
        self._making = making = self._flusher.run(lambda: self._log.snapshots.write(snapshot, batches))

        def made(_: asyncio.Future[None]) -> None:
            if making.cancelled():
                return
            error = making.exception()
            if error is not None:
                logger.error("The metadata up to offset %d cannot be written as a snapshot: %s", snapshot.end_offset, error)
            elif snapshot.end_offset >= self._log.start_offset:
                self._log.snapshots.add(snapshot)

        making.add_done_callback(made)


def _batches(published: Published, quorum: Quorum, epoch: int, now_ms: int) -> Iterator[bytes]:
    """Yield the record batches of a snapshot: the metadata image in `published`, and the voters and kraft.version in `quorum`. The batches
    get the leader epoch `epoch` and the time `now_ms`. They are encoded on the thread that writes the snapshot.
    """
    records = list(to_records(published.image))
    snapshot = Snapshot(published.provenance.append_time_ms, records, quorum.kraft_version, quorum.voters)
    yield from write_snapshot(snapshot, epoch, published.image.metadata_level, now_ms)
