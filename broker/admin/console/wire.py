"""The wire log view: requests and responses as they pass a broker or a gateway, with the fields and filters of `ottla tap`. Secrets are
masked, as there.

Rules inside:
- Requests are logged only while a client reads the view: from its first read until WIRE_LOG_LEASE_MS after its last one. Then the lines are
  freed, and requests pass as without a log.
- A line is stored only if the filter of a reader matches it, so that lines that nobody asked for do not displace rare errors. A reader with
  another filter also finds the lines that were stored for other readers.
- The lines are text, of a limited length each, and take at most WIRE_LOG_BYTES together; the oldest are dropped.
- A thread selects and joins the lines of a response, because a filter with patterns takes some milliseconds for all of them. The size of a
  long response that a broker has not encoded yet is computed on a thread, too; its line is added when the size is known.
"""

from __future__ import annotations

import asyncio
import json
from collections import deque
from collections.abc import Hashable, Iterable
from dataclasses import dataclass, replace
from itertools import islice
from typing import Annotated, Any, Final

from fastapi import APIRouter, HTTPException, Query
from fastapi.responses import Response
from pydantic import BaseModel, ConfigDict, Field

from ottla.broker.core import limits
from ottla.broker.core.clock import Clock
from ottla.broker.faults.engine import Exchange, Faults
from ottla.broker.faults.exchange_text import errors_in, is_long
from ottla.broker.faults.rules import FaultSyntax, make_filter
from ottla.broker.faults.subject import Subject
from ottla.broker.faults.wire_log import LogFilter, document, measured

LINES_MAX: Final = 500
"""The maximum number of lines in one response."""
_TEXT_MAX: Final = 1_000
_LINE_BYTES: Final = 500
_NAME_BYTES: Final = 150
"""The estimated memory, in bytes, that a name in a line takes beside its text. `_LINE_BYTES` is the estimate for the line itself."""

Text = Annotated[str, Field(max_length=_TEXT_MAX)]


class WireQuery(BaseModel):
    """A query that selects lines of the wire log. Text fields are shell patterns; a field that is not given matches everything."""

    model_config = ConfigDict(extra="forbid")

    api: Annotated[Text | None, Field(description="Kafka's name or number of the API")] = None
    client_id: Text | None = None
    transactional_id: Text | None = None
    group: Text | None = None
    topic: Text | None = None
    partition: int | None = None
    connection: int | None = None
    errors: Annotated[bool, Field(description="only requests with an error in their response")] = False
    slower_than: Annotated[float, Field(ge=0, description="only requests that took at least so many milliseconds")] = 0
    after: Annotated[int, Field(ge=0, description="only lines after this number: `last` of the response before")] = 0
    limit: Annotated[int, Field(ge=1, le=LINES_MAX)] = 100

    @property
    def wanted(self) -> dict[str, Any]:
        """The fields that decide which requests are logged: all but `after` and `limit`, which select among the logged lines."""
        return self.model_dump(exclude={"after", "limit"}, exclude_none=True)

    def as_filter(self) -> LogFilter:
        """Return the filter of the wire log that these fields describe. Raises FaultSyntax for an invalid field."""
        of_requests = self.wanted
        errors, slower_than = of_requests.pop("errors"), of_requests.pop("slower_than")
        return LogFilter([make_filter(of_requests)], errors_only=errors, slower_than_ms=slower_than)


class WireLine(BaseModel):
    """One line of the wire log: a request and its result. Long messages are shortened: a shortened list ends with the number of elements
    that are left out."""

    number: int = Field(description="counts lines in the order in which the results came")
    time: str
    client_id: str
    connection: int
    api: str
    version: int
    about: str = Field(description="the groups, transactions and partitions that the request names")
    request_bytes: int
    response_bytes: int | None = Field(description="null: there was no response")
    took_ms: float
    errors: list[str]
    seen: bool = Field(description="whether the response was sent whole and at once")
    late: bool = Field(description="whether the response is held back")
    faults: list[str] = Field(description="the fault rules that hit the request")
    request: dict[str, Any] = Field(description="all fields, under Kafka's names; bytes as their length, secrets masked")
    response: dict[str, Any] | None


class WireLines(BaseModel):
    """The newest lines of the wire log that match a query, newest first."""

    lines: list[WireLine]
    last: int = Field(description="the number of the newest line, whether or not it matches")
    missed: int = Field(description="lines after `after` that match but do not fit in this response, and lines that were dropped before it")
    since_ms: int = Field(description="when the log began")


@dataclass(frozen=True, slots=True)
class _Line:
    number: int
    subject: Subject
    took_ns: int
    errors: list[str]
    text: str
    """A `WireLine` as JSON, which is ASCII."""
    size: int


class LineRing:
    """The newest lines of the wire log, one for each request and its response. They take at most `max_bytes` together; the oldest are
    dropped."""

    def __init__(self, max_bytes: int) -> None:
        self._max_bytes = max_bytes
        self._size = 0
        self._lines: deque[_Line] = deque()
        self.last = 0
        """The number of the newest line. It also counts lines that were not stored because no reader's filter matched, and lines that were
        dropped."""

    def skip(self) -> None:
        """Count the line of a request without storing it: the number of the line is used up."""
        self.last += 1

    def add(self, exchange: Exchange) -> None:
        """Store the line of a request and its response, and drop the oldest lines while all lines together exceed `max_bytes`."""
        self.last += 1
        subject, found = _shortened(exchange.subject), document(exchange, limits.WIRE_LOG_MESSAGE_CHARS)
        text = json.dumps({"number": self.last, **found})
        self._lines.append(_Line(self.last, subject, exchange.took_ns, found["errors"], text, _LINE_BYTES + len(text) + _size(subject)))
        self._size += self._lines[-1].size
        while self._size > self._max_bytes:
            self._size -= self._lines.popleft().size

    def clear(self) -> None:
        """Drop all stored lines. The number of the next line continues the numbering."""
        self._lines.clear()
        self._size = 0

    def all(self) -> list[_Line]:
        """Return the stored lines, oldest first."""
        return list(self._lines)


@dataclass(frozen=True, slots=True)
class _Reader:
    filter: LogFilter
    lease: asyncio.TimerHandle


class WireTap:
    """The wire log (a line for each request and its response) of a broker or gateway on the same event loop. It observes requests only
    while there are readers: a reader is a query that was read within the last WIRE_LOG_LEASE_MS."""

    def __init__(self, faults: Faults, clock: Clock) -> None:
        self._faults, self._clock = faults, clock
        self._readers: dict[Hashable, _Reader] = {}
        """The readers of the wire log, by those fields of their queries that select which requests are logged (`WireQuery.wanted`). The
        reader whose last read is the oldest comes first."""
        self._ring = LineRing(limits.WIRE_LOG_BYTES)
        self._since_ms = 0
        self._measuring = 0

    def __call__(self, exchange: Exchange) -> None:
        """Store the line of a request and its response if a reader's filter matches it. If the encoded size of a long response is unknown,
        a thread computes it first; if too many such computations run, the line is only counted."""
        subject, took_ns, response = exchange.subject, exchange.took_ns, exchange.response
        if not any(reader.filter.wants(subject, took_ns, errors_in(response)) for reader in self._readers.values()):
            return
        if response is None or exchange.response_bytes is not None or not is_long(response):
            self._ring.add(exchange)
        elif self._measuring < limits.WIRE_LOG_MEASURED:
            self._measuring += 1
            asyncio.get_running_loop().run_in_executor(None, measured, exchange).add_done_callback(self._add_measured)
        else:
            self._ring.skip()

    def _add_measured(self, work: asyncio.Future[Exchange]) -> None:
        self._measuring -= 1
        if self._readers and not work.cancelled():
            self._ring.add(work.result())

    async def read(self, query: WireQuery) -> str:
        """Return the stored lines that match the query, as JSON (a `WireLines`). For the next WIRE_LOG_LEASE_MS, requests that match the
        query are logged. Raises FaultSyntax for an invalid query."""
        found = query.as_filter()
        self._renew_lease(tuple(query.wanted.items()), found)
        return await asyncio.to_thread(_response, self._ring.all(), self._ring.last, self._since_ms, found, query)

    def _renew_lease(self, key: Hashable, found: LogFilter) -> None:
        if not self._readers:
            self._since_ms = self._clock.now_ms()
            self._faults.observe(self)
        if (known := self._readers.pop(key, None)) is not None:
            known.lease.cancel()
        self._readers[key] = _Reader(
            found, asyncio.get_running_loop().call_later(limits.WIRE_LOG_LEASE_MS / 1_000, self._remove_reader, key)
        )
        if len(self._readers) > limits.WIRE_LOG_READERS:
            self._remove_reader(next(iter(self._readers)))

    def _remove_reader(self, key: Hashable) -> None:
        self._readers.pop(key).lease.cancel()
        if not self._readers:
            self._faults.stop_observing(self)
            self._ring.clear()


def wire_router(tap: WireTap) -> APIRouter:
    """Return the HTTP route of the console's wire log view."""
    router = APIRouter()

    @router.get("/wire", response_model=WireLines)
    async def wire(query: Annotated[WireQuery, Query()]) -> Response:
        """Requests and responses as they pass; 422 for an invalid query. Logging starts with the first read, and continues while the log is
        read at least every ten seconds."""
        try:
            return Response(await tap.read(query), media_type="application/json")
        except FaultSyntax as error:
            raise HTTPException(422, str(error)) from error

    return router


def _response(lines: Iterable[_Line], last: int, since_ms: int, found: LogFilter, query: WireQuery) -> str:
    after = query.after if query.after <= last else 0  # a greater number comes from a broker that has restarted since then
    kept = [line for line in lines if line.number > after]
    wanted = [line.text for line in reversed(kept) if found.wants(line.subject, line.took_ns, line.errors)]
    chosen, size = [], 0
    for text in wanted[: query.limit]:
        size += len(text)
        if size > limits.WIRE_LOG_RESPONSE_BYTES:
            break
        chosen.append(text)
    dropped = last - after - len(kept) if after else 0
    missed = len(wanted) - len(chosen) + dropped
    return f'{{"lines": [{", ".join(chosen)}], "last": {last}, "missed": {missed}, "since_ms": {since_ms}}}'


def _shortened(subject: Subject) -> Subject:
    """Return a copy of a request's properties with at most WIRE_LOG_NAMES transactional ids, as many groups and as many partitions."""
    most = limits.WIRE_LOG_NAMES
    return replace(
        subject,
        transactional_ids=set(islice(subject.transactional_ids, most)),
        groups=set(islice(subject.groups, most)),
        partitions=subject.partitions[:most],
    )


def _size(subject: Subject) -> int:
    """Return an estimate, in bytes, of the memory that the names (topics, groups, ids) of a request take."""
    names = [subject.client_id, *subject.transactional_ids, *subject.groups, *(topic for topic, _ in subject.partitions)]
    return sum(_NAME_BYTES + len(name) for name in names)
