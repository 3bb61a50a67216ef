"""Parses a cluster's address and client properties: `kafka://host:port[,host:port]?property=value`.

Invariants:
- A URL contains no secrets, because URLs are displayed; `command.config=FILE` names a file that holds them.
- Findings name the cluster by its URL without properties.
- An address can be pickled and used on another machine; it contains the properties of its file.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Final
from urllib.parse import parse_qsl, urlencode

import javaproperties

from ottla.protocol.printable import reason_of
from ottla.spark_jobs.paths import CLUSTER
from ottla.spark_jobs.wire.security import Security, dotted, is_secret, security_of

DEFAULT_PORT: Final = 9092
CONFIG_FILE: Final = "command.config"
RATE: Final = "max.bytes.per.second"
PINNED: Final = "pinned"
TIMEOUT: Final = "request.timeout.ms"
STATE_FILE: Final = "ottla-spool.json"
"""The name of the state file in a spool directory (a local copy of a cluster's logs). It holds the cluster's id and the offsets at which
its logs start."""


@dataclass(frozen=True, slots=True)
class Address:
    """The bootstrap servers of a cluster, and the client settings for reading it. `bytes_per_second` 0: no limit. `pinned`: a file with the
    offsets to read (see `find.pin`); empty: read up to the current ends."""

    servers: tuple[tuple[str, int], ...]
    security: Security = field(default_factory=Security)
    bytes_per_second: int = 0
    timeout_s: float = 30.0
    client_id: str = "ottla-audit"
    pinned: str = ""

    @property
    def name(self) -> str:
        """The cluster's name in findings and verdicts: its URL without properties."""
        return CLUSTER + ",".join(f"{_bracketed(host)}:{port}" for host, port in self.servers)

    def __str__(self) -> str:
        return self.name


def address_of(path: str | Address) -> Address:
    """Parse the address in a URL. Raises ValueError on an invalid URL or one with a secret, OSError when its properties file cannot be
    read."""
    if isinstance(path, Address):
        return path
    servers, _, query = path.removeprefix(CLUSTER).partition("?")
    given = dict(parse_qsl(query, keep_blank_values=True))
    for name in given:
        if is_secret(name):
            raise ValueError(f"{name} in a URL would be shown with it: put it into a file and name that with {CONFIG_FILE}=FILE")
    return address(servers.strip("/"), given)


def address(servers: str, properties: Mapping[str, str]) -> Address:
    """Return the address of a cluster. `servers`: `host:port,host:port`; `properties`: Kafka's client properties. Raises ValueError on an
    invalid server or property, OSError if the file that `command.config` names cannot be read."""
    given = {dotted(name): value for name, value in properties.items()}
    file = given.pop(CONFIG_FILE, "")
    if file:
        try:
            with Path(file).open(encoding="utf-8") as text:
                given = {dotted(name): value for name, value in javaproperties.load(text).items()} | given
        except OSError as e:
            raise OSError(f"the client security settings {file} cannot be read: {reason_of(e)}") from e
    found = Address(_servers(servers), security_of(given), client_id=given.get("client.id", "ottla-audit"))
    rate, timeout_ms = (_number(given, name) for name in (RATE, TIMEOUT))
    return replace(found, bytes_per_second=rate, timeout_s=timeout_ms / 1000 or found.timeout_s, pinned=given.get(PINNED, ""))


def url_with(url: str, properties: Mapping[str, object]) -> str:
    """Return the URL with further properties; values None and 0 are omitted."""
    servers, _, query = url.partition("?")
    given = dict(parse_qsl(query, keep_blank_values=True)) | {name: str(value) for name, value in properties.items() if value}
    return servers + ("?" + urlencode(given, safe="/") if given else "")


def _servers(text: str) -> tuple[tuple[str, int], ...]:
    found = []
    for server in text.split(","):
        host, colon, port = server.strip().rpartition(":")
        if not colon or port.endswith("]"):
            host, port = server.strip(), str(DEFAULT_PORT)
        if not host or not port.isdecimal() or not 0 < int(port) < 65536:
            raise ValueError(f"{server!r} names no broker: it looks like host:9092")
        found.append((host.strip("[]"), int(port)))
    return tuple(found)


def _bracketed(host: str) -> str:
    return f"[{host}]" if ":" in host else host


def _number(given: Mapping[str, str], name: str) -> int:
    value = given.get(name, "0")
    if not value.isdecimal():
        raise ValueError(f"{name}={value}: it must be a number")
    return int(value)
