"""`__cluster_metadata-0` of a standalone node: the log of the catalog's records, and the only way to change the catalog.

Invariants:
- A record is applied only after it is on disk, so a crash cannot undo anything visible (in KRaft the high watermark decides).
- The records of one operation are one batch: recovery keeps all of them or none.
- Retention never shortens the log, and clients can neither read nor write it, because it is in no partition registry.
- A log written by Kafka may begin with a snapshot instead of its first records (`<end offset>-<epoch>.checkpoint`, KIP-630). Snapshots
  are read but not written: the log grows by one record per change, and changes are rare.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterator, Sequence
from typing import Final

from ottla.broker.cluster.catalog import Catalog
from ottla.broker.cluster.features import METADATA_LEVEL, METADATA_VERSION
from ottla.broker.cluster.image_changes import ImageChanges
from ottla.broker.cluster.metadata_loader import MetadataBatch, MetadataLoader
from ottla.broker.cluster.metadata_records import AbortTransactionRecord, MetadataRecord, RemoveTopicRecord
from ottla.broker.cluster.record_frames import decode_record, encode_record
from ottla.broker.cluster.record_versions import version_of
from ottla.broker.cluster.registrations import InconsistentRecord
from ottla.broker.core.clock import Clock
from ottla.broker.core.log_config import LogConfig
from ottla.broker.runtime.replicas.flusher import Flusher
from ottla.broker.storage.errors import LogDirRefused
from ottla.broker.storage.partition_log import Isolation, Origin, PartitionLog
from ottla.protocol.records.batch import split_batches
from ottla.protocol.records.record import SimpleRecord, build_batch, iter_records
from ottla.protocol.schema import Buffer

METADATA_LOG_CONFIG: Final = LogConfig(retention_ms=-1, retention_bytes=-1, max_message_bytes=2**31 - 1)

_REPLAY_BYTES: Final = 1 << 20


class MetadataLog:
    """The metadata log and the catalog that it describes."""

    def __init__(self, log: PartitionLog, catalog: Catalog, clock: Clock, flusher: Flusher) -> None:
        self.log = log
        self._catalog = catalog
        self._clock = clock
        self._flusher = flusher

    @property
    def is_new(self) -> bool:
        """Whether the log has never been written: the data directory is new, or had no metadata log."""
        return self.log.log_end_offset == 0

    def replay(self) -> set[bytes]:
        """Replay the whole log, without yielding to the loop. Return the ids of topics that it removed.

        A transaction left open is aborted, as a new Kafka controller does. Raises ProtocolError for a corrupt or unknown record, and
        LogDirRefused if the log's beginning is missing or its records contradict each other.
        """
        loader = MetadataLoader()
        removed: set[bytes] = set()

        def noting_removals(start: int) -> Iterator[MetadataBatch]:
            for batch in self.batches(start):
                removed.update(record.topic_id for record in batch.records if isinstance(record, RemoveTopicRecord))
                yield batch

        try:
            for published in loader.load(noting_removals(self._load_snapshot(loader))):
                self._catalog.publish(published.image, published.changes)
        except InconsistentRecord as error:
            raise LogDirRefused(f"{self.log.directory}: {error}") from error
        if loader.in_transaction:
            self._append([AbortTransactionRecord("the broker was started")])
            self._sync()
        self.log.advance_high_watermark(self.log.log_end_offset)
        return removed

    def write_now(self, records: Sequence[MetadataRecord]) -> None:
        """Append, sync and apply records; blocks the loop for one sync."""
        if not records:
            return
        self._append(records)
        self._sync()
        self._durable(records)

    async def write(self, records: Sequence[MetadataRecord]) -> ImageChanges:
        """Append records and return what they changed when they are on disk and applied. One call at a time."""
        self._append(records)
        synced: asyncio.Future[int] = asyncio.get_running_loop().create_future()
        try:
            self._flusher.flush(self.log, synced.set_result)
        except OSError as error:
            self._flusher.fail(error)  # the records are in the log but not in the catalog; a restart replays them
        await synced
        return self._durable(records)

    def batches(self, offset: int) -> Iterator[MetadataBatch]:
        """Yield the log's batches from `offset` on, without control records."""
        while offset < self.log.log_end_offset:
            chunk = self.log.read(offset, _REPLAY_BYTES, isolation=Isolation.LOG_END, min_one_batch=True).records
            before = offset
            for pos, header in split_batches(chunk):
                offset = header.next_offset
                if not header.is_control:
                    records = _records(memoryview(chunk)[pos : pos + header.size_bytes])
                    epoch, time_ms = header.partition_leader_epoch, header.max_timestamp
                    yield MetadataBatch(header.base_offset, header.last_offset, epoch, time_ms, records)
            assert offset > before, f"{self.log.directory}: no whole batch at {before}, before the end at {self.log.log_end_offset}"

    def _append(self, records: Sequence[MetadataRecord]) -> None:
        now_ms = self._clock.now_ms()
        level = self._catalog.features.get(METADATA_VERSION, METADATA_LEVEL)
        batch = build_batch([SimpleRecord(None, encode_record(record, version_of(record, level)), now_ms) for record in records])
        self.log.append(batch, origin=Origin.COORDINATOR, leader_epoch=self.log.leader_epoch, now_ms=now_ms)

    def _sync(self) -> None:
        ticket = self.log.flush_begin()
        ticket.sync()
        self.log.flush_end(ticket)

    def _durable(self, records: Sequence[MetadataRecord]) -> ImageChanges:
        self.log.advance_high_watermark(self.log.log_end_offset)
        return self._catalog.apply(records)

    def _load_snapshot(self, loader: MetadataLoader) -> int:
        """Load the newest snapshot if the log begins with one. Return the offset to replay from."""
        start = self.log.log_start_offset
        if start == 0:
            return 0
        from ottla.broker.cluster.snapshots import SnapshotId, read_snapshot  # noqa: PLC0415 # only a log written by Kafka needs it

        found = {known: path for path in self.log.directory.iterdir() if (known := SnapshotId.of_file(path.name)) is not None}
        newest = max(found, default=None)
        if newest is None or newest.end_offset < start:
            raise LogDirRefused(
                f"{self.log.directory} begins at offset {start} and has no snapshot of what was before: the topics are unknown"
            )
        snapshot = read_snapshot(found[newest].read_bytes())
        published = loader.load_snapshot(snapshot.records, newest.end_offset, newest.epoch, snapshot.last_append_time_ms)
        self._catalog.publish(published.image, published.changes)
        return newest.end_offset


def _records(batch: Buffer) -> list[MetadataRecord]:
    return [decode_record(stored.value or b"")[0] for stored in iter_records(batch)]
