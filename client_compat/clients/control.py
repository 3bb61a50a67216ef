"""The control protocol (CONTROL.md) for Python client programs of the compatibility matrix: read a request, call the operation, write its
answer.

Rules:
- Each operation is a method with its name from CONTROL.md. If the class lacks it, or it raises `Unsupported`, the answer says so.
- Every other exception becomes an error answer, translated by the client's `failure`.
- Requests run one after the other on one event loop, so that an asyncio client can work between them.
"""

from __future__ import annotations

import asyncio
import base64
import importlib
import inspect
import json
import sys
import traceback
from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from contextlib import redirect_stdout
from dataclasses import dataclass, field
from functools import partial
from typing import Any, TextIO

from ottla.protocol.error_codes import ErrorCode

if sys.version_info >= (3, 11):  # noqa: UP036 -- some old clients have no newer wheels than those of Python 3.10
    from asyncio import timeout
else:
    from async_timeout import timeout

DEFAULT_TIMEOUT_MS = 30_000
POLL_GRACE_S = 10.0
"""Extra time, in seconds, that a poll gets after its own time limit before it counts as hanging."""


def _words(text: str) -> frozenset[str]:
    return frozenset(text.split())


OPERATIONS: Mapping[str, frozenset[str]] = {
    "producer": _words("open send begin commit abort send_offsets close"),
    "consumer": _words(
        "open subscribe assign poll assignment commit committed position seek offsets_for_times end_offsets beginning_offsets"
        " pause resume close"
    ),
    "admin": _words(
        "create_topics delete_topics list_topics describe_topic create_partitions describe_configs alter_configs delete_records"
        " list_offsets list_groups describe_group group_offsets alter_group_offsets delete_groups describe_producers list_transactions"
        " describe_transaction abort_transaction fence_producers describe_cluster connect"
    ),
}

Answer = dict[str, Any]
Partition = tuple[str, int]
_ENVELOPE = frozenset({"id", "op", "handle", "bootstrap", "timeout_ms", "security"})


class Unsupported(Exception):
    """The client library has no public API for a requested operation or option. The text names the library and what it lacks."""


class BadRequest(Exception):
    """The request does not conform to the control protocol (CONTROL.md)."""


@dataclass(frozen=True, slots=True)
class Failure:
    """An error of a client library, as the control protocol (CONTROL.md) reports it. `code` is Kafka's name of the error, or `CLIENT:…` for
    an error of the library. Each of the flags `retriable`, `fatal` and `abortable` is None if the library does not report it."""

    code: str
    message: str = ""
    retriable: bool | None = None
    fatal: bool | None = None
    abortable: bool | None = None

    def as_json(self) -> Answer:
        flags = {"retriable": self.retriable, "fatal": self.fatal, "abortable": self.abortable}
        return {"code": self.code, "message": self.message, **flags}


@dataclass(frozen=True, slots=True)
class Request:
    """One request of the control protocol. Indexing returns a required argument. `options` are the producer's or consumer's settings in a
    `producer.open` or `consumer.open`: the arguments that are not None, without `handle`, `bootstrap`, `timeout_ms` and `security`."""

    id: int
    op: str
    arguments: Mapping[str, Any]

    def __getitem__(self, name: str) -> Any:
        try:
            return self.arguments[name]
        except KeyError:
            raise BadRequest(f"{self.op} without {name}") from None

    def get(self, name: str, default: Any = None) -> Any:
        return self.arguments.get(name, default)

    @property
    def timeout_s(self) -> float:
        return float(self.get("timeout_ms", DEFAULT_TIMEOUT_MS)) / 1000

    @property
    def options(self) -> dict[str, Any]:
        return {name: value for name, value in self.arguments.items() if name not in _ENVELOPE and value is not None}


@dataclass(slots=True)
class Program:
    """A client program: factories for its producers, consumers and admin clients, whose methods are the operations of the control protocol
    (CONTROL.md).

    - `failure` translates an exception of the client.
    - `connect` implements `admin.connect`; a program that has it also supports the argument `security`.
    - The `close` method of a producer or consumer takes no argument; every other operation takes its request. All may be coroutine
      functions.
    """

    client: str
    version: str
    producer: Callable[[Request], Any]
    consumer: Callable[[Request], Any]
    admin: Callable[[str], Any]
    failure: Callable[[BaseException], Failure | None]
    connect: Callable[[Request], Any] | None = None
    runtime: str = f"python {sys.version.split()[0]}"
    _handles: dict[tuple[str, str], Any] = field(default_factory=dict)
    _admins: dict[str, Any] = field(default_factory=dict)

    async def run(self, source: TextIO, sink: TextIO) -> None:
        """Answer every line of `source` on `sink` until the end, then close all objects. Other output goes to standard error."""
        with redirect_stdout(sys.stderr):
            self._write(sink, {"ready": {"client": self.client, "version": self.version, "runtime": self.runtime}})
            while line := await asyncio.to_thread(source.readline):
                self._write(sink, await self.answer(json.loads(line)))
            await self._close_all()

    async def answer(self, raw: Mapping[str, Any]) -> Answer:
        """Return the answer to one request; every exception becomes an error answer."""
        request = Request(raw["id"], raw["op"], {name: value for name, value in raw.items() if name not in {"id", "op"}})
        try:
            return {"id": request.id, "ok": await self._perform(request) or {}}
        except Unsupported as lack:
            return {"id": request.id, "unsupported": str(lack)}
        except Exception as error:  # noqa: BLE001 -- any exception of a client is the answer to the request
            return {"id": request.id, "error": self.failure_of(error).as_json()}

    def failure_of(self, error: BaseException) -> Failure:
        """Return the exception `error` as the control protocol (CONTROL.md) reports it. A timeout has the code `CLIENT:TIMEOUT`. An error
        that the client's `failure` does not translate has the code `CLIENT:<class>`, and its traceback is logged."""
        if isinstance(error, (TimeoutError, asyncio.TimeoutError)):  # they differ before Python 3.11
            return Failure("CLIENT:TIMEOUT", str(error))
        if (known := self.failure(error)) is not None:
            return known
        traceback.print_exception(error, file=sys.stderr)
        return Failure(f"CLIENT:{type(error).__name__}", str(error))

    async def _perform(self, request: Request) -> Answer | None:
        area, _, name = request.op.partition(".")
        if name not in OPERATIONS.get(area, frozenset()):
            raise BadRequest(f"there is no operation {request.op}")
        limit_s = request.timeout_s + (POLL_GRACE_S if request.op == "consumer.poll" else 0.0)
        if self.connect is None and (request.op == "admin.connect" or request.get("security") is not None):
            raise Unsupported(f"{self.client}'s program brings no certificates and users")
        async with timeout(limit_s):
            if request.op == "admin.connect" and self.connect is not None:
                return {"brokers": await _value(self.connect(request))}
            if area == "admin":
                return await self._call(await self._admin(request["bootstrap"]), name, request)
            key = (area, str(request["handle"]))
            if name == "open":
                self._handles[key] = await _value(self._maker(area)(request))
                return None
            if key not in self._handles:
                raise BadRequest(f"no {area} has the handle {key[1]}")
            if name == "close":
                await _value(self._handles.pop(key).close())
                return None
            if name == "send_offsets":
                return await self._call(self._handles[key], name, request, self._handles["consumer", request["consumer"]])
            return await self._call(self._handles[key], name, request)

    async def _call(self, target: Any, name: str, request: Request, *more: Any) -> Answer | None:
        method = getattr(target, name, None)
        if method is None:
            raise Unsupported(f"{self.client} has no {request.op}")
        answer: Answer | None = await _value(method(request, *more))
        return answer

    def _maker(self, area: str) -> Callable[[Request], Any]:
        return self.producer if area == "producer" else self.consumer

    async def _admin(self, bootstrap: str) -> Any:
        if bootstrap not in self._admins:
            self._admins[bootstrap] = await _value(self.admin(bootstrap))
        return self._admins[bootstrap]

    async def _close_all(self) -> None:
        for one in [*self._handles.values(), *self._admins.values()]:
            try:
                async with timeout(POLL_GRACE_S):
                    await _value(one.close())
            except Exception as error:  # noqa: BLE001 -- the other objects have to be closed as well
                self.failure_of(error)

    @staticmethod
    def _write(sink: TextIO, answer: Answer) -> None:
        sink.write(json.dumps(answer) + "\n")
        sink.flush()


def admin_of(client: str, module: str) -> Callable[[str], Any]:
    """Return the function that opens an admin client for bootstrap servers, from the class `Admin` in `module`. If the installed client is
    too old to import that module, the function raises `Unsupported`."""
    try:
        kind: Any = importlib.import_module(module).Admin
        opened: Callable[[str], Any] = getattr(kind, "open", kind)
        return opened
    except ImportError:
        return partial(_lacks_admin, client)


def _lacks_admin(client: str, bootstrap: str) -> Any:
    raise Unsupported(f"{client}: this version's admin client is too old for the program")


async def _value(result: Any) -> Any:
    return await result if isinstance(result, Awaitable) or inspect.isawaitable(result) else result


def settings(client: str, request: Request, names: Mapping[str, str | tuple[str, Mapping[Any, Any]]]) -> dict[str, Any]:
    """Translate the options of a `producer.open` or `consumer.open` to the client's settings. `names` maps an option to the setting's name,
    or to the name and a mapping of the option's values.

    Raises `Unsupported` for an option or value that the client lacks.
    """
    own: dict[str, Any] = {}
    for option, value in request.options.items():
        if option not in names:
            raise Unsupported(f"{client} has no setting for {option}")
        match names[option]:
            case str(name):
                own[name] = value
            case (name, words):
                if value not in words:
                    raise Unsupported(f"{client} has no {option} {value}")
                own[name] = words[value]
    return own


def kafka_name(number: int | None) -> str | None:
    """Return Kafka's name of an error code, or None if Kafka has no such code."""
    return None if number is None or number not in ErrorCode._value2member_map_ else ErrorCode(number).name


def to_wire(value: bytes | bytearray | memoryview | None) -> str | None:
    return None if value is None else base64.b64encode(value).decode()


def from_wire(text: str | None) -> bytes | None:
    return None if text is None else base64.b64decode(text)


def headers_from_wire(record: Mapping[str, Any]) -> list[tuple[str, bytes | None]]:
    return [(name, from_wire(value)) for name, value in record.get("headers") or ()]


def taken(
    place: Partition,
    offset: int,
    *,
    key: bytes | None,
    value: bytes | None,
    headers: Iterable[tuple[str, bytes | None]],
    timestamp: int | None,
    timestamp_type: str | None,
) -> Answer:
    """Return one consumed record in the JSON form of a `consumer.poll` answer (CONTROL.md); `place` is its topic and partition."""
    return {
        "topic": place[0],
        "partition": place[1],
        "offset": offset,
        "key": to_wire(key),
        "value": to_wire(value),
        "headers": [[name, to_wire(content)] for name, content in headers],
        "timestamp": timestamp,
        "timestamp_type": timestamp_type,
    }


TIMESTAMP_TYPES: Mapping[int | None, str] = {0: "create", 1: "append"}


def compact_json(value: bytes | None) -> bytes | None:
    """Convert JSON to its compact form with members sorted by name, as the serializer `json` of the control protocol (CONTROL.md) does;
    None stays None."""
    return None if value is None else json.dumps(json.loads(value), sort_keys=True, separators=(",", ":"), ensure_ascii=False).encode()


def last_of(partitions: Sequence[int]) -> int:
    """Return the highest partition number, which the partitioner `last` of the control protocol (CONTROL.md) chooses for every record."""
    return max(partitions)
