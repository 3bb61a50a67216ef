"""How a member of a cluster makes links to the others, as its settings say that their listeners want it.

Where they are PLAINTEXT nothing of TLS or log-ins is imported, and nothing is between a link and its socket.
"""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Any, NamedTuple

from ottla.broker.net.listeners import of_brokers, of_controllers
from ottla.broker.net.node_client import NodeClient, Patience

if TYPE_CHECKING:
    from random import Random

    from ottla.broker.core.clock import Clock
    from ottla.broker.core.settings import BrokerSettings
    from ottla.broker.core.timers import Timers
    from ottla.broker.net.listeners import BetweenNodes
    from ottla.broker.net.network import Network
    from ottla.broker.runtime.nodes.link import Connect


class NodeLinks(NamedTuple):
    """To brokers, and to controllers."""

    to_broker: Connect
    to_controller: Connect


def links_of(settings: BrokerSettings, *, network: Network, clock: Clock, timers: Timers, random: Random) -> NodeLinks:
    """Those of a member. Raises SettingsError for a lock to which it has no key."""
    patience = Patience(settings.socket_connection_setup_timeout_ms, settings.socket_connection_setup_timeout_max_ms)
    common: dict[str, Any] = {"network": network, "clock": clock, "timers": timers, "random": random}
    common |= {"client_id": f"broker-{settings.node_id}", "patience": patience}

    def to(at: BetweenNodes) -> Connect:
        if not at.protocol:
            return partial(NodeClient, **common)
        from ottla.broker.net.secured_node_client import SecuredNodeClient  # noqa: PLC0415 # who secures nothing does not pay for it
        from ottla.broker.net.ways_in import Traveller, way_in  # noqa: PLC0415 # as above

        return partial(SecuredNodeClient, way_in=way_in(settings, at, Traveller(random.randbytes, clock.now_ms)), **common)

    return NodeLinks(to(of_brokers(settings)), to(of_controllers(settings)))
