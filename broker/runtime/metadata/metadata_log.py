"""`__cluster_metadata-0`: where the catalog's records are kept, and the only way they get into the catalog.

Rules that hold inside:
- A record is applied after it is on disk, so nothing that a crash could undo is ever seen (as in KRaft, where the high watermark decides).
- The records of one operation are one batch: recovery keeps all of them or none.
- The log is never shortened by retention; clients cannot read or write it, for it is in no registry of partitions.
- A Kafka's log may begin with a snapshot in place of its first records (`<end offset>-<epoch>.checkpoint`, KIP-630). We read such a one and
  write none: our log grows by a record for each change, and a change is rare.
"""

from __future__ import annotations

import asyncio
import re
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Final

from ottla.broker.cluster.catalog_records import MetadataRecord, RemoveTopicRecord, decode_record, encode_record
from ottla.broker.cluster.features import METADATA_LEVEL, METADATA_VERSION
from ottla.broker.core.log_config import LogConfig
from ottla.broker.storage.errors import LogDirRefused
from ottla.broker.storage.partition_log import Isolation, Origin
from ottla.protocol.records.batch import split_batches
from ottla.protocol.records.record import SimpleRecord, build_batch, iter_records
from ottla.protocol.schema import Buffer

if TYPE_CHECKING:
    from ottla.broker.cluster.catalog import Catalog
    from ottla.broker.core.clock import Clock
    from ottla.broker.runtime.replicas.flusher import Flusher
    from ottla.broker.storage.partition_log import PartitionLog

METADATA_LOG_CONFIG: Final = LogConfig(retention_ms=-1, retention_bytes=-1, max_message_bytes=2**31 - 1)

_REPLAY_BYTES: Final = 1 << 20
_OFFSET_DIGITS: Final = 20
_SNAPSHOT_NAME: Final = re.compile(r"[0-9]{20}-[0-9]{10}\.checkpoint")


class MetadataLog:
    """One log and the catalog it describes."""

    def __init__(self, log: PartitionLog, catalog: Catalog, clock: Clock, flusher: Flusher) -> None:
        self.log = log
        self._catalog = catalog
        self._clock = clock
        self._flusher = flusher

    @property
    def is_new(self) -> bool:
        """Nothing was ever written: a new data directory, or one that never had a metadata log of its own."""
        return self.log.log_end_offset == 0

    def replay(self) -> set[bytes]:
        """Applies the whole log. Returns the ids of topics that it says were removed.

        Raises ProtocolError for a record that is damaged, LogDirRefused when the log's beginning is missing.
        """
        removed = set()
        for record in self.stored():
            self._catalog.apply(record)
            if isinstance(record, RemoveTopicRecord):
                removed.add(bytes(record.topic_id))
        self.log.advance_high_watermark(self.log.log_end_offset)
        return removed

    def write_now(self, records: Sequence[MetadataRecord]) -> None:
        """Appends, syncs and applies while the caller waits; the loop stands still for as long as one sync takes."""
        if not records:
            return
        self._append(records)
        ticket = self.log.flush_begin()
        ticket.sync()
        self.log.flush_end(ticket)
        self._durable(records)

    async def write(self, records: Sequence[MetadataRecord]) -> None:
        """Appends now, and returns when the records are on disk and applied. One call at a time."""
        if not records:
            return
        self._append(records)
        synced: asyncio.Future[int] = asyncio.get_running_loop().create_future()
        try:
            self._flusher.flush(self.log, synced.set_result)
        except OSError as error:
            self._flusher.fail(error)  # the records are in the log and not in the catalog: a restart brings the two together
        await synced
        self._durable(records)

    def _append(self, records: Sequence[MetadataRecord]) -> None:
        now_ms = self._clock.now_ms()
        level = self._catalog.features.get(METADATA_VERSION, METADATA_LEVEL)
        batch = build_batch([SimpleRecord(None, encode_record(record, level), now_ms) for record in records])
        self.log.append(batch, origin=Origin.COORDINATOR, leader_epoch=self.log.leader_epoch, now_ms=now_ms)

    def _durable(self, records: Sequence[MetadataRecord]) -> None:
        self.log.advance_high_watermark(self.log.log_end_offset)
        for record in records:
            self._catalog.apply(record)

    def stored(self) -> Iterator[MetadataRecord]:
        """All records, with those of a snapshot where the log begins with one."""
        offset = self.log.log_start_offset
        if offset > 0:
            path = self._snapshot(offset)
            offset = int(path.name[:_OFFSET_DIGITS])
            yield from _data_records(path.read_bytes())
        while offset < self.log.log_end_offset:
            chunk = self.log.read(offset, _REPLAY_BYTES, isolation=Isolation.LOG_END, min_one_batch=True).records
            yield from _data_records(chunk)
            before, offset = offset, max((header.next_offset for _, header in split_batches(chunk)), default=offset)
            assert offset > before, f"{self.log.directory}: no whole batch at {before}, before the end at {self.log.log_end_offset}"

    def _snapshot(self, log_start_offset: int) -> Path:
        """The newest snapshot, which must reach to where the log begins."""
        newest = max((path for path in self.log.directory.iterdir() if _SNAPSHOT_NAME.fullmatch(path.name)), default=None)
        if newest is None or int(newest.name[:_OFFSET_DIGITS]) < log_start_offset:
            raise LogDirRefused(
                f"{self.log.directory} begins at offset {log_start_offset} and has no snapshot of what was before: the topics are unknown"
            )
        return newest


def _data_records(batches: Buffer) -> Iterator[MetadataRecord]:
    for pos, header in split_batches(batches):
        if header.is_control:
            continue
        for stored in iter_records(memoryview(batches)[pos : pos + header.size_bytes]):
            record = decode_record(stored.value or b"")
            if record is not None:
                yield record
