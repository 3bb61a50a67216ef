"""The long-lived objects of a node that handlers need, in groups. A handler's context names the group that it uses.

`Services` contains all groups of a broker (`broker/app.py` builds it), and `ControllerServices` those of a controller. A handler that
serves both brokers' and controllers' listeners uses only `NodeServices`, the group that both kinds of nodes have.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, ClassVar

from ottla.broker.api.context import Forwarding, Listener, Traffic
from ottla.broker.api.served_api import ListenerType

if TYPE_CHECKING:
    from ottla.broker.api.authorizer import Authorizer
    from ottla.broker.cluster.catalog import Catalog
    from ottla.broker.cluster.features import Features
    from ottla.broker.configs.broker_config import BrokerConfigs
    from ottla.broker.core.clock import Clock
    from ottla.broker.core.settings import BrokerSettings
    from ottla.broker.core.timers import Timers
    from ottla.broker.quotas.quotas import Quotas
    from ottla.broker.runtime.coordination.group_service import GroupService
    from ottla.broker.runtime.coordination.txn_markers import LocalMarkers
    from ottla.broker.runtime.coordination.txn_service import TxnService
    from ottla.broker.runtime.coordination.txn_verification import TxnVerification
    from ottla.broker.runtime.metadata.cluster_view import ClusterView
    from ottla.broker.runtime.metadata.producer_ids import ProducerIds
    from ottla.broker.runtime.metadata.streams_topics import StreamsTopics
    from ottla.broker.runtime.metadata.topic_making import TopicMaker
    from ottla.broker.runtime.quorum.active_controller import ActiveController
    from ottla.broker.runtime.quorum.quorum_controller import QuorumController
    from ottla.broker.runtime.quorum.serving import QuorumServing
    from ottla.broker.runtime.replicas.fetch_purgatory import FetchPurgatory
    from ottla.broker.runtime.replicas.fetch_sessions import FetchSessions
    from ottla.broker.runtime.replicas.flusher import Flusher
    from ottla.broker.runtime.replicas.partitions import Partitions
    from ottla.broker.runtime.share.share_services import ShareServices
    from ottla.broker.runtime.upkeep.turns import Turns
    from ottla.broker.storage.log_dir import LogDir
    from ottla.broker.telemetry.instances import ClientTelemetry


@dataclass(kw_only=True)
class NodeServices:
    """The long-lived objects that handlers need on every node, a broker or a controller."""

    listener_type: ClassVar[ListenerType]
    settings: BrokerSettings
    clock: Clock
    timers: Timers
    turns: Turns
    topics: Catalog
    """The newest cluster metadata that this node has, for looking up topics, brokers, settings and ACLs."""
    features: Callable[[], Features]
    """A function that returns the current features of the cluster, such as `transaction.version`, with their levels."""
    broker_configs: BrokerConfigs
    """This node's settings in all layers: static, dynamic and default."""
    random_bytes: Callable[[int], bytes]
    stop_at_once: Callable[[BaseException], None]
    """A function that ends the process at once, without any further response. It is called with the error of a failed fsync."""
    authorizer: Authorizer | None = None
    """The authorizer of requests; None if every request is allowed."""
    quotas: Quotas | None = None
    """The quotas of this node; None until the first quota is configured."""


@dataclass(kw_only=True)
class ClusterServices(NodeServices):
    """A broker's long-lived objects for requests about the cluster, such as Metadata, and for requests that it forwards to the
    controller.
    """

    cluster_id: str
    cluster: ClusterView
    topic_maker: TopicMaker
    forwarding: Forwarding
    """The object that forwards clients' requests to the controller."""
    traffic: Traffic = field(default_factory=Traffic)
    telemetry: ClientTelemetry | None = None
    """The metrics that clients push (KIP-714); None without `client.telemetry.enable`."""


@dataclass(kw_only=True)
class PartitionServices(ClusterServices):
    """A broker's long-lived objects for requests about its partitions, such as Produce and Fetch."""

    log_dir: LogDir
    partitions: Partitions
    fetch_sessions: FetchSessions
    fetch_purgatory: FetchPurgatory
    txn_verification: TxnVerification


@dataclass(kw_only=True)
class ShareGroupServices(ClusterServices):
    """A broker's long-lived objects for requests about share partitions, such as ShareFetch."""

    share: ShareServices


@dataclass(kw_only=True)
class CoordinationServices(ShareGroupServices):
    """A broker's long-lived objects for requests to coordinators: those of groups, share groups and transactions."""

    groups: GroupService
    streams_topics: StreamsTopics
    """The object that creates the internal topics of streams groups."""
    txns: TxnService
    txn_verification: TxnVerification
    markers: LocalMarkers
    producer_ids: ProducerIds


@dataclass(kw_only=True)
class Services(PartitionServices, CoordinationServices):
    """The long-lived objects of a broker that handlers need: all groups of services together."""

    listener_type = ListenerType.BROKER
    flusher: Flusher
    listeners: Sequence[Listener]


@dataclass(kw_only=True)
class ControllerServices(NodeServices):
    """The long-lived objects of a controller that handlers need."""

    listener_type = ListenerType.CONTROLLER
    controller: QuorumController
    compute: Callable[[Callable[[], Any]], Awaitable[Any]] | None = None
    """A function that runs a long computation, such as decoding a large forwarded request, on a thread. None on a standalone node, whose
    controller gets no Envelopes.
    """

    @property
    def active(self) -> ActiveController:
        """The active controller, which decides requests and writes the resulting records to the metadata log."""
        return self.controller.active

    @property
    def serving(self) -> QuorumServing:
        """The object that serves the metadata log to other nodes: it answers Fetch, FetchSnapshot and DescribeQuorum."""
        return self.controller.serving
