"""What a handler is given beside its request.

Rules: a Context lives as long as its request; everything long-lived hangs on `Services`, which `broker/app.py` builds once. A handler
changes the world only through services.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from ottla.broker.api.reply import CLOSE, Reply
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
from ottla.broker.runtime.metadata.topic_service import TopicService
from ottla.broker.runtime.replicas.fetch_sessions import FetchSessions
from ottla.broker.runtime.replicas.fetch_waits import FetchWaits
from ottla.broker.runtime.replicas.flusher import Flusher
from ottla.broker.runtime.replicas.partitions import Partitions
from ottla.broker.runtime.upkeep.turns import Turns
from ottla.broker.storage.log_dir import LogDir

if TYPE_CHECKING:
    from ottla.broker.api.authorizer import Authorizer
    from ottla.broker.quotas.quotas import Quotas
    from ottla.broker.runtime.metadata.cluster_of_one import LoneController
    from ottla.broker.runtime.nodes.envelopes import Forwarding
    from ottla.broker.telemetry.instances import ClientTelemetry


class CloseConnection(Exception):
    """Raised where there is no other way to say no (acks=0): the connection closes, and nothing is answered but `reply`."""

    def __init__(self, why: str, reply: Reply = CLOSE) -> None:
        super().__init__(why)
        self.reply = reply


@dataclass(frozen=True, slots=True)
class Listener:
    """One named listener: where it is bound (the port as the kernel gave it), and what Metadata advertises for it, if anything was
    configured.
    """

    name: str
    host: str
    port: int
    advertised_host: str | None = None
    advertised_port: int | None = None
    protocol: SecurityProtocol = SecurityProtocol.PLAINTEXT


@dataclass(slots=True)
class Peer:
    """What is known of the peer. `local_host`/`local_port` are the address that the client dialled, as this end of the socket sees it."""

    host: str
    local_host: str
    local_port: int
    listener: Listener
    number: int = 0
    """Counts the connections of this broker since its start, from 1."""
    port: int = 0
    """The peer's end of the connection."""
    client_software_name: str = ""
    client_software_version: str = ""
    principal: Principal = ANONYMOUS
    """Who the peer is, as its connection proved."""
    throttle: Callable[[int], object] = lambda _ms: None
    """Reads nothing more of the connection for so many milliseconds (KIP-219)."""
    by_token: bool = False
    """True where a delegation token proved it: such a peer gets no further tokens."""
    has_to_log_in: bool = False
    """True until it did, where a listener asks for that."""
    is_forwarded: bool = False
    """True where a broker speaks for it, which has looked at its connection."""
    on_closed: dict[object, Callable[[], object]] = field(default_factory=dict)
    """What to call when the connection is gone, under a key that takes it back: a parked request registers its own cancelling."""

    def closed(self) -> None:
        """The connection is gone: tell whoever waits for it."""
        callbacks, self.on_closed = self.on_closed, {}
        for callback in callbacks.values():
            callback()

    @property
    def dialled(self) -> Dialled:
        """Where this client came in, and is to find the broker: the advertised listener, or else the address that it dialled."""
        listener = self.listener
        host = listener.advertised_host if listener.advertised_host is not None else self.local_host
        port = listener.advertised_port if listener.advertised_port is not None else self.local_port
        return Dialled(listener.name, host, port)


@dataclass(slots=True)
class Sent:
    """Bytes of records that were sent since the start."""

    by_topic: dict[str | bytes, int] = field(default_factory=dict)
    """By its name, or its id where the request named it so."""
    of_deleted: int = 0

    @property
    def total(self) -> int:
        """Of all topics there ever were: it never goes back."""
        return self.of_deleted + sum(self.by_topic.values())

    def forget(self, topic: TopicImage) -> None:
        """It is deleted."""
        self.of_deleted += self.by_topic.pop(topic.name, 0) + self.by_topic.pop(topic.topic_id, 0)


@dataclass(slots=True)
class Traffic:
    """What was sent to whom."""

    to_consumers: Sent = field(default_factory=Sent)
    to_followers: Sent = field(default_factory=Sent)

    def forget(self, topic: TopicImage) -> None:
        """It is deleted."""
        self.to_consumers.forget(topic)
        self.to_followers.forget(topic)


@dataclass(slots=True)
class Services:
    """The long-lived objects that handlers use."""

    settings: BrokerSettings
    clock: Clock
    timers: Timers
    turns: Turns
    node_id: int
    cluster_id: str
    log_dir: LogDir
    partitions: Partitions
    topics: Catalog
    """What topics exist, here or elsewhere: partitions that are not in `partitions` may well be in it."""
    cluster: ClusterView
    topic_maker: TopicMaker
    broker_configs: BrokerConfigs
    features: Callable[[], Features]
    """Those of the cluster, now."""
    groups: GroupService
    markers: LocalMarkers
    txns: TxnService
    txn_verification: TxnVerification
    producer_ids: ProducerIds
    fetch_sessions: FetchSessions
    fetch_waits: FetchWaits
    flusher: Flusher
    random_bytes: Callable[[int], bytes]
    stop_at_once: Callable[[BaseException], None]
    """The disk cannot be trusted any more: end the process without answering anything else."""
    listeners: Sequence[Listener] = field(default_factory=list)
    traffic: Traffic = field(default_factory=Traffic)
    quotas: Quotas | None = None
    """Made for the first quota that there is."""
    deciding: TopicService | None = None
    """What decides about topics, settings and producer ids; None in a member of a cluster, whose controller does."""
    forwarding: Forwarding | None = None
    """The way to the controller, in a member of a cluster; None where this process decides everything itself."""
    authorizer: Authorizer | None = None
    """Who may do what; None where everybody may do everything."""
    telemetry: ClientTelemetry | None = None
    """What clients measure of themselves; None without `client.telemetry.enable`."""

    @property
    def active(self) -> LoneController:
        """As a controller's services have one, where this process decides."""
        return self.topic_service.active

    @property
    def topic_service(self) -> TopicService:
        """What decides here, where this process decides."""
        assert self.deciding is not None
        return self.deciding


class Context:
    """One request's surroundings."""

    __slots__ = ("api_key", "client_id", "peer", "services", "spent_ns", "version")

    def __init__(self, version: int, client_id: str | None, peer: Peer, services: Services, api_key: int = -1) -> None:
        self.version = version
        self.client_id = client_id
        self.peer = peer
        self.services = services
        self.api_key = api_key
        self.spent_ns = 0
        """What the parts of a request that is cut took of the loop."""
