"""The arguments of a handler besides its request.

Rules: a Context lives as long as its request. Long-lived objects are in `Services`, which `broker/app.py` builds once, or in a controller's
`ControllerServices`. A handler changes state only through services.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, ClassVar, Generic, Protocol, TypeVar

from ottla.broker.api.reply import CLOSE, Reply
from ottla.broker.core.principal import ANONYMOUS, Principal
from ottla.broker.core.security_protocol import SecurityProtocol
from ottla.broker.runtime.metadata.cluster_view import ClientListener

if TYPE_CHECKING:
    from ottla.broker.cluster.image import TopicImage
    from ottla.protocol.schema import Message

ServicesT_co = TypeVar("ServicesT_co", covariant=True)


class CloseConnection(Exception):
    """Raised by a handler to close the client's connection instead of responding, for instance if a Produce with acks=0 fails. If `reply`
    is a `FinalResponse`, its bytes are sent before the connection is closed."""

    def __init__(self, why: str, reply: Reply = CLOSE) -> None:
        super().__init__(why)
        self.reply = reply


@dataclass(frozen=True, slots=True)
class Listener:
    """One named listener. `host` and `port` are the bound address (the actual port, if the configured one is 0); the advertised address is
    None if it is not configured."""

    name: str
    host: str
    port: int
    advertised_host: str | None = None
    advertised_port: int | None = None
    protocol: SecurityProtocol = SecurityProtocol.PLAINTEXT


def _no_throttle(_ms: int) -> None:
    return None


def no_admission() -> None:
    """Do nothing: the client has no large request that is handled (`Peer.begin_wait`)."""


class _AfterClose(dict[object, Callable[[], object]]):
    """The `on_closed` callbacks of a closed connection. A callback that is added runs at once. Otherwise a request that begins to wait
    after the close, because a thread decoded it meanwhile, would never be cancelled.
    """

    def __setitem__(self, _key: object, callback: Callable[[], object]) -> None:
        callback()


@dataclass(slots=True)
class Peer:
    """The client at the other end of a connection. `local_host` and `local_port` are the broker's address to which the client connected."""

    host: str
    local_host: str
    local_port: int
    listener: Listener
    number: int = 0
    """The number of the client's connection, counted from 1 since the broker's start."""
    port: int = 0
    client_software_name: str = ""
    client_software_version: str = ""
    principal: Principal = ANONYMOUS
    """The authenticated principal; anonymous until the client has authenticated."""
    throttle: Callable[[int], object] = _no_throttle
    """A function that stops reading from the connection for a number of milliseconds (KIP-219)."""
    begin_wait: Callable[[], object] = no_admission
    """Is called before the handler of a large request waits, so that other large requests are decoded meanwhile (`api/large_requests`)."""
    waiting_bytes: int = 0
    """The estimated memory of the client's large request whose handler waits; 0 without one."""
    token_authenticated: bool = False
    """Whether the client authenticated with a delegation token. Such a client cannot obtain further tokens."""
    must_authenticate: bool = False
    """Whether the client must still authenticate: the listener requires authentication, and the client has not authenticated yet."""
    is_forwarded: bool = False
    """Whether a broker forwarded this client's request. The controller then relies on the broker's checks of the client's connection."""
    is_closed: bool = False
    """Whether the connection was closed. A handler can stop then, because nobody receives its response."""
    on_closed: dict[object, Callable[[], object]] = field(default_factory=dict)
    """Callbacks that run when the client's connection is closed; if it is closed already, they run as soon as they are added. For example,
    a pending request registers its own cancellation. The key is any object by which the callback can be removed again.
    """

    def closed(self) -> None:
        """Mark the connection as closed, and run the `on_closed` callbacks. The `throttle` function, which refers to the connection, is
        dropped, so that no reference cycle is left."""
        self.is_closed = True
        self.throttle = _no_throttle
        callbacks, self.on_closed = self.on_closed, _AfterClose()
        for callback in callbacks.values():
            callback()

    @property
    def client_listener(self) -> ClientListener:
        """The address under which the broker is returned to this client: the listener's advertised host and port or, for each that is not
        configured, the one to which the client connected."""
        listener = self.listener
        host = listener.advertised_host if listener.advertised_host is not None else self.local_host
        port = listener.advertised_port if listener.advertised_port is not None else self.local_port
        return ClientListener(listener.name, host, port)


class Forwarding(Protocol):
    """Forwards clients' requests to the controller. A cluster broker sends Envelopes (`ottla.broker.runtime.nodes.envelopes`); a standalone
    node calls the controller in its own process (`ottla.broker.api.local_forwarding`).
    """

    @property
    def versions(self) -> Callable[[int], tuple[int, int] | None]:
        """A function that gets an API key and returns the lowest and highest version that the controller serves. It returns None if the
        controller lacks the API, was not reached yet, or does not limit versions (`LocalForwarding`).
        """

    async def forward(self, request: Message, version: int, client_id: str | None, client: Peer) -> Any:
        """Return the controller's response to the request of `client`. Raises VersionNotKnown if the controller does not serve the version,
        Rejected if it does not answer in time or fails, and CloseConnection if the client's connection must be closed."""


@dataclass(slots=True)
class Sent:
    """The bytes of records that were sent in Fetch and ShareFetch responses since the broker's start, by topic."""

    by_topic: dict[str | bytes, int] = field(default_factory=dict)
    """The bytes sent for each topic since the broker's start. The key is the topic's name, or its id if the fetch request named the id."""
    of_deleted: int = 0

    @property
    def total(self) -> int:
        """The bytes of records sent for all topics, including deleted ones; the number never decreases."""
        return self.of_deleted + sum(self.by_topic.values())

    def forget(self, topic: TopicImage) -> None:
        """Move a deleted topic's count from `by_topic` to `of_deleted`, the sum of the bytes sent for all deleted topics."""
        self.of_deleted += self.by_topic.pop(topic.name, 0) + self.by_topic.pop(topic.topic_id, 0)


@dataclass(slots=True)
class Traffic:
    """The bytes of records that this broker has sent since its start, to consumers and to followers separately."""

    to_consumers: Sent = field(default_factory=Sent)
    to_followers: Sent = field(default_factory=Sent)

    def forget(self, topic: TopicImage) -> None:
        """Move a deleted topic's counts to the totals of deleted topics, for consumers and for followers."""
        self.to_consumers.forget(topic)
        self.to_followers.forget(topic)


class Context(Generic[ServicesT_co]):
    """The arguments of a handler that belong to one request (such as client and version), with the services that the handler needs
    (`ottla.broker.api.services`).
    """

    __slots__ = ("api_key", "client_id", "peer", "services", "spent_ns", "version")

    is_later_part: ClassVar = False
    """Whether this is the second or a later part of a request that is handled in parts (`LaterPart`)."""

    def __init__(self, version: int, client_id: str | None, peer: Peer, services: ServicesT_co, api_key: int = -1) -> None:
        self.version = version
        self.client_id = client_id
        self.peer = peer
        self.services = services
        self.api_key = api_key
        self.spent_ns = 0
        """Nanoseconds on the event loop that were spent on a request handled in parts (`api/large_requests`) or on a long list response
        (`api/listing`); 0 for other requests."""


class LaterPart(Context[ServicesT_co]):
    """The context of the second and later parts of a request that is handled in parts. What the earlier parts have done remains if such a
    part fails."""

    __slots__ = ()

    is_later_part = True
