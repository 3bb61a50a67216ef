"""Describes a partition's log as text: offsets, producers, epochs, sequences, markers."""

from __future__ import annotations

from client_compat.matrix.truth import StoredBatch, Truth
from ottla.protocol.records.control import ControlType
from ottla.protocol.records.record import Record


def marker_of(batch: StoredBatch) -> ControlType | None:
    """Return the type of a control batch, COMMIT or ABORT for a transaction marker; None for a batch of data."""
    return ControlType(int.from_bytes((batch.records[0].key or b"")[2:4])) if batch.header.is_control else None


def text(record: Record) -> str:
    """Return the record's value as text."""
    return bytes(record.value or b"").decode()


def describe(batch: StoredBatch) -> str:
    """Return one line of text about a batch: its base offset, the values of its records or its marker, and its producer."""
    header = batch.header
    who = f"producer {header.producer_id} epoch {header.producer_epoch}" if header.producer_id >= 0 else "no producer id"
    if (marker := marker_of(batch)) is not None:
        return f"offset {header.base_offset}: {marker.name} marker, {who}"
    sequence = f" sequence {header.base_sequence}" if header.base_sequence >= 0 else ""
    kind = ", transactional" if header.is_transactional else ""
    return f"offset {header.base_offset}: “{' '.join(text(record) for record in batch.records)}”, {who}{sequence}{kind}"


def describe_log(truth: Truth, topic: str, partitions: int = 1) -> list[str]:
    """Return one line of text about each batch of the topic's first `partitions` partitions, including transaction markers. `truth` reads
    them from the broker."""
    return [f"partition {index} {describe(batch)}" for index in range(partitions) for batch in truth.batches(topic, index)]
