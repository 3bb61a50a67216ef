"""How commands fail, and how addresses and `name=value` arguments are read; without the libraries of the command line."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

DEFAULT_PORT: Final = 9092
EXIT_NO_RESULT: Final = 2
"""Of commands whose exit code 1 is a verdict (audit, explain, dedup, verify, acls explain, transactions find-hanging): there is none."""


class CliError(Exception):
    """Something the user can act on; printed as it is. `exit_code` becomes the command's."""

    def __init__(self, message: str, exit_code: int = 1) -> None:
        super().__init__(message)
        self.exit_code = exit_code


def host_port(address: str) -> tuple[str, int]:
    """`host[:port]`, `[ipv6]:port`; the port is Kafka's 9092 where none is given. Raises `CliError`."""
    host, colon, port = address.rpartition(":")
    if not colon or host.endswith(":") or address.endswith("]"):
        host, port = address, str(DEFAULT_PORT)
    if not host or not port.isdecimal() or not 0 < int(port) < 65_536:
        raise CliError(f"{address!r} is no address: it looks like localhost:9092")
    return host.strip("[]"), int(port)


def pairs(settings: Iterable[str]) -> dict[str, str]:
    """`name=value` arguments. Raises `CliError`."""
    read = {}
    for setting in settings:
        name, equals, value = setting.partition("=")
        if not equals or not name:
            raise CliError(f"{setting!r} is not of the form name=value")
        read[name.strip()] = value
    return read
