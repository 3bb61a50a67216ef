"""Validates the batches that a leader sent to its follower, before any of them is written.

Source: Kafka's UnifiedLog.analyzeAndValidateRecords for records of AppendOrigin.REPLICATION.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

from ottla.broker.core.rejected import Rejected
from ottla.protocol.error_codes import ErrorCode
from ottla.protocol.records.batch import BatchHeader, crc_ok, split_batches
from ottla.protocol.records.control import Marker, parse_marker
from ottla.protocol.records.errors import RecordsError
from ottla.protocol.wire import Buffer


class LeadersBatch(NamedTuple):
    """A batch in the leader's Fetch response. `marker` is set if the batch is a control batch that ends a transaction."""

    header: BatchHeader
    data: memoryview
    marker: Marker | None


def leaders_batches(data: Buffer, leader_epoch: int) -> Iterator[LeadersBatch]:
    """Yield the complete batches in `data`, the response to a follower's fetch in `leader_epoch`. Their sizes and timestamps are not
    limited.

    A batch of a later epoch ends the iteration: the follower must fetch it in that epoch (KAFKA-18723). An incomplete last batch is
    skipped. Raises Rejected(CORRUPT_MESSAGE) at the first corrupt batch.
    """
    view = memoryview(data)
    try:
        for position, header in split_batches(data):
            if header.partition_leader_epoch > leader_epoch:
                return
            if not crc_ok(data, header, position):
                raise Rejected(ErrorCode.CORRUPT_MESSAGE, f"batch at offset {header.base_offset} has a wrong checksum")
            batch = view[position : position + header.size_bytes]
            # Compaction keeps the header of a control batch whose record is gone (Kafka's ProducerAppendInfo.append).
            marker = parse_marker(batch) if header.is_control and header.has_producer_id and header.record_count else None
            yield LeadersBatch(header, batch, marker if marker is not None and marker.ends_transaction else None)
    except RecordsError as e:
        raise Rejected(ErrorCode.CORRUPT_MESSAGE, f"the leader sent a corrupt batch: {e}") from e
