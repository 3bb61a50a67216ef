"""Reads and writes snapshots of the metadata log: the files `<end offset>-<epoch>.checkpoint`.

A snapshot is a sequence of v2 batches: a control batch (SnapshotHeader, and at `kraft.version` 1 KRaftVersion and Voters), batches with the
image's records, and a control batch with the SnapshotFooter. All have the snapshot's epoch; offsets count from 0 and have no meaning.
Source: Kafka's RecordsSnapshotWriter, RaftSnapshotWriter, RecordsSnapshotReader.

Invariants:
- A batch is filled as in Kafka: 1024 records at a time, as long as they fit into 8 MiB. If 1024 records need more than 8 MiB, they become
  several batches here; in Kafka this is an error.
- An incomplete or corrupt snapshot is rejected: every checksum is verified, the header must come first and the footer last.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from itertools import islice
from typing import Final

from ottla.broker.cluster.metadata_records import MetadataRecord
from ottla.broker.cluster.raft_records import (
    CONTROL_TYPES,
    KRaftVersionRecord,
    LeaderChangeMessage,
    SnapshotFooterRecord,
    SnapshotHeaderRecord,
    VotersRecord,
    control_batch,
)
from ottla.broker.cluster.record_frames import decode_record, encode_record
from ottla.broker.cluster.record_versions import version_of
from ottla.protocol.errors import ProtocolError
from ottla.protocol.records.batch import HEADER_BYTES, MAGIC_V2, BatchHeader, crc_ok, split_batches
from ottla.protocol.records.control import control_type
from ottla.protocol.records.record import Record, SimpleRecord, build_batch, iter_records
from ottla.protocol.schema import Buffer, Message, decode

BATCH_BYTES_MAX: Final = 8 << 20
RECORDS_AT_ONCE: Final = 1024

_NAME: Final = re.compile(r"(\d{20})-(\d{10})\.checkpoint")


class CorruptMetadataSnapshot(ProtocolError):
    """The bytes read are not a complete metadata snapshot."""


@dataclass(frozen=True, slots=True, order=True)
class SnapshotId:
    """The identity of a metadata snapshot. The snapshot contains the metadata log up to, but excluding, `end_offset`; `epoch` is the epoch
    of the last record in it.
    """

    end_offset: int
    epoch: int

    @property
    def file_name(self) -> str:
        """The name of the snapshot's file: `<end offset>-<epoch>.checkpoint`."""
        return f"{self.end_offset:020d}-{self.epoch:010d}.checkpoint"

    @classmethod
    def of_file(cls, name: str) -> SnapshotId | None:
        """Return the id of the snapshot in a file of this name; None if the name is not that of a complete snapshot."""
        found = _NAME.fullmatch(name)
        return None if found is None else cls(int(found[1]), int(found[2]))


BOOTSTRAP_SNAPSHOT: Final = SnapshotId(0, 0)
"""The snapshot that formatting writes: the quorum's voters, and since Kafka 4.4 the first records of the log. Other nodes never fetch
it."""


@dataclass(slots=True)
class Snapshot:
    """A decoded metadata snapshot. `last_append_time_ms` is the wall-clock time at which its last record was appended to the log."""

    last_append_time_ms: int
    records: list[MetadataRecord] = field(default_factory=list)
    kraft_version: int = 0
    voters: VotersRecord | None = None
    """The quorum's voters; None if only the settings name them, as always at `kraft.version` 0."""


def write_snapshot(snapshot: Snapshot, epoch: int, metadata_level: int, now_ms: int) -> Iterator[bytes]:
    """Yield the batches of the snapshot's file. The records are written at `metadata_level`; `epoch` is that of the snapshot's id.

    Raises `NotWritable` for a record that this level does not have, ValueError for voters at `kraft.version` 0.
    """
    if snapshot.voters is not None and snapshot.kraft_version == 0:
        raise ValueError("a snapshot at kraft.version 0 cannot name voters")
    opening: list[Message] = [SnapshotHeaderRecord(0, snapshot.last_append_time_ms)]
    if snapshot.kraft_version:
        opening.append(KRaftVersionRecord(0, snapshot.kraft_version))
    if snapshot.voters is not None:
        opening.append(snapshot.voters)
    offset = len(opening)
    yield control_batch(opening, 0, epoch, now_ms)
    for values in _fill(encode_record(record, version_of(record, metadata_level)) for record in snapshot.records):
        yield build_batch((SimpleRecord(None, value, now_ms) for value in values), base_offset=offset, leader_epoch=epoch)
        offset += len(values)
    yield control_batch([SnapshotFooterRecord()], offset, epoch, now_ms)


def read_snapshot(data: Buffer) -> Snapshot:
    """Decode the contents `data` of a metadata snapshot file. Raises `CorruptMetadataSnapshot` if the file is corrupt or truncated, and
    other ProtocolErrors for records that cannot be decoded."""
    found: Snapshot | None = None
    ended = False
    for header, records in _whole_batches(memoryview(data)):
        if ended:
            raise CorruptMetadataSnapshot("the snapshot has data after its footer")
        if not header.is_control:
            if found is None:
                raise CorruptMetadataSnapshot("the snapshot does not begin with a header")
            found.records += (_metadata_record(record) for record in records)
            continue
        for message in map(_control_message, records):
            if found is None:
                if not isinstance(message, SnapshotHeaderRecord):
                    raise CorruptMetadataSnapshot("the snapshot does not begin with a header")
                found = Snapshot(message.last_contained_log_timestamp)
            elif isinstance(message, KRaftVersionRecord):
                found.kraft_version = message.kraft_version
            elif isinstance(message, VotersRecord):
                found.voters = message
            ended = isinstance(message, SnapshotFooterRecord)
    if found is None or not ended:
        raise CorruptMetadataSnapshot("the snapshot does not end with a footer")
    return found


def read_append_time(beginning: Buffer) -> int:
    """Return the wall-clock time in ms at which the snapshot's last record was appended to the log. `beginning` must contain the file's
    first batch. Raises ProtocolError if it does not begin with a valid snapshot header."""
    for pos, header in split_batches(beginning):
        if header.is_control:
            first = _control_message(next(iter_records(memoryview(beginning)[pos : pos + header.size_bytes])))
            if isinstance(first, SnapshotHeaderRecord):
                return first.last_contained_log_timestamp
        break
    raise CorruptMetadataSnapshot("the snapshot does not begin with a header")


_CONTROL_MESSAGES: Final = {kind: message for message, kind in CONTROL_TYPES.items() if message is not LeaderChangeMessage}


def _control_message(record: Record) -> Message:
    kind = control_type(record.key)
    message = None if kind is None else _CONTROL_MESSAGES.get(kind)
    if message is None or record.value is None:
        raise CorruptMetadataSnapshot(f"the snapshot has a control record of type {kind}")
    return decode(message, record.value, 0)


def _metadata_record(record: Record) -> MetadataRecord:
    if record.value is None:
        raise CorruptMetadataSnapshot("the snapshot has a metadata record without a value")
    return decode_record(record.value)[0]


def _whole_batches(data: memoryview) -> Iterator[tuple[BatchHeader, Iterator[Record]]]:
    end = 0
    for pos, header in split_batches(data):
        end = pos + header.size_bytes
        if header.magic != MAGIC_V2 or not crc_ok(data, header, pos):
            raise CorruptMetadataSnapshot(f"the batch at byte {pos} has a wrong checksum")
        yield header, iter_records(data[pos:end])
    if end != len(data):
        raise CorruptMetadataSnapshot(f"the batch at byte {end} is truncated")


def _fill(values: Iterable[bytes]) -> Iterator[list[bytes]]:
    """Yield the encoded records in groups. Each group becomes one batch, which is filled as Kafka fills it."""
    source = iter(values)
    batch: list[bytes] = []
    size = HEADER_BYTES
    while piece := list(islice(source, RECORDS_AT_ONCE)):
        fits = HEADER_BYTES + _bytes(piece, 0) <= BATCH_BYTES_MAX
        for part in [piece] if fits else [[value] for value in piece]:
            if batch and size + _bytes(part, len(batch)) > BATCH_BYTES_MAX:
                yield batch
                batch, size = [], HEADER_BYTES
            size += _bytes(part, len(batch))
            batch += part
    if batch:
        yield batch


def _bytes(values: list[bytes], first: int) -> int:
    """Return the size in bytes of the values as records of a batch in which `first` other records precede them. The records have no keys,
    headers or timestamps.
    """
    total = 0
    for index, value in enumerate(values, first):
        body = 4 + _varint_bytes(index) + _varint_bytes(len(value)) + len(value)
        total += _varint_bytes(body) + body
    return total


def _varint_bytes(number: int) -> int:
    """Return the size in bytes of a non-negative number, encoded as a signed (zigzag) varint."""
    return number.bit_length() // 7 + 1
