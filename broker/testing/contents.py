"""Reads the records of partitions from their logs. Each record is returned with its offset and with the outcome of its transaction."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from enum import Enum
from typing import Final

from ottla.broker.app import Broker
from ottla.broker.runtime.replicas.partition import Partition
from ottla.broker.storage.log_values import Isolation
from ottla.protocol.records.batch import BatchHeader, split_batches
from ottla.protocol.records.control import ControlType, parse_marker
from ottla.protocol.records.errors import RecordsError
from ottla.protocol.records.record import Record, iter_records

_READ_BYTES: Final = 4 << 20

TopicPartition = tuple[str, int]


class Visibility(Enum):
    """The visibility of a record to read_committed consumers: always visible (without a transaction), visible since its transaction was
    committed, never visible (aborted), or not visible yet."""

    PLAIN = "not in a transaction"
    COMMITTED = "committed"
    ABORTED = "aborted"
    OPEN = "in an open transaction"

    @property
    def readable(self) -> bool:
        """Whether read_committed consumers receive a record with this visibility."""
        return self in {Visibility.PLAIN, Visibility.COMMITTED}


@dataclass(slots=True)
class Stored:
    """One record in a partition's log, with its position and its visibility, which depends on the outcome of its transaction."""

    topic: str
    partition: int
    offset: int
    key: bytes | None
    value: bytes | None
    producer_id: int
    producer_epoch: int
    sequence: int
    outcome: Visibility

    @property
    def where(self) -> str:
        """The record's position as text: `topic-partition@offset`."""
        return f"{self.topic}-{self.partition}@{self.offset}"

    def is_kept_by(self, later: Stored | None) -> bool:
        """Return whether a later version of the log still has this record. `later` is the record that the later version has at the same
        position; None if it has none.

        The record counts as lost if `later` is another record, or if the record was readable and is not any more. This happens if a new
        leader's log lacks the record, or the marker that committed its transaction.
        """
        if later is None or (self.outcome.readable and not later.outcome.readable):
            return False
        mine, theirs = ((each.key, each.value, each.producer_id, each.producer_epoch, each.sequence) for each in (self, later))
        return mine == theirs


def contents(broker: Broker, topics: Iterable[str] | None = None) -> list[Stored]:
    """Return all records of the topics (None: of all topics except internal ones), in log order. Call it on the broker's event loop."""
    wanted = None if topics is None else set(topics)
    return [
        stored
        for partition in broker.services.partitions
        if (not partition.topic.startswith("__") if wanted is None else partition.topic in wanted)
        for stored in contents_of(partition)
    ]


def contents_of(partition: Partition) -> list[Stored]:
    """Return all records of one partition, in log order. Call it on the broker's event loop."""
    log = partition.log

    def read(offset: int) -> bytes:
        return log.read(offset, _READ_BYTES, isolation=Isolation.LOG_END, min_one_batch=True).records

    return stored_in((partition.topic, partition.index), log.log_start_offset, log.log_end_offset, read)


def stored_in(tp: TopicPartition, offset: int, end: int, read: Callable[[int], bytes]) -> list[Stored]:
    """Return all records of a partition from `offset` up to, but not including, `end`, in log order. `read` takes an offset and returns the
    batches from that offset on; it returns at least one batch if the log does not end there."""
    found: list[Stored] = []
    open_: dict[int, list[Stored]] = {}
    while offset < end:
        data = read(offset)
        before = offset
        for position, header in split_batches(data):
            if header.base_offset >= end:
                return found
            _take(found, open_, tp, header, data[position : position + header.size_bytes])
            offset = header.next_offset
        if offset == before:
            break
    return found


def _take(found: list[Stored], open_: dict[int, list[Stored]], tp: TopicPartition, header: BatchHeader, batch: bytes) -> None:
    if header.is_control:
        marker = parse_marker(batch) if header.record_count else None
        if marker is not None and marker.ends_transaction:
            for stored in open_.pop(header.producer_id, []):
                stored.outcome = Visibility.COMMITTED if marker.type is ControlType.COMMIT else Visibility.ABORTED
        return
    outcome = Visibility.OPEN if header.is_transactional else Visibility.PLAIN
    for record in _records(batch):
        stored = Stored(
            *tp,
            header.base_offset + record.offset_delta,
            None if record.key is None else bytes(record.key),
            None if record.value is None else bytes(record.value),
            header.producer_id,
            header.producer_epoch,
            -1 if header.base_sequence < 0 else (header.base_sequence + record.offset_delta) & 0x7FFFFFFF,
            outcome,
        )
        found.append(stored)
        if header.is_transactional:
            open_.setdefault(header.producer_id, []).append(stored)


def _records(batch: bytes) -> Iterable[Record]:
    try:
        return list(iter_records(batch))
    except RecordsError:  # damaged: its records count as missing, and the audit reports the damage
        return []
