"""What a leader sent to its follower, batch by batch, before any of it is written.

Source: KAFKA UnifiedLog.analyzeAndValidateRecords for records of AppendOrigin.REPLICATION.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

from ottla.broker.core.rejected import Rejected
from ottla.broker.storage.files import Buffer
from ottla.protocol.error_codes import ErrorCode
from ottla.protocol.records.batch import BatchHeader, crc_ok, split_batches
from ottla.protocol.records.control import Marker, parse_marker
from ottla.protocol.records.errors import RecordsError


class LeadersBatch(NamedTuple):
    """One of them. `marker` is there where it ends a transaction."""

    header: BatchHeader
    data: memoryview
    marker: Marker | None


def leaders_batches(data: Buffer, leader_epoch: int) -> Iterator[LeadersBatch]:
    """The whole batches of an answer that was asked for in `leader_epoch`, as they are: any size, any timestamp.

    A batch of a later epoch ends them (KAFKA-18723): it is another leader's, and may not be there when this one is asked in that epoch. A
    last batch that was cut is left out. Raises `Rejected` at the first that is damaged.
    """
    view = memoryview(data)
    try:
        for position, header in split_batches(data):
            if header.partition_leader_epoch > leader_epoch:
                return
            if not crc_ok(data, header, position):
                raise Rejected(ErrorCode.CORRUPT_MESSAGE, f"batch at offset {header.base_offset} has a wrong checksum")
            batch = view[position : position + header.size_bytes]
            marker = parse_marker(batch) if header.is_control and header.has_producer_id else None
            yield LeadersBatch(header, batch, marker if marker is not None and marker.ends_transaction else None)
    except RecordsError as e:
        raise Rejected(ErrorCode.CORRUPT_MESSAGE, f"what the leader sent cannot be read: {e}") from e
