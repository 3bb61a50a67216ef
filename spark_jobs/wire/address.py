"""Where a cluster is and how it is spoken to: `kafka://host:port[,host:port]?property=value`.

Rules that hold here: no secret stands in a URL, because URLs are shown (`command.config=FILE` names a file that holds them); the name under
which findings are told is the URL without its properties. An address can be pickled to another machine, with what its file said.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Final
from urllib.parse import parse_qsl, urlencode

import javaproperties

from ottla.spark_jobs.filesystem import CLUSTER
from ottla.spark_jobs.wire.security import Security, dotted, is_secret, security_of

DEFAULT_PORT: Final = 9092
CONFIG_FILE: Final = "command.config"
RATE: Final = "max.bytes.per.second"
PINNED: Final = "pinned"
TIMEOUT: Final = "request.timeout.ms"
STATE_FILE: Final = "ottla-spool.json"
"""In a directory of logs that were fetched from a cluster: which one, and how far."""


@dataclass(frozen=True, slots=True)
class Address:
    """A cluster. `bytes_per_second` 0: as fast as it goes. `pinned`: a file that says which offsets to read (see `pins`)."""

    servers: tuple[tuple[str, int], ...]
    security: Security = field(default_factory=Security)
    bytes_per_second: int = 0
    timeout_s: float = 30.0
    client_id: str = "ottla-audit"
    pinned: str = ""

    @property
    def name(self) -> str:
        """How findings and verdicts name the cluster."""
        return CLUSTER + ",".join(f"{_bracketed(host)}:{port}" for host, port in self.servers)

    def __str__(self) -> str:
        return self.name


def address_of(path: str | Address) -> Address:
    """The address that a URL names. Raises ValueError on one that names none or holds a secret, OSError when its file cannot be read."""
    if isinstance(path, Address):
        return path
    servers, _, query = path.removeprefix(CLUSTER).partition("?")
    given = dict(parse_qsl(query, keep_blank_values=True))
    for name in given:
        if is_secret(name):
            raise ValueError(f"{name} in a URL would be shown with it: put it into a file and name that with {CONFIG_FILE}=FILE")
    return address(servers.strip("/"), given)


def address(servers: str, properties: Mapping[str, str]) -> Address:
    """An address from `host:port,host:port` and client properties. Raises ValueError, OSError."""
    given = {dotted(name): value for name, value in properties.items()}
    file = given.pop(CONFIG_FILE, "")
    if file:
        with Path(file).open(encoding="utf-8") as text:
            given = {dotted(name): value for name, value in javaproperties.load(text).items()} | given
    found = Address(_servers(servers), security_of(given), client_id=given.get("client.id", "ottla-audit"))
    rate, timeout_ms = (_number(given, name) for name in (RATE, TIMEOUT))
    return replace(found, bytes_per_second=rate, timeout_s=timeout_ms / 1000 or found.timeout_s, pinned=given.get(PINNED, ""))


def url_with(url: str, properties: Mapping[str, object]) -> str:
    """The URL with further properties; None and 0 say nothing."""
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
