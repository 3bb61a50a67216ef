"""What handlers need: the long-lived objects of a node, in groups. A handler's context names the group that it uses.

`Services` of a broker (`ottla.broker.api.context`) and `ControllerServices` of a controller (`ottla.broker.api.controller_context`) provide
them, so a handler that both listeners share is typed by the group that both have.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    from ottla.broker.api.authorizer import Authorizer
    from ottla.broker.api.context import Forwarding, Traffic
    from ottla.broker.api.served_api import ListenerType
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
    from ottla.broker.runtime.metadata.topic_making import TopicMaker
    from ottla.broker.runtime.quorum.active_controller import ActiveController
    from ottla.broker.runtime.quorum.serving import QuorumServing
    from ottla.broker.runtime.replicas.fetch_sessions import FetchSessions
    from ottla.broker.runtime.replicas.fetch_waits import FetchWaits
    from ottla.broker.runtime.replicas.partitions import Partitions
    from ottla.broker.runtime.share.share_services import ShareServices
    from ottla.broker.runtime.upkeep.turns import Turns
    from ottla.broker.storage.log_dir import LogDir
    from ottla.broker.telemetry.instances import ClientTelemetry


class NodeServices(Protocol):
    """What every node has."""

    @property
    def listener_type(self) -> ListenerType: ...
    @property
    def settings(self) -> BrokerSettings: ...
    @property
    def clock(self) -> Clock: ...
    @property
    def timers(self) -> Timers: ...
    @property
    def turns(self) -> Turns: ...
    @property
    def stop_at_once(self) -> Callable[[BaseException], None]:
        """Ends the process at once after a failed fsync, without any further response."""

    @property
    def random_bytes(self) -> Callable[[int], bytes]: ...
    @property
    def topics(self) -> Catalog:
        """The cluster's metadata."""

    @property
    def features(self) -> Callable[[], Features]:
        """Returns the current features of the cluster."""

    @property
    def broker_configs(self) -> BrokerConfigs: ...
    @property
    def authorizer(self) -> Authorizer | None:
        """None if every request is authorized."""

    @property
    def quotas(self) -> Quotas | None:
        """Created when the first quota is configured."""


class ClusterServices(NodeServices, Protocol):
    """What a broker knows of the cluster."""

    @property
    def forwarding(self) -> Forwarding: ...

    @property
    def cluster_id(self) -> str: ...
    @property
    def cluster(self) -> ClusterView: ...
    @property
    def topic_maker(self) -> TopicMaker: ...
    @property
    def telemetry(self) -> ClientTelemetry | None:
        """Client metrics (KIP-714); None without `client.telemetry.enable`."""


class PartitionServices(ClusterServices, Protocol):
    """A broker's partitions."""

    @property
    def log_dir(self) -> LogDir: ...
    @property
    def partitions(self) -> Partitions: ...
    @property
    def fetch_sessions(self) -> FetchSessions: ...
    @property
    def fetch_waits(self) -> FetchWaits: ...
    @property
    def txn_verification(self) -> TxnVerification: ...
    @property
    def traffic(self) -> Traffic: ...


class ShareGroupServices(ClusterServices, Protocol):
    """A broker's part in share groups."""

    @property
    def share(self) -> ShareServices: ...
    @property
    def traffic(self) -> Traffic: ...


class CoordinationServices(ClusterServices, Protocol):
    """A broker's group and transaction coordinators."""

    @property
    def share(self) -> ShareServices: ...

    @property
    def groups(self) -> GroupService: ...
    @property
    def txns(self) -> TxnService: ...
    @property
    def txn_verification(self) -> TxnVerification: ...
    @property
    def markers(self) -> LocalMarkers: ...
    @property
    def producer_ids(self) -> ProducerIds: ...


class DecidingServices(NodeServices, Protocol):
    """The decisions of a controller about the cluster."""

    @property
    def active(self) -> ActiveController: ...


class QuorumServices(DecidingServices, Protocol):
    """What a controller serves to the other nodes of its quorum."""

    @property
    def serving(self) -> QuorumServing: ...
