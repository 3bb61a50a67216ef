"""Listeners in Kafka's syntax, `NAME://host:port`, with their advertised addresses and security protocols.

A cluster broker registers its advertised listeners and names one of them for other brokers (Kafka's `KafkaConfig.validateValues`,
`AbstractKafkaConfig`).
"""

from __future__ import annotations

import re
import socket
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Final, NamedTuple

from ottla.broker.api.context import Listener
from ottla.broker.cluster.metadata_records import Endpoint
from ottla.broker.core.quorum_addresses import voters
from ottla.broker.core.security_protocol import SecurityProtocol
from ottla.broker.core.settings import BrokerSettings
from ottla.broker.core.settings_load import SettingsError
from ottla.broker.net.network import host_and_port

_ENDPOINT = re.compile(r"(?P<name>[A-Za-z0-9._-]+)://(?:\[(?P<v6>[0-9A-Fa-f:.%]+)\]|(?P<host>[^\[\]:/]*)):(?P<port>\d{1,5})")
_PORT_MAX = 65535
_OF_A_LISTENER: Final = re.compile(r"listener\.name\.([^.]*)\..+")
ANYWHERE: Final = frozenset({"", "0.0.0.0", "::"})
_SECURED: Final = frozenset({"SSL", "SASL_PLAINTEXT", "SASL_SSL"})


_KAFKAS_MECHANISM: Final = "GSSAPI"


class InterNodeListener(NamedTuple):
    """A listener to which a broker connects on other nodes, and the SASL mechanism that it uses there. `setting` and `mechanism_setting`
    are the names of the settings that select the listener and the mechanism.
    """

    name: str
    protocol: SecurityProtocol
    mechanism: str
    setting: str
    mechanism_setting: str


def listeners_of(settings: BrokerSettings) -> list[Listener]:
    """Return the broker listeners to bind, with their advertised addresses. Raises SettingsError for an invalid setting, whose name is in
    the text."""
    if not settings.is_controller:
        return _all_listeners(settings)
    own = _controller_names(settings)
    return [listener for listener in _all_listeners(settings) if listener.name not in own]


def controller_listeners_of(settings: BrokerSettings) -> list[Listener]:
    """Return the controller listeners to bind. Raises SettingsError for an invalid setting, whose name is in the text."""
    own = _controller_names(settings)
    return [_at_voters_address(settings, listener) for listener in _all_listeners(settings) if listener.name in own]


def _at_voters_address(settings: BrokerSettings, listener: Listener) -> Listener:
    """Return `listener`. If it is the first controller listener, bound to every address and not advertised, it gets this node's address in
    controller.quorum.voters as its advertised address (KAFKA KafkaConfig.effectiveAdvertisedControllerListeners).
    """
    first = settings.controller_listener_names[0].upper()
    if listener.name != first or listener.advertised_host is not None or listener.host not in ANYWHERE:
        return listener
    for voter in voters(settings.controller_quorum_voters):
        if voter.node_id == settings.node_id:
            return replace(listener, advertised_host=voter.host, advertised_port=voter.port)
    return listener


def _controller_names(settings: BrokerSettings) -> set[str]:
    return {name.upper() for name in settings.controller_listener_names}


def _all_listeners(settings: BrokerSettings) -> list[Listener]:
    listeners = _parse("listeners", settings.listeners)
    if not listeners:
        raise SettingsError("listeners is empty: at least one NAME://host:port is required")
    protocols = _protocols(settings)
    taken = Counter((listener.host, listener.port) for listener in listeners if listener.port)
    for listener in listeners:
        if taken[listener.host, listener.port] > 1:
            raise SettingsError(f"listeners: two listeners have the address {host_and_port(listener.host, listener.port)}")
        if listener.name not in protocols:
            raise SettingsError(f"listeners: {listener.name} is not in listener.security.protocol.map")
    _check_listener_prefixes(settings, protocols)
    advertised = _advertised(settings)
    found = [
        replace(_with_advertised(listener, advertised.get(listener.name)), protocol=protocols[listener.name]) for listener in listeners
    ]
    unknown = set(advertised) - {listener.name for listener in listeners}
    if unknown:
        raise SettingsError(f"advertised.listeners: {', '.join(sorted(unknown))} is not among listeners")
    early = {name.upper() for name in settings.early_start_listeners}
    if unknown := early - {listener.name for listener in listeners} - _controller_names(settings):
        raise SettingsError(f"early.start.listeners: {', '.join(sorted(unknown))} is among neither listeners nor controller.listener.names")
    if settings.is_controller:
        _check_own(settings, found)
    if settings.is_cluster_broker:
        _check_controllers(settings, found, protocols)
        own = _controller_names(settings)
        _check_inter_broker(settings, registered_listeners(settings, [at for at in found if at.name not in own]))
    return found


def _check_listener_prefixes(settings: BrokerSettings, protocols: Mapping[str, SecurityProtocol]) -> None:
    """Raise SettingsError if the prefix `listener.name.<name>.` of a security setting names no listener: with a misspelt name the setting
    would secure nothing."""
    known = {name.lower() for name in (*protocols, *settings.controller_listener_names)}
    for setting in settings.security:
        match = _OF_A_LISTENER.fullmatch(setting)
        if match is not None and match[1] not in known:
            allowed = f"{', '.join(sorted(known))} (the names in listener.security.protocol.map, in lower case)"
            raise SettingsError(f"{setting}: there is no listener {match[1]}: allowed are {allowed}")


def registered_listeners(settings: BrokerSettings, bound: Sequence[Listener]) -> list[Endpoint]:
    """Return the endpoints that a cluster broker registers: its advertised listeners, or all listeners if none is advertised.

    `bound` are the listeners of `Server`. A listener with an empty host that is not advertised gets this machine's name. Raises
    SettingsError for one that is bound to 0.0.0.0 or :: and not advertised.
    """
    advertised = [at for at in bound if not settings.advertised_listeners or at.advertised_host is not None]
    return endpoints_of(advertised)


def reachable_endpoints(bound: Sequence[Listener]) -> list[Endpoint]:
    """Return the endpoints that a standalone node registers: one for each listener, except those that are bound to all addresses and not
    advertised."""
    return endpoints_of([at for at in bound if at.advertised_host is not None or at.host not in ANYWHERE])


def endpoints_of(bound: Sequence[Listener]) -> list[Endpoint]:
    """Return the endpoint of each listener: its advertised address, or else its own (this machine's name for an empty host). Raises
    SettingsError for a listener at 0.0.0.0 or :: without an advertised address."""
    for at in bound:
        if at.advertised_host is None and at.host in ANYWHERE - {""}:
            raise SettingsError(f"advertised.listeners is required: {at.name} listens at {at.host}, to which no client can connect")
    return [
        Endpoint(at.name, at.advertised_host or at.host or socket.getfqdn(), at.advertised_port or at.port, at.protocol) for at in bound
    ]


def inter_broker_listener(settings: BrokerSettings) -> str:
    """Return the name of the listener for connections between brokers: inter.broker.listener.name or, without it,
    security.inter.broker.protocol."""
    return (settings.inter_broker_listener_name or settings.security_inter_broker_protocol).upper()


def of_brokers(settings: BrokerSettings) -> InterNodeListener:
    """Return the listener for connections to other brokers, and its SASL mechanism. The settings of the listeners must have been
    validated."""
    setting = "inter.broker.listener.name" if settings.inter_broker_listener_name else "security.inter.broker.protocol"
    return _between(settings, inter_broker_listener(settings), setting, "sasl.mechanism.inter.broker.protocol")


def of_controllers(settings: BrokerSettings) -> InterNodeListener:
    """Return the listener for connections to controllers, and its SASL mechanism. The settings of the listeners must have been
    validated."""
    first = settings.controller_listener_names[0].upper()
    return _between(settings, first, "controller.listener.names", "sasl.mechanism.controller.protocol")


def _between(settings: BrokerSettings, name: str, setting: str, mechanism_setting: str) -> InterNodeListener:
    mechanism = str(settings.security.get(mechanism_setting, _KAFKAS_MECHANISM))  # these settings have no listener prefix
    return InterNodeListener(name, _protocols(settings)[name], mechanism, setting, mechanism_setting)


def _check_own(settings: BrokerSettings, listeners: Sequence[Listener]) -> None:
    """Raise SettingsError unless `listeners` contains every listener that controller.listener.names names. Also raise it if a broker has no
    other listener, or a node that is only a controller has one."""
    own, names = _controller_names(settings), {listener.name for listener in listeners}
    roles = ",".join(settings.process_roles)
    if missing := sorted(own - names):
        raise SettingsError(f"controller.listener.names: {', '.join(missing)} must be among listeners when process.roles={roles}")
    if not settings.is_cluster_broker and (others := sorted(names - own)):
        raise SettingsError(f"listeners: {', '.join(others)} must be in controller.listener.names when process.roles={roles}")
    if settings.is_cluster_broker and not names - own:
        raise SettingsError(f"listeners: at least one must be for clients when process.roles={roles}")


def _check_controllers(settings: BrokerSettings, listeners: Sequence[Listener], protocols: dict[str, SecurityProtocol]) -> None:
    names = [name.upper() for name in settings.controller_listener_names]
    for listener in listeners:
        if listener.name in names and not settings.is_controller:
            raise SettingsError(f"controller.listener.names: {listener.name} must not be among listeners when process.roles=broker")
    for name in names:
        if name not in protocols:
            raise SettingsError(f"controller.listener.names: {name} is not in listener.security.protocol.map")


def _check_inter_broker(settings: BrokerSettings, registered: Sequence[Endpoint]) -> None:
    if {"inter.broker.listener.name", "security.inter.broker.protocol"} <= settings.explicit.keys():
        raise SettingsError("only one of inter.broker.listener.name and security.inter.broker.protocol should be set")
    name, names = inter_broker_listener(settings), [endpoint.name for endpoint in registered]
    if name not in names:
        setting = "inter.broker.listener.name" if settings.inter_broker_listener_name else "security.inter.broker.protocol"
        raise SettingsError(f"{setting}={name} must be one of the advertised listeners: {', '.join(names) or 'none is advertised'}")
    at = of_brokers(settings)
    if not settings.inter_broker_listener_name and at.protocol.name != name:
        raise SettingsError(f"security.inter.broker.protocol={name}, but listener.security.protocol.map has {name}:{at.protocol.name}")
    if at.protocol.uses_sasl:
        _check_mechanism(settings, at)


def _check_mechanism(settings: BrokerSettings, at: InterNodeListener) -> None:
    from ottla.broker.core.listener_security import ListenerSecurity  # noqa: PLC0415 # a broker without SASL does not load it

    enabled = ListenerSecurity(settings, at.name).items("sasl.enabled.mechanisms")
    if at.mechanism not in enabled:
        raise SettingsError(
            f"{at.mechanism_setting}={at.mechanism} must be included in sasl.enabled.mechanisms={','.join(enabled)} when SASL is used for "
            "inter-broker communication"
        )


def advertised_hosts(settings: BrokerSettings) -> list[str]:
    """Return the hosts of the setting advertised.listeners. Raises SettingsError if the setting is invalid."""
    return [at.host for at in _advertised(settings).values()]


def _with_advertised(listener: Listener, advertised: Listener | None) -> Listener:
    if advertised is None:
        return listener
    if advertised.host in ANYWHERE:
        raise SettingsError(
            f"advertised.listeners: {listener.name} advertises {advertised.host or 'no host'}, to which no client can connect"
        )
    return replace(listener, advertised_host=advertised.host, advertised_port=advertised.port or None)


def _advertised(settings: BrokerSettings) -> dict[str, Listener]:
    found = {at.name: at for at in _parse("advertised.listeners", settings.advertised_listeners)}
    if settings.is_cluster_broker and not settings.is_controller:  # it does not bind the controllers' listeners: their entries are ignored
        for name in settings.controller_listener_names:
            found.pop(name.upper(), None)
    return found


def _parse(setting: str, items: Sequence[str]) -> list[Listener]:
    found: dict[str, Listener] = {}
    for item in items:
        match = _ENDPOINT.fullmatch(item)
        if match is None or int(match["port"]) > _PORT_MAX:
            raise SettingsError(f"{setting}: {item!r} is not NAME://host:port")
        name = match["name"].upper()
        if name in found:
            raise SettingsError(f"{setting}: {name} occurs twice")
        found[name] = Listener(name, match["v6"] or match["host"] or "", int(match["port"]))
    return list(found.values())


def _protocols(settings: BrokerSettings) -> dict[str, SecurityProtocol]:
    found = {}
    for item in filter(None, settings.listener_security_protocol_map.split(",")):
        name, colon, protocol = item.partition(":")
        if not colon or protocol.strip().upper() not in SecurityProtocol.__members__:
            raise SettingsError(f"listener.security.protocol.map: {item!r} is not NAME:PROTOCOL")
        found[name.strip().upper()] = SecurityProtocol[protocol.strip().upper()]
    return found | _implied(settings)


def _implied(settings: BrokerSettings) -> dict[str, SecurityProtocol]:
    """Return the security protocols that Kafka assumes for controller listeners, by listener name. Each one is PLAINTEXT if
    listener.security.protocol.map is not set and no listener is secured; otherwise nothing is assumed."""
    names = {name.upper() for name in settings.controller_listener_names}
    bound = {item.partition(":")[0].upper() for item in settings.listeners}
    if "listener.security.protocol.map" in settings.explicit or (names | bound) & _SECURED:
        return {}
    return dict.fromkeys(names, SecurityProtocol.PLAINTEXT)
