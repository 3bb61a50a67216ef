"""Quotas begin and end to be obeyed: without any nothing of them is imported, and no request is asked about."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Final, Protocol

from ottla.broker.api.dispatch import Dispatcher
from ottla.broker.cluster.image import QuotaTarget
from ottla.broker.core.clock import Clock
from ottla.broker.core.settings import BrokerSettings
from ottla.broker.runtime.replicas.fetch_sessions import FetchSessions

if TYPE_CHECKING:
    from ottla.broker.quotas.connections import Acceptance
    from ottla.broker.quotas.quotas import Quotas


_ANY: Final = 2**31 - 1


class Obeys(Protocol):
    """The services of a broker, or a controller."""

    quotas: Quotas | None

    @property
    def settings(self) -> BrokerSettings: ...
    @property
    def clock(self) -> Clock: ...


def obey(
    services: Obeys, dispatcher: Dispatcher, quotas: Mapping[QuotaTarget, Mapping[str, float]], sessions: FetchSessions | None = None
) -> None:
    """From now on these quotas hold; what was used before counts."""
    if services.quotas is None and not quotas:
        return
    from ottla.broker.api.throttling import Throttling  # noqa: PLC0415 # only where there are quotas

    found = _quotas_of(services)
    found.change(quotas)
    dispatcher.throttling = Throttling(found, services.clock, sessions) if found.of_clients else None


def accept(services: Obeys, listener: str, host: str, *, for_brokers: bool) -> Acceptance | None:
    """How a connection that has come is accepted: None, at once."""
    rate, own_rate = services.settings.max_connection_creation_rate, services.settings.max_connection_creation_rate_of(listener)
    if rate == own_rate == _ANY and (services.quotas is None or not services.quotas.connection):
        return None
    quota, now_ms = _quotas_of(services).connection, services.clock.mono_ms()
    return quota.accept(listener, host, rate, now_ms, for_brokers=for_brokers, listener_rate=own_rate)


def _quotas_of(services: Obeys) -> Quotas:
    from ottla.broker.api.throttling import make_quotas  # noqa: PLC0415 # as above

    if services.quotas is None:
        services.quotas = make_quotas(services.settings)
    return services.quotas
