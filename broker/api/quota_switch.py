"""Switches the quotas of a node on and off. While no quota is configured, the modules that implement quotas are not imported, and no
request is checked."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Final, Protocol

from ottla.broker.api.dispatch import Dispatcher
from ottla.broker.cluster.image import QuotaTarget
from ottla.broker.core.clock import Clock
from ottla.broker.core.settings import BrokerSettings
from ottla.broker.runtime.replicas.fetch_sessions import FetchSessions

if TYPE_CHECKING:
    from ottla.broker.quotas.connections import ConnectionDecision
    from ottla.broker.quotas.quotas import Quotas


_ANY: Final = 2**31 - 1


class HasQuotas(Protocol):
    """The services of a broker or a controller that `apply_quotas` and `check_connection` use."""

    quotas: Quotas | None

    @property
    def settings(self) -> BrokerSettings: ...
    @property
    def clock(self) -> Clock: ...


def apply_quotas(
    services: HasQuotas, dispatcher: Dispatcher, quotas: Mapping[QuotaTarget, Mapping[str, float]], sessions: FetchSessions | None = None
) -> None:
    """Replace the quotas of a node by `quotas`. Client quotas among them switch throttling in `dispatcher` on, otherwise it is switched
    off. The usage of clients that was measured before still counts."""
    if services.quotas is None and not quotas:
        return
    from ottla.broker.api.throttling import Throttling  # noqa: PLC0415 # only where there are quotas

    found = _quotas_of(services)
    found.change(quotas)
    dispatcher.throttling = Throttling(found, services.clock, sessions) if found.of_clients else None


def check_connection(services: HasQuotas, listener: str, host: str, *, for_brokers: bool) -> ConnectionDecision | None:
    """Charge a new connection to the connection quotas. Return how long the connection must be delayed, and whether it is then closed; None
    if no quota applies. `for_brokers` says whether the listener is the one between brokers.
    """
    rate, own_rate = services.settings.max_connection_creation_rate, services.settings.max_connection_creation_rate_of(listener)
    if rate == own_rate == _ANY and (services.quotas is None or not services.quotas.connection):
        return None
    quota, now_ms = _quotas_of(services).connection, services.clock.mono_ms()
    return quota.accept(listener, host, rate, now_ms, for_brokers=for_brokers, listener_rate=own_rate)


def _quotas_of(services: HasQuotas) -> Quotas:
    from ottla.broker.api.throttling import make_quotas  # noqa: PLC0415 # only if there are quotas

    if services.quotas is None:
        services.quotas = make_quotas(services.settings)
    return services.quotas
