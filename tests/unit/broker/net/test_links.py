from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path
from random import Random

import pytest

from ottla.broker.core.clock import VirtualClock
from ottla.broker.core.rejected import Rejected
from ottla.broker.core.settings import BrokerSettings
from ottla.broker.core.settings_load import SettingsError
from ottla.broker.core.timers import Timers
from ottla.broker.net.links import NodeLinks, links_of
from ottla.broker.net.listener_authentication import AuthenticationContext, ListenerAuthentication, listener_authentication
from ottla.broker.net.listeners import listeners_of
from ottla.broker.net.node_client import NodeClient
from ottla.broker.net.store_changes import StoreChanges
from ottla.broker.runtime.nodes.link import Node
from ottla.broker.sim.memory_network import MemoryNetwork
from tests.support.certificates import HOST, Certificates
from tests.support.inter_broker_security import member

CANNOT = "A client SSLEngine created with the provided settings can't connect to a server SSLEngine"


def linked(settings: BrokerSettings) -> tuple[NodeLinks, Mapping[str, ListenerAuthentication]]:
    clock, timers, random = VirtualClock(), Timers(), Random(1)
    around = AuthenticationContext(lambda _kind, _name, _by_token: None, random.getrandbits, clock, timers)
    authentication = listener_authentication(settings, listeners_of(settings), around)
    return links_of(settings, authentication, network=MemoryNetwork(), clock=clock, timers=timers, random=random), authentication


def test_plaintext_listeners_are_connected_to_without_security() -> None:
    links, _ = linked(member("A", "PLAINTEXT"))
    assert {type(connect(Node(1, "h", 1))) for connect in links[:2]} == {NodeClient}
    assert links.client_tls == {}


@pytest.mark.parametrize("client_auth", ["none", "required"])
def test_a_broker_that_could_not_connect_to_its_own_listener_does_not_start(tmp_path: Path, client_auth: str) -> None:
    made, strangers = Certificates(tmp_path / "made"), Certificates(tmp_path / "strangers")
    ours = {**made.pem_settings(), "listener.name.a.ssl.client.auth": client_auth}
    linked(member("A", "SSL", ours=ours))
    theirs = {**ours, "ssl.truststore.location": str(strangers.ca)}
    with pytest.raises(SettingsError, match=f"inter.broker.listener.name: A: {CANNOT} .*: unable to get local"):
        linked(member("A", "SSL", ours=theirs))


def test_client_contexts_follow_store_changes_that_remain_compatible(tmp_path: Path) -> None:
    made, strangers = Certificates(tmp_path / "made"), Certificates(tmp_path / "strangers")
    both = {"listener.security.protocol.map": "A:SSL,C:SSL", "ssl.allow.dn.changes": "true"}
    settings = member("A", "SSL", ours={**made.pem_settings(), **both})
    links, authentication = linked(settings)
    changes = StoreChanges(settings, authentication, links.client_tls)
    before = {name: key.context for name, key in links.client_tls.items()}

    def now() -> set[str]:
        """Return the listener names whose TLS context was replaced since the start."""
        return {name for name, key in links.client_tls.items() if key.context is not before[name]}

    changes.take({})
    assert now() == set()
    trusted = {"listener.name.a.ssl.truststore.location": str(strangers.ca)}
    with pytest.raises(Rejected, match=CANNOT):
        changes.check(trusted)
    changes.take(trusted)  # as another broker wrote it
    assert now() == set()
    renewed = {"listener.name.a.ssl.keystore.location": str(made.of("next", HOST, "localhost"))}
    changes.check(renewed)
    changes.take(renewed)
    assert now() == {"A"}
    os.utime(made.server, ns=(1, 1))
    changes.take(renewed)
    assert now() == {"A", "C"}
