"""What a handler of the controller is given beside its request; as `ottla.broker.api.context` for those of a broker."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace

from ottla.broker.api.authorizer import Authorizer
from ottla.broker.api.context import Peer
from ottla.broker.cluster.catalog import Catalog
from ottla.broker.cluster.features import Features
from ottla.broker.configs.broker_config import BrokerConfigs
from ottla.broker.core.clock import Clock
from ottla.broker.core.settings import BrokerSettings
from ottla.broker.core.timers import Timers
from ottla.broker.quotas.quotas import Quotas
from ottla.broker.runtime.quorum.active_controller import ActiveController
from ottla.broker.runtime.quorum.cluster_decisions import ClusterDecisions
from ottla.broker.runtime.quorum.serving import QuorumServing
from ottla.broker.runtime.quorum.sole_voter import SoleVoter
from ottla.broker.runtime.upkeep.turns import Turns


@dataclass(slots=True)
class ControllerServices:
    """The long-lived objects that handlers use. Those of topics and settings are a broker's, too, and use what has the same name there."""

    settings: BrokerSettings
    clock: Clock
    timers: Timers
    turns: Turns
    active: ActiveController
    voter: SoleVoter
    serving: QuorumServing
    features: Callable[[], Features]
    """Those of the cluster, now."""
    topic_service: ClusterDecisions
    stop_at_once: Callable[[BaseException], None]
    authorizer: Authorizer | None = None
    """Who may do what; None where everybody may do everything."""
    quotas: Quotas | None = None
    """Made for the first quota that there is."""
    forwarding: None = None
    """Everything is decided here."""

    @property
    def topics(self) -> Catalog:
        """What topics exist."""
        return self.active.state.catalog

    @property
    def broker_configs(self) -> BrokerConfigs:
        """The settings of nodes."""
        return self.topic_service.broker_configs

    def random_bytes(self, count: int) -> bytes:
        """What ids are drawn from."""
        return self.active.state.random.randbytes(count)

    def as_forwarded(self) -> ControllerServices:
        """For what came through a broker."""
        return replace(self, topic_service=replace(self.topic_service, is_forwarded=True))


class ControllerContext:
    """One request's surroundings."""

    __slots__ = ("api_key", "client_id", "peer", "services", "spent_ns", "version")

    def __init__(self, version: int, client_id: str | None, peer: Peer, services: ControllerServices, api_key: int = -1) -> None:
        self.version = version
        self.client_id = client_id
        self.peer = peer
        self.services = services
        self.api_key = api_key
        self.spent_ns = 0
        """As in a broker's context."""
