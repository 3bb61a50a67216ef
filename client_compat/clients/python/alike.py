"""Settings and answers that aiokafka and kafka-python have in common because of their common origin."""

from __future__ import annotations

from collections.abc import Container, Mapping
from typing import Any

from client_compat.clients.control import TIMESTAMP_TYPES, Answer, Request, Unsupported, settings, taken

CONSUMER_SETTINGS: Mapping[str, Any] = {
    "client_id": "client_id",
    "group": "group_id",
    "instance_id": "group_instance_id",
    "reset": "auto_offset_reset",
    "isolation": "isolation_level",
    "auto_commit": "enable_auto_commit",
    "auto_commit_interval_ms": "auto_commit_interval_ms",
    "session_timeout_ms": "session_timeout_ms",
    "heartbeat_interval_ms": "heartbeat_interval_ms",
    "max_poll_records": "max_poll_records",
    "fetch_min_bytes": "fetch_min_bytes",
    "fetch_max_wait_ms": "fetch_max_wait_ms",
    "fetch_max_bytes": "fetch_max_bytes",
    "partition_fetch_bytes": "max_partition_fetch_bytes",
}


def consumer_settings(client: str, request: Request, assignors: Mapping[str, Any]) -> dict[str, Any]:
    """Return the library's keyword arguments for a `consumer.open` request. `assignors` maps the control protocol's names of assignors to
    the library's. Raises `Unsupported` for an option or group protocol that the library lacks."""
    if request.get("group_protocol", "classic") != "classic":
        raise Unsupported(f"{client} has no KIP-848 groups, only classic ones")
    classic = Request(request.id, request.op, {name: value for name, value in request.arguments.items() if name != "group_protocol"})
    return settings(client, classic, {**CONSUMER_SETTINGS, "assignor": ("partition_assignment_strategy", assignors)})


def only_known(client: str, version: str, own: dict[str, Any], known: Container[str]) -> dict[str, Any]:
    """Return the keyword arguments `own` if this version of the library knows all of them (`known`). Raises `Unsupported` otherwise."""
    if lacking := sorted(name for name in own if name not in known):
        raise Unsupported(f"{client} {version} has no setting {', '.join(lacking)}")
    return own


def offset_rows(offsets: Mapping[Any, int]) -> Answer:
    """Return the answer `offsets` of the control protocol (CONTROL.md) with these offsets by partition."""
    return {"offsets": [[*partition, offset] for partition, offset in offsets.items()]}


def taken_record(record: Any) -> Answer:
    """Return one record that aiokafka or kafka-python consumed, in the form of a `consumer.poll` answer (CONTROL.md)."""
    return taken(
        (record.topic, record.partition),
        record.offset,
        key=record.key,
        value=record.value,
        headers=record.headers,
        timestamp=record.timestamp,
        timestamp_type=TIMESTAMP_TYPES.get(record.timestamp_type),
    )
