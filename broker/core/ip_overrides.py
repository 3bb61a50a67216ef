"""Parses the setting `max.connections.per.ip.overrides`: `host:count,…`, which gives an address or host name its maximum number of
connections.
"""

from __future__ import annotations

import socket
from collections.abc import Mapping
from functools import lru_cache
from ipaddress import ip_address

from ottla.broker.core.config_keys import Validator, Value


@lru_cache(maxsize=8)
def ip_overrides(text: str) -> Mapping[str, int]:
    """Return the maximum number of connections by IP address. A host name is resolved to one address, at the first call with this text.
    Raises ValueError if `text` is invalid or a name cannot be resolved.

    As in Kafka's `Csv.parseCsvMap` and `ConnectionQuotas`, the last colon separates address and count, so an IPv6 address needs no
    brackets.
    """
    return dict(_override(item.strip()) for item in text.split(",")) if text else {}


def _override(item: str) -> tuple[str, int]:
    host, colon, count = item.rpartition(":")
    if not colon or not host or not count.strip().isdecimal():
        raise ValueError(f"{item!r} is not address:count")
    return _address(host.strip()), int(count)


def _address(host: str) -> str:
    try:
        return str(ip_address(host))
    except ValueError:
        pass  # not an address: a host name
    try:
        return str(socket.getaddrinfo(host, None, type=socket.SOCK_STREAM)[0][4][0])
    except OSError as error:
        raise ValueError(f"{host} cannot be resolved: {error}") from error


def _problem(value: Value) -> str | None:
    try:
        ip_overrides(str(value))
    except ValueError as error:
        return str(error)
    return None


IP_OVERRIDES = Validator(_problem)
"""The validator of max.connections.per.ip.overrides. It accepts a text in which each override has an address or host name and a count."""
