"""The connections of a cluster broker to other nodes, with the security that their listeners require.

With PLAINTEXT listeners no TLS or SASL code is imported.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial
from random import Random
from typing import TYPE_CHECKING, Any, NamedTuple

from ottla.broker.core.clock import Clock
from ottla.broker.core.settings import BrokerSettings
from ottla.broker.core.settings_load import SettingsError
from ottla.broker.core.timers import Timers
from ottla.broker.net.listener_authentication import ListenerAuthentication
from ottla.broker.net.listeners import InterNodeListener, of_brokers, of_controllers
from ottla.broker.net.network import Network
from ottla.broker.net.node_client import ConnectTimeouts, NodeClient
from ottla.broker.runtime.nodes.link import Connect

if TYPE_CHECKING:
    from ottla.broker.security.tls_client import ClientTls


class NodeLinks(NamedTuple):
    """The functions that connect a cluster broker to other nodes: to brokers, to the leaders of partitions that it follows (with shorter
    timeouts), and to controllers. `client_tls` are the client-side TLS settings of these connections by listener name."""

    to_broker: Connect
    to_leader: Connect
    to_controller: Connect
    client_tls: Mapping[str, ClientTls]


def links_of(
    settings: BrokerSettings,
    authentication: Mapping[str, ListenerAuthentication],
    *,
    network: Network,
    clock: Clock,
    timers: Timers,
    random: Random,
) -> NodeLinks:
    """Return the functions that connect a cluster broker to other nodes. `authentication` is the security of the broker's own listeners, by
    name. Raises SettingsError if the broker has no credentials for a listener of other nodes, or cannot complete a TLS handshake with its
    own inter-broker listener.
    """
    first_ms, max_ms = settings.socket_connection_setup_timeout_ms, settings.socket_connection_setup_timeout_max_ms
    leader_ms = settings.replica_socket_timeout_ms
    usual, to_leaders = ConnectTimeouts(first_ms, max_ms), ConnectTimeouts(min(first_ms, leader_ms), min(max_ms, leader_ms))
    common: dict[str, Any] = {"network": network, "clock": clock, "timers": timers, "random": random}
    common["client_id"] = f"broker-{settings.node_id}"
    client_tls: dict[str, ClientTls] = {}

    def to(at: InterNodeListener, timeouts: ConnectTimeouts = usual) -> Connect:
        if not at.protocol:
            return partial(NodeClient, timeouts=timeouts, **common)
        from ottla.broker.net.client_security import ClientEnvironment, client_security  # noqa: PLC0415 # a broker with PLAINTEXT listeners does not load it
        from ottla.broker.net.secured_node_client import SecuredNodeClient  # noqa: PLC0415 # a broker with PLAINTEXT listeners does not load it

        security = client_security(settings, at, ClientEnvironment(random.randbytes, clock.now_ms))
        if security.tls is not None:
            client_tls[at.name] = security.tls
        return partial(SecuredNodeClient, client_security=security, timeouts=timeouts, **common)

    brokers, controllers = of_brokers(settings), of_controllers(settings)
    links = NodeLinks(to(brokers), to(brokers, to_leaders), to(controllers), client_tls)
    if brokers.name in client_tls:
        _check_own_listener(brokers, client_tls[brokers.name], authentication[brokers.name])
    return links


def _check_own_listener(at: InterNodeListener, key: ClientTls, at_listener: ListenerAuthentication) -> None:
    """Perform a TLS handshake in memory between this broker's client side (`key`) and its own inter-broker listener (`at_listener`). Raises
    SettingsError if it fails: all brokers have similar settings, so this broker could not connect to any other one."""
    from ottla.broker.security.pem import StoreError  # noqa: PLC0415 # only with TLS
    from ottla.broker.security.tls_client import check_handshake  # noqa: PLC0415 # only with TLS

    assert at_listener.tls is not None, "the inter-broker listener uses TLS, so it has a TLS context"
    try:
        check_handshake(key.context, at_listener.tls.context)
    except StoreError as error:
        raise SettingsError(f"{at.setting}: {at.name}: {error}") from error
