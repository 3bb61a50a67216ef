"""Creates a broker's client metrics (KIP-714) at the start, updates their subscriptions when metadata changes, and gives the handlers
of telemetry requests access to them.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Final

from ottla.broker.api.authorizer import java_host
from ottla.broker.api.context import Context
from ottla.broker.api.services import ClusterServices, Services
from ottla.broker.cluster.image import ResourceType
from ottla.broker.telemetry.instances import ClientTelemetry
from ottla.broker.telemetry.subscriptions import Pusher

_UNKNOWN: Final = "unknown"
"""The value that stands, as in Kafka, for a client's software name or version if the client has not sent it."""


def telemetry_of(services: Services, on_subscriptions: list[Callable[[str], None]]) -> ClientTelemetry:
    """Return a new `ClientTelemetry` with the current subscriptions of client metrics. Also append a function to `on_subscriptions`: when
    metadata changes a subscription, the caller must call this function with the subscription's name, to update the `ClientTelemetry`.
    """
    settings = services.settings
    made = ClientTelemetry(
        services.clock,
        services.timers,
        services.random_bytes,
        settings.telemetry_max_bytes,
        asks_again=settings.release_behaviour.allows_telemetry_retry_after_error,
        forgets_closed=settings.release_behaviour.forgets_closed_clients,
        decompresses=settings.release_behaviour.decompresses_client_metrics,
    )
    catalog = services.topics

    def change(name: str) -> None:
        made.subscriptions.change(name, catalog.configs(ResourceType.CLIENT_METRICS, name))

    for name in catalog.configured_resources(ResourceType.CLIENT_METRICS):
        change(name)
    on_subscriptions.append(change)
    return made


def telemetry_and_pusher(ctx: Context[ClusterServices]) -> tuple[ClientTelemetry, Pusher]:
    """Return the broker's client metrics, and a `Pusher`, which describes the client that sent the request. When that client's connection
    closes, its client instance (KIP-714) is removed.
    """
    telemetry, peer = ctx.services.telemetry, ctx.peer
    assert telemetry is not None, "the telemetry routes exist only with client metrics enabled"
    peer.on_closed[telemetry] = partial(telemetry.disconnected, peer.number)
    names = (peer.client_software_name or _UNKNOWN, peer.client_software_version or _UNKNOWN)
    return telemetry, Pusher(peer.number, ctx.client_id, *names, java_host(peer.host), peer.port)
