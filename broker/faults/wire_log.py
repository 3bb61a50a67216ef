"""The wire log: one line for each request and its result, as text or JSON.

Rules:
- Authentication requests are not observed, so SASL tokens are never logged.
- Of byte fields (records, salts, password hashes, HMACs of delegation tokens) only the length is logged.
- Setting values are logged for topics and other resources without secrets. Brokers' setting values, which may be passwords, are masked.
- A peer's text is cut and its control characters are escaped, so that each exchange is one line.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable
from dataclasses import fields, is_dataclass
from datetime import UTC, datetime
from typing import Any, Final

from ottla.broker.cluster.topic_ids import id_text
from ottla.broker.faults.engine import Exchange
from ottla.broker.faults.exchange_text import PLACES_TOLD, errors_in, subject_text
from ottla.broker.faults.subject import Subject
from ottla.protocol.codec import encode_response

MASKED: Final = "***"
_BROKER: Final = 4
"""Kafka's resource type of brokers, in ConfigResource.Type."""
_UUID_BYTES: Final = 16


class WireLog:
    """An observer that writes a line for each exchange. `wanted` are filters, one of which has to match (without filters all match).
    `errors_only` omits exchanges without errors, `slower_than_ms` faster ones. `write` gets each line without a line break.
    """

    def __init__(
        self,
        write: Callable[[str], object],
        wanted: Iterable[Callable[[Subject], bool]] = (),
        *,
        as_json: bool = False,
        errors_only: bool = False,
        slower_than_ms: float = 0,
    ) -> None:
        self._write = write
        self._wanted = list(wanted)
        self._as_json = as_json
        self._errors_only = errors_only
        self._slower_than_ns = slower_than_ms * 1_000_000

    def __call__(self, exchange: Exchange) -> None:
        """Write the line of an exchange, if it is wanted."""
        if self._wanted and not any(matches(exchange.subject) for matches in self._wanted):
            return
        if exchange.took_ns < self._slower_than_ns or (self._errors_only and next(errors_in(exchange.response), None) is None):
            return
        self._write(json.dumps(document(exchange)) if self._as_json else line(exchange))


def line(exchange: Exchange) -> str:
    """Return an exchange as one line: time, client, connection, API and version, subject, bytes, time taken, errors, faults."""
    subject = exchange.subject
    errors = ", ".join(_errors(exchange)[:PLACES_TOLD])
    told = [
        _time(exchange),
        f"client={_one_line(subject.client_id) or '-'}",
        f"connection={subject.connection}",
        f"{subject.api.camel_case} v{exchange.version}",
        _one_line(subject_text(exchange)) or "-",
        f"{exchange.size} B -> {_answered(exchange)}",
        f"{exchange.took_ns / 1_000_000:.1f} ms",
        errors or "ok",
    ]
    if exchange.faults:
        told.append(f"faults={_one_line(','.join(exchange.faults))}")
    return "  ".join(told)


def document(exchange: Exchange) -> dict[str, Any]:
    """Return an exchange as a JSON document, with all decoded fields."""
    subject = exchange.subject
    return {
        "time": _time(exchange),
        "client_id": subject.client_id,
        "connection": subject.connection,
        "api": subject.api.camel_case,
        "version": exchange.version,
        "about": subject_text(exchange),
        "request_bytes": exchange.size,
        "response_bytes": _response_bytes(exchange),
        "took_ms": round(exchange.took_ns / 1_000_000, 3),
        "errors": _errors(exchange),
        "seen": exchange.seen,
        "faults": list(exchange.faults),
        "request": plain(exchange.request),
        "response": None if exchange.response is None else plain(exchange.response),
    }


def plain(value: Any, *, masked: bool = False) -> Any:
    """Return a decoded message as JSON values, without secrets."""
    if is_dataclass(value) and not isinstance(value, type):
        masked = masked or getattr(value, "resource_type", None) == _BROKER
        found = {each.name: _field(each.name, getattr(value, each.name), masked=masked) for each in fields(value)}
        if masked and found.get("value") is not None:
            found["value"] = MASKED
        return found
    if isinstance(value, list):
        return [plain(each, masked=masked) for each in value]
    return f"{len(value)} bytes" if isinstance(value, bytes | bytearray | memoryview) else value


def _field(name: str, value: Any, *, masked: bool) -> Any:
    if name.endswith("_id") and isinstance(value, bytes) and len(value) == _UUID_BYTES:
        return id_text(value)
    return plain(value, masked=masked)


def _errors(exchange: Exchange) -> list[str]:
    return list(dict.fromkeys(errors_in(exchange.response)))


def _answered(exchange: Exchange) -> str:
    size = _response_bytes(exchange)
    if size is None:
        return "no response"
    return f"{size} B" if exchange.seen else f"{size} B, late" if exchange.late else f"{size} B, not sent"


def _response_bytes(exchange: Exchange) -> int | None:
    if exchange.response is None:
        return None
    if exchange.response_bytes is not None:
        return exchange.response_bytes
    return sum(map(len, encode_response(exchange.subject.api, exchange.version, 0, exchange.response)))


def _time(exchange: Exchange) -> str:
    return datetime.fromtimestamp(exchange.at_ms / 1000, UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")


def _one_line(text: str) -> str:
    """Return a peer's text with control characters and spaces at its ends escaped."""
    return text if text.isprintable() else text.encode("unicode_escape").decode()
