"""Converts records to the rows that `ottla dump-log` prints: UTF-8 as text, and the decoded contents of internal topics."""

from __future__ import annotations

import base64
import dataclasses
from typing import Any

from ottla.broker.cluster import record_frames
from ottla.broker.cluster.topic_names import CLUSTER_METADATA, CONSUMER_OFFSETS, TRANSACTION_STATE
from ottla.broker.groups import group_records
from ottla.broker.txns import txn_records
from ottla.broker.txns.transaction import Transaction
from ottla.protocol.errors import ProtocolError
from ottla.protocol.records.control import ControlType, control_type, coordinator_epoch_of
from ottla.protocol.records.record import Record


def text(data: bytes | None) -> Any:
    """Return UTF-8 bytes as text, other bytes as `{"base64": …}`; None stays None."""
    if data is None:
        return None
    try:
        return bytes(data).decode()
    except UnicodeDecodeError:
        return {"base64": base64.b64encode(data).decode()}


def describe_record(topic: str, record: Record) -> dict[str, Any]:
    """Return a row that describes a data record: its key, value and headers or, for a record of an internal topic, its decoded contents in
    place of these."""
    row: dict[str, Any] = {"key": text(record.key), "value": text(record.value), "headers": [[k, text(v)] for k, v in record.headers]}
    try:
        decoded = _decoded(topic, record)
    except ProtocolError as error:
        return row | {"decoded": f"not readable: {error}"}
    return row if decoded is None else {"decoded": decoded}


def _decoded(topic: str, record: Record) -> dict[str, Any] | None:
    if topic == CONSUMER_OFFSETS:
        found = group_records.decode_record(record.key, record.value)
        if found is None:
            return None
        value = None if found.value is None else _plain(dataclasses.asdict(found.value))
        return {"type": type(found.key).__name__, **_plain(dataclasses.asdict(found.key)), "value": value}
    if topic == TRANSACTION_STATE:
        stored = txn_records.decode_record(record.key, record.value)
        return None if stored is None else {"transactional_id": stored.transactional_id, "value": _transaction(stored.value)}
    if topic == CLUSTER_METADATA and record.value is not None:
        change, _ = record_frames.decode_record(record.value)
        return {"type": type(change).__name__, **_plain(dataclasses.asdict(change))}
    return None


def _transaction(txn: Transaction | None) -> dict[str, Any] | None:
    if txn is None:
        return None
    shown = {
        "state": txn.state.wire_name,
        "producer_id": txn.producer_id,
        "producer_epoch": txn.producer_epoch,
        "timeout_ms": txn.timeout_ms,
        "start_ms": txn.start_ms,
        "last_update_ms": txn.last_update_ms,
        "version": txn.version,
        "partitions": [f"{topic}-{index}" for topic, index in sorted(txn.partitions)],
    }
    return shown if txn.next_producer_id < 0 else {**shown, "next_producer_id": txn.next_producer_id}


def _plain(value: Any) -> Any:
    """Convert a decoded value to JSON types; bytes (ids, assignments) become hexadecimal digits."""
    if isinstance(value, dict):
        return {name: _plain(part) for name, part in value.items()}
    if isinstance(value, list | tuple):
        return [_plain(part) for part in value]
    return bytes(value).hex() if isinstance(value, bytes | bytearray | memoryview) else value


def control_row(record: Record) -> dict[str, Any]:
    """Return a row that describes a control record: its type ("unknown" for a type of a newer broker) and, for a transaction marker, the
    coordinator epoch."""
    try:
        kind = control_type(record.key)
    except ProtocolError as error:
        return {"control": f"not readable: {error}"}
    row: dict[str, Any] = {"control": "unknown" if kind is None else kind.name}
    if kind in (ControlType.ABORT, ControlType.COMMIT):
        try:
            row["coordinator epoch"] = coordinator_epoch_of(record.value)
        except ProtocolError as error:
            row["coordinator epoch"] = f"not readable: {error}"
    return row
