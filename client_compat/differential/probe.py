"""A probe: the client with which a scenario sends requests to one broker, and which records the responses."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from types import TracebackType
from typing import Any

from client_compat.differential.normalise import Names, Plain, normalise
from ottla.protocol.api_keys import ApiKey
from ottla.protocol.client import Client
from ottla.protocol.codec import decode_response
from ottla.protocol.errors import ProtocolError
from ottla.protocol.schema import Message

TIMEOUT_S = 10.0
Versions = dict[int, tuple[int, int]]


class NotOffered(Exception):
    """Raised when an older release does not offer the API of a scenario's next request; the scenario ends there."""


@dataclass(frozen=True, slots=True)
class Seen:
    """One response: the label and version of the request, and the normalised response."""

    label: str
    api: str
    version: int
    response: Plain


@dataclass(slots=True)
class Probe:
    """A client of one of the compared brokers, which records the responses. `versions` holds, by API key, the first and last version that
    both brokers and the protocol package support.

    With `older`, the brokers behave like an older release than the scenarios were written for: a request whose version is newer than those
    that the brokers support is sent in the newest supported version.
    """

    host: str
    port: int
    versions: Versions
    seen: list[Seen] = field(default_factory=list)
    names: Names = field(default_factory=Names)
    older: bool = False
    _connections: dict[str, Client] = field(default_factory=dict)

    def connection(self, name: str = "main") -> Client:
        """Return the open connection of this name; open it on first use."""
        if name not in self._connections:
            self._connections[name] = Client(self.host, self.port, client_id="differential", timeout_s=TIMEOUT_S)
        return self._connections[name]

    def ask(self, label: str, request: Message, version: int | None = None, *, on: str = "main", sort: bool = True) -> Any:
        """Send a request, record the response under `label`, and return it decoded. `version` None: the highest that both brokers support.
        `on`: the name of the connection to use. `sort`: sort lists whose order Kafka does not define.

        Returns None when the connection was closed, the response is undecodable, or it did not arrive in time; this is recorded, too.
        """
        return self.finish(label, *self.send(request, version, on=on), sort=sort)

    def ask_unrecorded(self, request: Message, version: int) -> Any:
        """Send a request and return the response without recording it, for polling. Raises OSError if the connection fails, ProtocolError
        if the response is undecodable."""
        client, version = self.connection(), self._version(request, version)
        client.send(request, version)
        return decode_response(request.API_KEY, version, client.read_frame())[1]

    def send(self, request: Message, version: int | None = None, *, on: str = "main") -> tuple[Message, int, str]:
        """Send a request without waiting for the response, and return the arguments with which `finish(label, *result)` reads and records
        it. Raises NotOffered if the older release under comparison lacks the API."""
        version = self._version(request, version)
        self.connection(on).send(request, version)
        return request, version, on

    def _version(self, request: Message, version: int | None) -> int:
        if not self.older:
            return self.versions[request.API_KEY][1] if version is None else version
        if request.API_KEY not in self.versions:
            raise NotOffered(ApiKey(request.API_KEY).name)
        newest = self.versions[request.API_KEY][1]
        return newest if version is None else min(version, newest)

    def finish(self, label: str, request: Message, version: int, on: str, *, sort: bool = True) -> Any:
        """Read the response to a request that `send` has sent, record it under `label`, and return it decoded. `sort`: sort lists whose
        order Kafka does not define. Returns None, which is recorded as well, if there is no response or it is undecodable."""
        api = ApiKey(request.API_KEY).name
        try:
            response = decode_response(request.API_KEY, version, self.connection(on).read_frame())[1]
        except (OSError, ProtocolError) as error:
            self.hang_up(on)
            kind = "timed out" if isinstance(error, TimeoutError) else "closed" if isinstance(error, OSError) else f"undecodable: {error}"
            self.seen.append(Seen(label, api, version, f"<{kind}>"))
            return None
        self.seen.append(Seen(label, api, version, normalise(response, self.names, sort=sort)))
        return response

    def each_version(self, label: str, key: ApiKey, request: Callable[[int], Message]) -> None:
        """Send a request at every version of the API `key` that both brokers support, and record the responses under `label`. `request` is
        a function that returns the request for a version."""
        for version in self.range(key):
            self.ask(label, request(version), version)

    def range(self, key: ApiKey) -> Sequence[int]:
        first, last = self.versions.get(key, (0, -1))
        return range(first, last + 1)

    def knows(self, key: ApiKey) -> bool:
        return key in self.versions

    def hang_up(self, name: str = "main") -> None:
        """Close a connection; the next request on it opens a new one."""
        if name in self._connections:
            self._connections.pop(name).close()

    def close(self) -> None:
        for name in list(self._connections):
            self.hang_up(name)

    def __enter__(self) -> Probe:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        self.close()
