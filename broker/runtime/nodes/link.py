"""The interface of a connection to another cluster node. The implementation is `ottla.broker.net.node_client`."""

from collections.abc import Callable
from typing import Any, NamedTuple, Protocol

from ottla.protocol.schema import Message


class Node(NamedTuple):
    """A node of the cluster and one of its addresses. `node_id` is -1 if only the address is known (as for a bootstrap server)."""

    node_id: int
    host: str
    port: int


class LinkBroken(Exception):
    """The connection could not be opened, was closed by the peer, or timed out. The request may or may not have been applied."""


class UnsupportedByPeer(Exception):
    """The peer supports no version of the requested API that this node supports."""


class Link(Protocol):
    """A connection to one address of another node. A call connects first if necessary. Responses arrive in the order of the calls."""

    async def call(self, request: Message, *, timeout_ms: int, version: int | None = None) -> Any:
        """Send a request in the highest common version, at most `version`; return the response. Raises UnsupportedByPeer without a common
        version, and LinkBroken if the connection fails. Without a response in `timeout_ms`, all pending calls fail with LinkBroken."""

    def versions(self, api_key: int) -> tuple[int, int] | None:
        """Return the lowest and highest version of an API at the peer; None if the peer lacks the API or was not connected yet."""

    def close(self) -> None:
        """Close the connection for good; pending and later calls fail with LinkBroken."""


Connect = Callable[[Node], Link]  # returns a new link that is not connected yet and that only the caller uses
