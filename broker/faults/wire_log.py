"""The wire log, a log of the requests of clients: one line for each request and its result, as text or JSON.

Rules:
- Authentication requests are not observed, so SASL tokens are never logged.
- Of byte fields (records, salts, password hashes, HMACs of delegation tokens) only the length is logged.
- Setting values are logged for topics and other resources without secrets. Brokers' setting values, which may be passwords, are masked.
- Text from a peer is cut and its control characters are escaped, so that each request takes one line.
- A JSON line in a file has all fields, except when the writing thread is behind (WIRE_LOG_WAITING lines, or messages of
  WIRE_LOG_WAITING_BYTES bytes, wait for it). Then, and always in the console, long lists and texts are cut, and each cut is marked.
"""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Iterable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import is_dataclass, replace
from datetime import UTC, datetime
from io import StringIO
from threading import BoundedSemaphore, Lock
from typing import Any, Final

from ottla.broker.core import limits
from ottla.broker.faults.engine import Exchange
from ottla.broker.faults.exchange_text import PLACES_MAX, TEXT_CHARS, errors_in, field_names, is_long, subject_text
from ottla.broker.faults.subject import Subject
from ottla.protocol.codec import encode_response
from ottla.protocol.uuids import encode_uuid

MASKED: Final = "***"
_BROKER: Final = 4
"""The number of the resource type BROKER in Kafka's ConfigResource.Type."""
_UUID_BYTES: Final = 16
_NUMBER_CHARS: Final = 8
"""The number of characters that each number counts for when the size of a JSON document is limited, however many digits it has."""
_NOT_MEASURED: Final = -1
"""Stands for the size of a response that was not measured: a long response is not encoded only to log its size."""
_EXACT_INTEGER_END: Final = 2**53
"""2^53: JavaScript represents integers with a smaller absolute value exactly; others are written as strings."""


class LogFilter:
    """Decides which requests a wire log (a log of clients' requests) contains: those that match one of the filters `wanted`, or all if
    there are no filters. `errors_only` omits requests whose response has no error; `slower_than_ms` omits requests that took less time."""

    def __init__(self, wanted: Iterable[Callable[[Subject], bool]] = (), *, errors_only: bool = False, slower_than_ms: float = 0) -> None:
        self._wanted = list(wanted)
        self._errors_only = errors_only
        self._slower_than_ns = slower_than_ms * 1_000_000

    def wants(self, subject: Subject, took_ns: int, errors: Iterable[str]) -> bool:
        """Return whether the log contains a request with these properties, whose handling took `took_ns` nanoseconds, and whose response
        has these error names."""
        if self._wanted and not any(matches(subject) for matches in self._wanted):
            return False
        return took_ns >= self._slower_than_ns and (not self._errors_only or next(iter(errors), None) is not None)


class WireLog:
    """An observer that writes one line for each request with its result. The arguments `wanted`, `errors_only` and `slower_than_ms` select
    requests as in `LogFilter`. `write` gets each line without a line break, from one thread at a time.

    The line of a long message is made and written by a separate thread, possibly after the lines of later requests. While WIRE_LOG_WAITING
    such lines, or messages of WIRE_LOG_WAITING_BYTES bytes, wait for the thread, the line of the next long message is made at once; then
    its fields are cut, and the response's size is missing.
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
        self._filter = LogFilter(wanted, errors_only=errors_only, slower_than_ms=slower_than_ms)
        self._as_json = as_json
        self._writing = Lock()
        self._waiting_slots = BoundedSemaphore(limits.WIRE_LOG_WAITING)
        self._taken_bytes = self._written_bytes = 0
        """Total bytes, since the start, of the long messages that were given to the writing thread, and of those whose lines it has
        written."""
        self._thread: ThreadPoolExecutor | None = None
        """The thread that makes the lines of long messages; created for the first of them. The interpreter waits for it at the end of the
        process, so no line is lost."""

    def __call__(self, exchange: Exchange) -> None:
        """Write the log line of a request and its result if the filter selects the request."""
        if not self._filter.wants(exchange.subject, exchange.took_ns, errors_in(exchange.response)):
            return
        if not self._takes_long(exchange):
            self._say(json.dumps(document(exchange)) if self._as_json else line(exchange))
        elif self._takes(exchange):
            self._thread = self._thread or ThreadPoolExecutor(1, "wire-log")
            self._thread.submit(self._say_long, exchange)
        else:
            brief = replace(exchange, response_bytes=exchange.response_bytes or _NOT_MEASURED)
            self._say(json.dumps(document(brief, limits.WIRE_LOG_MESSAGE_CHARS)) if self._as_json else line(brief))

    def _takes_long(self, exchange: Exchange) -> bool:
        if self._as_json and is_long(exchange.request):
            return True
        measures = exchange.response is not None and exchange.response_bytes is None
        return (measures or self._as_json) and exchange.response is not None and is_long(exchange.response)

    def _takes(self, exchange: Exchange) -> bool:
        """Return whether the writing thread will make the line of this request; if so, count the request as waiting. Return False if too
        many lines wait already."""
        waiting, more = self._taken_bytes - self._written_bytes, _bytes(exchange)
        if (waiting and waiting + more > limits.WIRE_LOG_WAITING_BYTES) or not self._waiting_slots.acquire(blocking=False):
            return False
        self._taken_bytes += more
        return True

    def _say_long(self, exchange: Exchange) -> None:
        try:
            # in small pieces of Python: `json.dumps` would not let the event loop run before its end
            text = StringIO()
            text.writelines(json.JSONEncoder().iterencode(document(exchange)) if self._as_json else [line(exchange)])
            self._say(text.getvalue())
        finally:
            self._written_bytes += _bytes(exchange)
            self._waiting_slots.release()

    def _say(self, text: str) -> None:
        with self._writing:
            self._write(text)


def line(exchange: Exchange) -> str:
    """Return a request and its result as one line: time, client, connection, API and version, names, bytes, time taken, errors, faults."""
    subject = exchange.subject
    errors = ", ".join(_errors(exchange)[:PLACES_MAX])
    fields = [
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
        fields.append(f"faults={_one_line(','.join(exchange.faults))}")
    return "  ".join(fields)


def document(exchange: Exchange, chars: int | None = None) -> dict[str, Any]:
    """Return a request and its result as a JSON document with all decoded fields.

    With `chars`, lists and texts are cut so that the request and the response have about that many characters each, and integers from 2^53
    on, which JavaScript would round, are written as text.
    """
    subject = exchange.subject
    return {
        "time": _time(exchange),
        "client_id": subject.client_id if chars is None else subject.client_id[:TEXT_CHARS],
        "connection": subject.connection,
        "api": subject.api.camel_case,
        "version": exchange.version,
        "about": subject_text(exchange),
        "request_bytes": exchange.size,
        "response_bytes": None if exchange.response_bytes == _NOT_MEASURED else _response_bytes(exchange),
        "took_ms": round(exchange.took_ns / 1_000_000, 3),
        "errors": _errors(exchange),
        "seen": exchange.seen,
        "late": exchange.late,
        "faults": list(exchange.faults),
        "request": plain(exchange.request, chars),
        "response": None if exchange.response is None else plain(exchange.response, chars),
    }


def measured(exchange: Exchange) -> Exchange:
    """Return a copy of `exchange` (a request and its result) with the size of the response filled in. This takes milliseconds for a
    response with very many elements, because it is encoded."""
    return replace(exchange, response_bytes=_response_bytes(exchange))


def plain(message: Any, chars: int | None = None) -> Any:
    """Return a decoded message as JSON values, without secrets. With `chars`, lists and texts are cut so that the message has about that
    many characters."""
    return _plain(message, _CharBudget(chars), masked=False)


class _CharBudget:
    """Counts how many more characters of one message may be written to the wire log. It starts with `chars`; with None, there is no
    limit."""

    def __init__(self, chars: int | None) -> None:
        self._is_limited = chars is not None
        self._left: float = math.inf if chars is None else chars

    @property
    def is_used_up(self) -> bool:
        """Whether no characters are left for this message, so that further elements of lists are omitted."""
        return self._left <= 0

    def take(self, chars: int) -> None:
        """Reduce the number of remaining characters by `chars`, the length of a text that is written to the log."""
        self._left -= chars

    def shown(self, value: Any) -> Any:
        """Return a field's value as it is written to the log, and reduce the number of remaining characters by its length. A text that is
        longer than the remaining characters is cut."""
        if isinstance(value, str):
            left = max(0, self._left)
            self.take(len(value))
            return value if len(value) <= left else f"{value[: int(left)]}… ({len(value)} characters)"
        self.take(_NUMBER_CHARS)
        return str(value) if self._is_limited and isinstance(value, int) and abs(value) >= _EXACT_INTEGER_END else value


def _plain(value: Any, budget: _CharBudget, *, masked: bool) -> Any:
    if is_dataclass(value) and not isinstance(value, type):
        masked = masked or getattr(value, "resource_type", None) == _BROKER
        found = {name: _field(name, getattr(value, name), budget, masked=masked) for name in field_names(type(value))}
        if masked and found.get("value") is not None:
            found["value"] = MASKED
        return found
    if isinstance(value, list):
        return _elements(value, budget, masked=masked)
    return budget.shown(f"{len(value)} bytes" if isinstance(value, bytes | bytearray | memoryview) else value)


def _elements(values: list[Any], budget: _CharBudget, *, masked: bool) -> list[Any]:
    rendered: list[Any] = []
    for each in values:
        if budget.is_used_up:
            return [*rendered, f"… and {len(values) - len(rendered)} more"]
        rendered.append(_plain(each, budget, masked=masked))
    return rendered


def _field(name: str, value: Any, budget: _CharBudget, *, masked: bool) -> Any:
    budget.take(len(name))
    if name.endswith("_id") and isinstance(value, bytes) and len(value) == _UUID_BYTES:
        return budget.shown(encode_uuid(value))
    return _plain(value, budget, masked=masked)


def _bytes(exchange: Exchange) -> int:
    return exchange.size + (exchange.response_bytes or 0)


def _errors(exchange: Exchange) -> list[str]:
    return list(dict.fromkeys(errors_in(exchange.response)))


def _answered(exchange: Exchange) -> str:
    size: int | str | None = _response_bytes(exchange)
    if size is None:
        return "no response"
    if size == _NOT_MEASURED:
        size = "?"
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
    """Return a peer's text in a form that takes one line: if a character is not printable, escape all such characters, and also backslashes
    and non-ASCII characters."""
    return text if text.isprintable() else text.encode("unicode_escape").decode()
