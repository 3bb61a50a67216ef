"""The arguments of a handler besides its request.

Rules: a Context lives as long as its request. Long-lived objects are in `Services`, which `broker/app.py` builds once, or in a controller's
`ControllerServices`. A handler changes state only through services.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Generic, Protocol, TypeVar

from ottla.broker.api.reply import CLOSE, Reply
from ottla.broker.api.served_api import ListenerType
from ottla.broker.cluster.catalog import Catalog
from ottla.broker.cluster.features import Features
from ottla.broker.cluster.image import TopicImage
from ottla.broker.configs.broker_config import BrokerConfigs
from ottla.broker.core.clock import Clock
from ottla.broker.core.principal import ANONYMOUS, Principal
from ottla.broker.core.security_protocol import SecurityProtocol
from ottla.broker.core.settings import BrokerSettings
from ottla.broker.core.timers import Timers
from ottla.broker.runtime.coordination.group_service import GroupService
from ottla.broker.runtime.coordination.txn_markers import LocalMarkers
from ottla.broker.runtime.coordination.txn_service import TxnService
from ottla.broker.runtime.coordination.txn_verification import TxnVerification
from ottla.broker.runtime.metadata.cluster_view import ClusterView, Dialled
from ottla.broker.runtime.metadata.producer_ids import ProducerIds
from ottla.broker.runtime.metadata.topic_making import TopicMaker
from ottla.broker.runtime.replicas.fetch_sessions import FetchSessions
from ottla.broker.runtime.replicas.fetch_waits import FetchWaits
from ottla.broker.runtime.replicas.flusher import Flusher
from ottla.broker.runtime.replicas.partitions import Partitions
from ottla.broker.runtime.share.share_services import ShareServices
from ottla.broker.runtime.upkeep.turns import Turns
from ottla.broker.storage.log_dir import LogDir

if TYPE_CHECKING:
    from ottla.broker.api.authorizer import Authorizer
    from ottla.broker.quotas.quotas import Quotas
    from ottla.broker.telemetry.instances import ClientTelemetry
    from ottla.protocol.schema import Message

ServicesT_co = TypeVar("ServicesT_co", covariant=True)


class CloseConnection(Exception):
    """Raised when an error cannot be reported otherwise (acks=0): `reply` is sent and the connection is closed."""

    def __init__(self, why: str, reply: Reply = CLOSE) -> None:
        super().__init__(why)
        self.reply = reply


@dataclass(frozen=True, slots=True)
class Listener:
    """One named listener: its bound address (with the actual port) and its advertised address, if configured."""

    name: str
    host: str
    port: int
    advertised_host: str | None = None
    advertised_port: int | None = None
    protocol: SecurityProtocol = SecurityProtocol.PLAINTEXT


def _no_throttle(_ms: int) -> None:
    return None


@dataclass(slots=True)
class Peer:
    """The client of a connection. `local_host` and `local_port` are the address to which it connected."""

    host: str
    local_host: str
    local_port: int
    listener: Listener
    number: int = 0
    """The connection's number, counted from 1 since the broker's start."""
    port: int = 0
    """The client's port."""
    client_software_name: str = ""
    client_software_version: str = ""
    principal: Principal = ANONYMOUS
    """The authenticated principal."""
    throttle: Callable[[int], object] = _no_throttle
    """Pauses reading of the connection for a number of milliseconds (KIP-219)."""
    by_token: bool = False
    """Whether the client authenticated with a delegation token. Such a client cannot obtain further tokens."""
    has_to_log_in: bool = False
    """Whether the listener requires authentication and the client is not authenticated yet."""
    is_forwarded: bool = False
    """Whether a broker forwarded the request and has verified the client's connection."""
    on_closed: dict[object, Callable[[], object]] = field(default_factory=dict)
    """Callbacks for the connection's close, by a key with which they can be removed: a pending request registers its cancellation."""

    def closed(self) -> None:
        """Run the callbacks, because the connection is closed, and let go of it, so that no reference cycle is left."""
        self.throttle = _no_throttle
        callbacks, self.on_closed = self.on_closed, {}
        for callback in callbacks.values():
            callback()

    @property
    def dialled(self) -> Dialled:
        """The address at which this client finds the broker: the listener's advertised address, or else the one to which it connected."""
        listener = self.listener
        host = listener.advertised_host if listener.advertised_host is not None else self.local_host
        port = listener.advertised_port if listener.advertised_port is not None else self.local_port
        return Dialled(listener.name, host, port)


class Forwarding(Protocol):
    """Forwards clients' requests to the controller: by Envelopes (`ottla.broker.runtime.nodes.envelopes`) or by calls
    (`ottla.broker.api.local_forwarding`)."""

    @property
    def versions(self) -> Callable[[int], tuple[int, int] | None]:
        """Returns the versions of an API that the controller serves; None while they are unknown."""

    async def forward(self, request: Message, version: int, client_id: str | None, client: Peer) -> Any:
        """Return the controller's response to the request of `client`. Raises VersionNotKnown, Rejected, CloseConnection."""


@dataclass(slots=True)
class Sent:
    """Bytes of records that were sent since the start."""

    by_topic: dict[str | bytes, int] = field(default_factory=dict)
    """By topic name, or by topic id if the request named the id."""
    of_deleted: int = 0

    @property
    def total(self) -> int:
        """The bytes of all topics, including deleted ones; it never decreases."""
        return self.of_deleted + sum(self.by_topic.values())

    def forget(self, topic: TopicImage) -> None:
        """Move a deleted topic's bytes to the total of deleted topics."""
        self.of_deleted += self.by_topic.pop(topic.name, 0) + self.by_topic.pop(topic.topic_id, 0)


@dataclass(slots=True)
class Traffic:
    """Bytes of records that were sent to consumers and to followers."""

    to_consumers: Sent = field(default_factory=Sent)
    to_followers: Sent = field(default_factory=Sent)

    def forget(self, topic: TopicImage) -> None:
        """Move a deleted topic's bytes to the totals of deleted topics."""
        self.to_consumers.forget(topic)
        self.to_followers.forget(topic)


@dataclass(slots=True)
class Services:
    """The long-lived objects that handlers use."""

    settings: BrokerSettings
    clock: Clock
    timers: Timers
    turns: Turns
    cluster_id: str
    log_dir: LogDir
    partitions: Partitions
    topics: Catalog
    """All topics of the cluster, including those without partitions in `partitions`."""
    cluster: ClusterView
    topic_maker: TopicMaker
    forwarding: Forwarding
    """Forwards requests to the controller."""
    broker_configs: BrokerConfigs
    features: Callable[[], Features]
    """Returns the current features of the cluster."""
    groups: GroupService
    markers: LocalMarkers
    txns: TxnService
    share: ShareServices
    txn_verification: TxnVerification
    producer_ids: ProducerIds
    fetch_sessions: FetchSessions
    fetch_waits: FetchWaits
    flusher: Flusher
    random_bytes: Callable[[int], bytes]
    stop_at_once: Callable[[BaseException], None]
    """Ends the process at once after a failed fsync, without any further response."""
    listeners: Sequence[Listener] = field(default_factory=list)
    traffic: Traffic = field(default_factory=Traffic)
    quotas: Quotas | None = None
    """Created when the first quota is configured."""
    authorizer: Authorizer | None = None
    """None if every request is authorized."""
    telemetry: ClientTelemetry | None = None
    """Client metrics (KIP-714); None without `client.telemetry.enable`."""

    @property
    def listener_type(self) -> ListenerType:
        """The kind of listener that these services serve."""
        return ListenerType.BROKER


class Context(Generic[ServicesT_co]):
    """The context of one request, with the services that its handler needs (`ottla.broker.api.services`)."""

    __slots__ = ("api_key", "client_id", "peer", "services", "spent_ns", "version")

    def __init__(self, version: int, client_id: str | None, peer: Peer, services: ServicesT_co, api_key: int = -1) -> None:
        self.version = version
        self.client_id = client_id
        self.peer = peer
        self.services = services
        self.api_key = api_key
        self.spent_ns = 0
        """The time that the parts of a split request took on the loop."""
