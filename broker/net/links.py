"""How a member of a cluster makes links to the others, as its settings say that their listeners want it.

Where they are PLAINTEXT nothing of TLS or log-ins is imported, and nothing is between a link and its socket.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial
from typing import TYPE_CHECKING, Any, NamedTuple

from ottla.broker.core.settings_load import SettingsError
from ottla.broker.net.listeners import of_brokers, of_controllers
from ottla.broker.net.node_client import NodeClient, Patience

if TYPE_CHECKING:
    from random import Random

    from ottla.broker.core.clock import Clock
    from ottla.broker.core.settings import BrokerSettings
    from ottla.broker.core.timers import Timers
    from ottla.broker.net.listener_authentication import ListenerAuthentication
    from ottla.broker.net.listeners import BetweenNodes
    from ottla.broker.net.network import Network
    from ottla.broker.runtime.nodes.link import Connect
    from ottla.broker.security.tls_client import ClientTls


class NodeLinks(NamedTuple):
    """To brokers, to the leaders that this broker follows, and to controllers; and the keys to their TLS, by the names of listeners."""

    to_broker: Connect
    to_leader: Connect
    to_controller: Connect
    keys: Mapping[str, ClientTls]


def links_of(
    settings: BrokerSettings,
    authentication: Mapping[str, ListenerAuthentication],
    *,
    network: Network,
    clock: Clock,
    timers: Timers,
    random: Random,
) -> NodeLinks:
    """Those of a member whose own listeners have these authentication. Raises SettingsError for a at_listener to which it has no key."""
    first_ms, max_ms = settings.socket_connection_setup_timeout_ms, settings.socket_connection_setup_timeout_max_ms
    leader_ms = settings.replica_socket_timeout_ms
    usual, to_leaders = Patience(first_ms, max_ms), Patience(min(first_ms, leader_ms), min(max_ms, leader_ms))
    common: dict[str, Any] = {"network": network, "clock": clock, "timers": timers, "random": random}
    common["client_id"] = f"broker-{settings.node_id}"
    keys: dict[str, ClientTls] = {}

    def to(at: BetweenNodes, patience: Patience = usual) -> Connect:
        if not at.protocol:
            return partial(NodeClient, patience=patience, **common)
        from ottla.broker.net.client_security import DialingNode, client_security  # noqa: PLC0415 # as above
        from ottla.broker.net.secured_node_client import SecuredNodeClient  # noqa: PLC0415 # who secures nothing does not pay for it

        way = client_security(settings, at, DialingNode(random.randbytes, clock.now_ms))
        if way.tls is not None:
            keys[at.name] = way.tls
        return partial(SecuredNodeClient, client_security=way, patience=patience, **common)

    brokers, controllers = of_brokers(settings), of_controllers(settings)
    links = NodeLinks(to(brokers), to(brokers, to_leaders), to(controllers), keys)
    if brokers.name in keys:
        _check_own_listener(brokers, keys[brokers.name], authentication[brokers.name])
    return links


def _check_own_listener(at: BetweenNodes, key: ClientTls, at_listener: ListenerAuthentication) -> None:
    """All brokers are meant to be alike: who could not come in at itself is let in by nobody."""
    from ottla.broker.security.pem import StoreError  # noqa: PLC0415 # as above
    from ottla.broker.security.tls_client import check_handshake  # noqa: PLC0415 # as above

    assert at_listener.tls is not None, "a listener that is dialled with TLS has it"
    try:
        check_handshake(key.context, at_listener.tls.context)
    except StoreError as error:
        raise SettingsError(f"{at.setting}: {at.name}: {error}") from error
