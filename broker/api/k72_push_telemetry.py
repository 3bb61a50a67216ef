"""PushTelemetry (key 72), version 0: stores a client's metrics in OTLP for the admin port (KIP-714).

Promises: the errors are those of Kafka's ClientMetricsManager, in its order. A payload that is decompressed to more than
`telemetry.max.bytes` is INVALID_RECORD, as in Kafka. Its contents are parsed only when the admin port needs them. No authorization is
required. The API is served only with `client.telemetry.enable`.
"""

from __future__ import annotations

from ottla.broker.api.client_telemetry import telemetry_and_pusher
from ottla.broker.api.context import Context
from ottla.broker.api.declaration import Api
from ottla.broker.api.services import ClusterServices
from ottla.broker.core.rejected import Rejected
from ottla.protocol.messages.k72_push_telemetry import PushTelemetryRequest, PushTelemetryResponse

API = Api(PushTelemetryRequest, needs_telemetry=True)


@API.on_broker()
def handle(ctx: Context[ClusterServices], request: PushTelemetryRequest) -> PushTelemetryResponse:
    """Store the client's metrics. At most a megabyte is decompressed on the event loop, which takes some milliseconds."""
    telemetry, pusher = telemetry_and_pusher(ctx)
    try:
        telemetry.push(request, pusher)
    except Rejected as refused:
        return PushTelemetryResponse(error_code=refused.code)
    return PushTelemetryResponse()
