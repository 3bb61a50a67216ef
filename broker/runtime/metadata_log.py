"""`__cluster_metadata-0`: where the catalog's records are kept, and the only way they get into the catalog.

Rules that hold inside:
- A record is applied after it is on disk, so nothing that a crash could undo is ever seen (as in KRaft, where the high watermark decides).
- The records of one operation are one batch: recovery keeps all of them or none.
- The log is never shortened by retention; clients cannot read or write it, for it is in no registry of partitions.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Final

from broker.core.log_config import LogConfig
from broker.storage.partition_log import Isolation, Origin
from broker.topics.catalog_records import MetadataRecord, RemoveTopicRecord, decode_record, encode_record
from protocol.records.batch import split_batches
from protocol.records.record import SimpleRecord, build_batch, iter_records

if TYPE_CHECKING:
    from broker.core.clock import Clock
    from broker.runtime.flusher import Flusher
    from broker.storage.partition_log import PartitionLog
    from broker.topics.catalog import Catalog

METADATA_LOG_CONFIG: Final = LogConfig(retention_ms=-1, retention_bytes=-1, max_message_bytes=2**31 - 1)

_REPLAY_BYTES: Final = 1 << 20


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
        """Applies the whole log. Returns the ids of topics that it says were removed. Raises ProtocolError for a record that is damaged."""
        removed = set()
        for record in self._stored():
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
        self._flusher.flush(self.log, synced.set_result)
        await synced
        self._durable(records)

    def _append(self, records: Sequence[MetadataRecord]) -> None:
        now_ms = self._clock.now_ms()
        batch = build_batch([SimpleRecord(None, encode_record(record), now_ms) for record in records])
        self.log.append(batch, origin=Origin.COORDINATOR, leader_epoch=self.log.leader_epoch, now_ms=now_ms)

    def _durable(self, records: Sequence[MetadataRecord]) -> None:
        self.log.advance_high_watermark(self.log.log_end_offset)
        for record in records:
            self._catalog.apply(record)

    def _stored(self) -> Iterator[MetadataRecord]:
        offset = self.log.log_start_offset
        while offset < self.log.log_end_offset:
            chunk = bytes(self.log.read(offset, _REPLAY_BYTES, isolation=Isolation.READ_UNCOMMITTED, min_one_batch=True).records)
            assert chunk, f"{self.log.topic}: nothing to read at {offset}, before the end at {self.log.log_end_offset}"
            for pos, header in split_batches(chunk):
                offset = header.next_offset
                if not header.is_control:
                    yield from _decoded(chunk[pos : pos + header.size_bytes])


def _decoded(batch: bytes) -> Iterator[MetadataRecord]:
    for stored in iter_records(batch):
        record = decode_record(stored.value or b"")
        if record is not None:
            yield record
