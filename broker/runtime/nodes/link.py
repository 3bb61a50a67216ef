"""How a node of the cluster asks another: faces and errors only; what carries them is `ottla.broker.net.node_client`."""

from collections.abc import Callable
from typing import Any, NamedTuple, Protocol

from ottla.protocol.schema import Message


class Node(NamedTuple):
    """A node and one of its addresses. `node_id` is -1 where only an address is known (a bootstrap server)."""

    node_id: int
    host: str
    port: int


class LinkBroken(Exception):
    """It could not connect, the peer hung up, or gave no answer in time. What was asked may or may not have been done."""


class UnsupportedByPeer(Exception):
    """The two sides have no version of the API in common."""


class Link(Protocol):
    """One connection to one address. It connects, and learns the peer's versions, at the first call and again after it broke."""

    async def call(self, request: Message, *, timeout_ms: int, version: int | None = None) -> Any:
        """The response, at the highest version that both sides know and that is not above `version`. Calls are answered in the order they
        were made; one that is not in `timeout_ms` breaks the link for all. Raises LinkBroken and UnsupportedByPeer."""

    def versions(self, api_key: int) -> tuple[int, int] | None:
        """The lowest and the highest version of the peer, as last learnt; None where it does not serve the API or was never reached."""

    def close(self) -> None:
        """Hang up; calls under way fail with LinkBroken, and so does every later one."""


Connect = Callable[[Node], Link]  # a link of the caller's own, which is not connected yet
