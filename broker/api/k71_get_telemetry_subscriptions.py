"""GetTelemetrySubscriptions (key 71), version 0: the metrics that a client should push (KIP-714).

Promises: a client without an instance id gets one. Current subscriptions are merged as in Kafka, with Kafka's subscription id. A client
that asks again within its push interval gets THROTTLING_QUOTA_EXCEEDED. No authorization is required. The API is served only with
`client.telemetry.enable`.
"""

from __future__ import annotations

from ottla.broker.api.client_telemetry import telemetry_and_pusher
from ottla.broker.api.context import Context
from ottla.broker.api.declaration import Api
from ottla.broker.api.services import ClusterServices
from ottla.broker.core.rejected import Rejected
from ottla.broker.telemetry.instances import COMPRESSION_TYPES
from ottla.protocol.messages.k71_get_telemetry_subscriptions import GetTelemetrySubscriptionsRequest, GetTelemetrySubscriptionsResponse

API = Api(GetTelemetrySubscriptionsRequest, needs_telemetry=True)


@API.on_broker()
def handle(ctx: Context[ClusterServices], request: GetTelemetrySubscriptionsRequest) -> GetTelemetrySubscriptionsResponse:
    """Return the metrics that the client should push (KIP-714), how often and in which form. A client that has no instance id gets one."""
    telemetry, pusher = telemetry_and_pusher(ctx)
    try:
        instance_id, wanted = telemetry.get(bytes(request.client_instance_id), pusher)
    except Rejected as refused:
        return GetTelemetrySubscriptionsResponse(error_code=refused.code)
    return GetTelemetrySubscriptionsResponse(
        client_instance_id=instance_id,
        subscription_id=wanted.subscription_id,
        accepted_compression_types=list(COMPRESSION_TYPES),
        push_interval_ms=wanted.push_interval_ms,
        telemetry_max_bytes=telemetry.max_bytes,
        delta_temporality=True,
        requested_metrics=list(wanted.metrics),
    )
