"""The cluster as a gateway knows it: the address of each broker, the gateway's own port for that broker, and the names of topic ids.

Rules:
- A broker is identified by its node id. The gateway keeps its port for that id while it runs, also if the broker moves or is down.
- Addresses are learned from the responses that pass, so the gateway needs no credentials of its own. A later response replaces a broker's
  address.
- At most GATEWAY_NODES_MAX ports are opened, however many brokers the cluster names.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import NamedTuple

from ottla.broker.core import limits
from ottla.protocol.errors import ProtocolError

_PORTS = range(1, 65_536)


class Address(NamedTuple):
    host: str
    port: int


class AddressBook:
    """The addresses of the brokers behind one gateway, and the gateway's ports for them. `bootstrap` are the configured addresses
    of the cluster; `open_port(node_id)` opens the gateway's port for a broker and returns its number, or raises OSError.
    """

    def __init__(self, bootstrap: Sequence[Address], open_port: Callable[[int], int]) -> None:
        self._bootstrap = list(bootstrap)
        self._open_port = open_port
        self._nodes: dict[int, Address] = {}
        self._ports: dict[int, int] = {}
        self._topic_names: dict[bytes, str] = {}

    @property
    def ports(self) -> dict[int, int]:
        """The port that the gateway has opened for each broker, by node id."""
        return dict(self._ports)

    def candidates(self, node_id: int | None) -> list[Address]:
        """Return the addresses to try, in order, for broker `node_id`. With None, return those for any broker: the configured addresses,
        then the learned ones.
        """
        if node_id is not None:
            return [self._nodes[node_id]]
        return list(dict.fromkeys([*self._bootstrap, *self._nodes.values()]))

    def translate(self, own_host: str, node_id: int, host: str, port: int) -> Address:
        """Store a broker's address, and return the address at which clients reach this broker through the gateway: the host name `own_host`
        and the port that the gateway has opened for the broker.

        An entry that names no broker (FindCoordinator answers node -1 and port -1 with an error) is returned as it is. Raises ProtocolError
        for an impossible host name, if the cluster names too many brokers, or if the gateway has no port for one more.
        """
        if node_id < 0 or not host or port not in _PORTS:
            return Address(host, port)
        if len(host) > limits.GATEWAY_HOST_CHARS or not host.isprintable():
            raise ProtocolError(f"broker {node_id} has an impossible host name of {len(host)} characters")
        own = self._ports.get(node_id)
        if own is None:
            if len(self._ports) >= limits.GATEWAY_NODES_MAX:
                raise ProtocolError(f"the cluster names more than {limits.GATEWAY_NODES_MAX} brokers")
            try:
                own = self._ports[node_id] = self._open_port(node_id)
            except OSError as error:
                raise ProtocolError(f"the gateway has no port for broker {node_id}: {error}") from error
        self._nodes[node_id] = Address(host, port)
        return Address(own_host, own)

    def learn(self, topic_id: bytes, name: str) -> None:
        """Store a topic's id and name. The gateway needs the name if a request names its topic only by id. At most GATEWAY_TOPICS_MAX
        topics are stored; the oldest one is dropped first.
        """
        names = self._topic_names
        if topic_id not in names and len(names) >= limits.GATEWAY_TOPICS_MAX:
            del names[next(iter(names))]
        names[topic_id] = name

    def topic_name(self, topic_id: bytes) -> str | None:
        """Return the name of a topic, or None for an id that was not in a response."""
        return self._topic_names.get(topic_id)


class ClientsView:
    """Translates brokers' addresses for one client (a `rewriting.AddressView`): each becomes a port of the gateway at `own_host`, the host
    name by which the client reached the gateway."""

    __slots__ = ("_book", "_own_host")

    def __init__(self, book: AddressBook, own_host: str) -> None:
        self._book = book
        self._own_host = own_host

    def translate(self, node_id: int, host: str, port: int) -> Address:
        """Store a broker's address in the cluster, and return the gateway's address for that broker. Raises ProtocolError for an impossible
        host name, or if the gateway has no port for one more broker."""
        return self._book.translate(self._own_host, node_id, host, port)

    def learn(self, topic_id: bytes, name: str) -> None:
        """Store a topic's id and name, which a response of the cluster has named (`AddressBook.learn`)."""
        self._book.learn(topic_id, name)
