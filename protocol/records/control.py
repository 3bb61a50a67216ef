"""Control batches: the record that ends a transaction in a partition (Kafka: EndTransactionMarker, ControlRecordType).

Readers accept any version from 0 on and read the fields they know; a negative version is an error. An unknown type is None.
"""

from __future__ import annotations

import struct
from enum import IntEnum
from functools import lru_cache
from typing import Final, NamedTuple

from ottla.protocol.records.batch import (
    CONTROL,
    MAGIC_V2,
    NO_LEADER_EPOCH,
    NO_SEQUENCE,
    STAMPED_BYTES,
    TRANSACTIONAL,
    BatchHeader,
    pack_header,
    read_header,
)
from ottla.protocol.records.errors import InvalidRecord
from ottla.protocol.records.record import iter_records
from ottla.protocol.wire import Buffer

MARKER_BYTES: Final = 78
"""The size of a marker batch: a header of 61 bytes and a record of 17."""

_KEY = struct.Struct(">hh")
_VALUE = struct.Struct(">hi")
_RECORD = struct.Struct(">BxxxBhhBhix")
"""The layout of a marker's record: a length, attributes and deltas of 0, key and value with their lengths, no headers. The lengths are
zigzag varints of one byte."""
_BATCHES_REMEMBERED: Final = 16
"""The number of cached marker batches. It is small, because all markers of a transaction are made in one turn of the event loop."""
_CONTROL_BYTES_MAX: Final = 1 << 20
"""Limit for a control record's size; Kafka's are far smaller, and KRaft voter sets are the largest."""


class ControlType(IntEnum):
    """The type in a control record's key. Types from 2 on occur only in the cluster's metadata log."""

    ABORT = 0
    COMMIT = 1
    LEADER_CHANGE = 2
    SNAPSHOT_HEADER = 3
    SNAPSHOT_FOOTER = 4
    KRAFT_VERSION = 5
    KRAFT_VOTERS = 6


class Marker(NamedTuple):
    """A control record. `type` is None if it is unknown; `coordinator_epoch` is -1 unless the record ends a transaction."""

    type: ControlType | None
    coordinator_epoch: int
    timestamp: int

    @property
    def ends_transaction(self) -> bool:
        """Whether this control record is an ABORT or COMMIT marker."""
        return self.type is ControlType.ABORT or self.type is ControlType.COMMIT


def end_txn_marker(
    *,
    committed: bool,
    producer_id: int,
    producer_epoch: int,
    coordinator_epoch: int,
    timestamp: int,
    base_offset: int = 0,
    leader_epoch: int = NO_LEADER_EPOCH,
) -> bytes:
    """Make the 78-byte batch that commits or aborts a producer's transaction in one partition."""
    kind = ControlType.COMMIT if committed else ControlType.ABORT
    record = _RECORD.pack(2 * (_RECORD.size - 1), 2 * _KEY.size, 0, kind, 2 * _VALUE.size, 0, coordinator_epoch)
    header = BatchHeader(
        base_offset,
        0,
        leader_epoch,
        MAGIC_V2,
        0,
        TRANSACTIONAL | CONTROL,
        0,
        timestamp,
        timestamp,
        producer_id,
        producer_epoch,
        NO_SEQUENCE,
        1,
    )
    return pack_header(header, record) + record


class MarkerBatch(NamedTuple):
    """A transaction marker as a batch to append. `bytes_from_magic` are the batch's bytes from the magic on. The log that appends the batch
    writes the bytes before the magic: base offset, batch length and leader epoch."""

    header: BatchHeader
    bytes_from_magic: tuple[Buffer, ...]
    marker: Marker


@lru_cache(maxsize=_BATCHES_REMEMBERED)
def marker_batch(committed: bool, producer_id: int, producer_epoch: int, coordinator_epoch: int, timestamp: int) -> MarkerBatch:
    """Make the marker batch of a transaction, the same for all of its partitions: the log that appends the batch sets the base offset and
    the leader epoch."""
    batch = end_txn_marker(
        committed=committed,
        producer_id=producer_id,
        producer_epoch=producer_epoch,
        coordinator_epoch=coordinator_epoch,
        timestamp=timestamp,
    )
    marker = Marker(ControlType.COMMIT if committed else ControlType.ABORT, coordinator_epoch, timestamp)
    return MarkerBatch(read_header(batch), (batch[STAMPED_BYTES:],), marker)


def parse_marker(batch: Buffer) -> Marker:
    """Decode the control record of a control batch. Raises `InvalidRecord` if the batch does not contain exactly one record, or if the
    record is truncated or has a negative version.
    """
    records = list(iter_records(batch, _CONTROL_BYTES_MAX))
    if len(records) != 1:
        raise InvalidRecord(f"a control batch with {len(records)} records")
    record = records[0]
    kind = control_type(record.key)
    if kind is not ControlType.ABORT and kind is not ControlType.COMMIT:
        return Marker(kind, -1, record.timestamp)
    return Marker(kind, coordinator_epoch_of(record.value), record.timestamp)


def coordinator_epoch_of(value: Buffer | None) -> int:
    """Return the coordinator epoch in a transaction marker's value. Raises `InvalidRecord` for a missing or truncated value, or a negative
    version."""
    if value is None or len(value) < _VALUE.size:
        raise InvalidRecord("the value of a transaction marker is truncated")
    version, coordinator_epoch = _VALUE.unpack_from(value)
    if version < 0:
        raise InvalidRecord(f"transaction marker version {version}")
    return int(coordinator_epoch)


def control_type(key: bytes | None) -> ControlType | None:
    """Return the type in a control record's key, None if it is unknown. Raises `InvalidRecord` for a truncated key or a negative
    version."""
    if key is None or len(key) < _KEY.size:
        raise InvalidRecord("the key of a control record is truncated")
    version, number = _KEY.unpack_from(key)
    if version < 0:
        raise InvalidRecord(f"control record version {version}")
    return ControlType(number) if 0 <= number < len(ControlType) else None
