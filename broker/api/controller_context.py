"""The services of a controller, corresponding to `Services` of a broker (`ottla.broker.api.context`)."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace

from ottla.broker.api.authorizer import Authorizer
from ottla.broker.api.served_api import ListenerType
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
from ottla.broker.runtime.upkeep.turns import Turns


@dataclass(slots=True)
class ControllerServices:
    """The long-lived objects that a controller's handlers use. Handlers are shared with brokers, so the names are equal."""

    settings: BrokerSettings
    clock: Clock
    timers: Timers
    turns: Turns
    active: ActiveController
    serving: QuorumServing
    features: Callable[[], Features]
    """Returns the current features of the cluster."""
    topic_service: ClusterDecisions
    stop_at_once: Callable[[BaseException], None]
    authorizer: Authorizer | None = None
    """None if every request is authorized."""
    quotas: Quotas | None = None
    """Created when the first quota is configured."""
    forwarding: None = None
    """None, because a controller decides everything itself."""

    @property
    def listener_type(self) -> ListenerType:
        """The kind of listener that these services serve."""
        return ListenerType.CONTROLLER

    @property
    def topics(self) -> Catalog:
        """The topics of the cluster."""
        return self.active.state.catalog

    @property
    def broker_configs(self) -> BrokerConfigs:
        """The settings of nodes."""
        return self.topic_service.broker_configs

    def random_bytes(self, count: int) -> bytes:
        """Return random bytes for ids."""
        return self.active.state.random.randbytes(count)

    def as_forwarded(self) -> ControllerServices:
        """Return the services for a request that a broker forwarded."""
        return replace(self, topic_service=replace(self.topic_service, is_forwarded=True))
