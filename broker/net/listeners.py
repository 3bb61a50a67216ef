"""Listeners in Kafka's syntax: `NAME://host:port`, what each advertises, and which security protocol its name stands for."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Sequence
from dataclasses import replace

from ottla.broker.api.context import Listener
from ottla.broker.core.settings import BrokerSettings
from ottla.broker.core.settings_load import SettingsError

_ENDPOINT = re.compile(r"(?P<name>[A-Za-z0-9._-]+)://(?:\[(?P<v6>[0-9A-Fa-f:.%]+)\]|(?P<host>[^\[\]:/]*)):(?P<port>\d{1,5})")
_PORT_MAX = 65535


def listeners_of(settings: BrokerSettings) -> list[Listener]:
    """The listeners to bind, each with what it advertises; raises SettingsError naming the setting."""
    listeners = _parse("listeners", settings.listeners)
    if not listeners:
        raise SettingsError("listeners is empty: allowed is at least one NAME://host:port")
    protocols = _protocols(settings)
    taken = Counter((listener.host, listener.port) for listener in listeners if listener.port)
    for listener in listeners:
        if taken[listener.host, listener.port] > 1:
            raise SettingsError(f"listeners: two are at {host_and_port(listener.host, listener.port)}")
        protocol = protocols.get(listener.name)
        if protocol is None:
            raise SettingsError(f"listeners: {listener.name} is not in listener.security.protocol.map")
        if protocol != "PLAINTEXT":
            raise SettingsError(f"listeners: {listener.name} uses {protocol}; only PLAINTEXT is available in this version")
    advertised = {at.name: at for at in _parse("advertised.listeners", settings.advertised_listeners)}
    unknown = set(advertised) - {listener.name for listener in listeners}
    if unknown:
        raise SettingsError(f"advertised.listeners: {', '.join(sorted(unknown))} is not among listeners")
    return [_with_advertised(listener, advertised.get(listener.name)) for listener in listeners]


def host_and_port(host: str, port: int) -> str:
    """As clients take it: an IPv6 address stands in brackets."""
    return f"[{host}]:{port}" if ":" in host else f"{host}:{port}"


def plain_address(host: str) -> str:
    """The address of one end of a connection. One over IPv4 is `::ffff:192.0.2.1` at a listener of both families, which a client that
    dials IPv4 only cannot resolve."""
    return host.removeprefix("::ffff:") if "." in host else host


def _with_advertised(listener: Listener, advertised: Listener | None) -> Listener:
    if advertised is None:
        return listener
    if advertised.host in {"", "0.0.0.0", "::"}:
        raise SettingsError(f"advertised.listeners: {listener.name} advertises {advertised.host or 'no host'}, which no client can dial")
    return replace(listener, advertised_host=advertised.host, advertised_port=advertised.port or None)


def _parse(setting: str, items: Sequence[str]) -> list[Listener]:
    found: dict[str, Listener] = {}
    for item in items:
        match = _ENDPOINT.fullmatch(item)
        if match is None or int(match["port"]) > _PORT_MAX:
            raise SettingsError(f"{setting}: {item!r} is not NAME://host:port")
        name = match["name"].upper()
        if name in found:
            raise SettingsError(f"{setting}: {name} is there twice")
        found[name] = Listener(name, match["v6"] or match["host"] or "", int(match["port"]))
    return list(found.values())


def _protocols(settings: BrokerSettings) -> dict[str, str]:
    found = {}
    for item in filter(None, settings.listener_security_protocol_map.split(",")):
        name, colon, protocol = item.partition(":")
        if not colon or protocol.strip().upper() not in {"PLAINTEXT", "SSL", "SASL_PLAINTEXT", "SASL_SSL"}:
            raise SettingsError(f"listener.security.protocol.map: {item!r} is not NAME:PROTOCOL")
        found[name.strip().upper()] = protocol.strip().upper()
    return found
