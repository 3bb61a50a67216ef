"""The services of a controller, corresponding to `Services` of a broker (`ottla.broker.api.context`)."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING

from ottla.broker.api.served_api import ListenerType
from ottla.broker.cluster.catalog import Catalog
from ottla.broker.cluster.features import Features
from ottla.broker.configs.broker_config import BrokerConfigs
from ottla.broker.core.clock import Clock
from ottla.broker.core.settings import BrokerSettings
from ottla.broker.core.timers import Timers
from ottla.broker.runtime.quorum.active_controller import ActiveController
from ottla.broker.runtime.quorum.quorum_controller import QuorumController
from ottla.broker.runtime.upkeep.turns import Turns

if TYPE_CHECKING:
    from ottla.broker.api.authorizer import Authorizer
    from ottla.broker.quotas.quotas import Quotas
    from ottla.broker.runtime.quorum.serving import QuorumServing


@dataclass(slots=True)
class ControllerServices:
    """The long-lived objects that a controller's handlers use. Handlers are shared with brokers, so the names are equal."""

    settings: BrokerSettings
    clock: Clock
    timers: Timers
    turns: Turns
    controller: QuorumController
    features: Callable[[], Features]
    """Returns the current features of the cluster."""
    broker_configs: BrokerConfigs
    """The settings of nodes."""
    stop_at_once: Callable[[BaseException], None]
    authorizer: Authorizer | None = None
    """None if every request is authorized."""
    quotas: Quotas | None = None
    """Created when the first quota is configured."""

    @property
    def listener_type(self) -> ListenerType:
        """The kind of listener that these services serve."""
        return ListenerType.CONTROLLER

    @property
    def active(self) -> ActiveController:
        """Runs decisions."""
        return self.controller.active

    @property
    def serving(self) -> QuorumServing:
        """Answers readers of the metadata log."""
        return self.controller.serving

    @property
    def topics(self) -> Catalog:
        """The topics of the cluster."""
        return self.active.state.catalog

    def random_bytes(self, count: int) -> bytes:
        """Return random bytes for ids."""
        return self.active.state.random.randbytes(count)
