"""PushTelemetry (key 72), version 0: a client's metrics in OTLP, kept for who asks at the admin port (KIP-714).

Promises: the errors of Kafka's ClientMetricsManager, in its order; nothing is decompressed to more than `telemetry.max.bytes`
(INVALID_RECORD, as in Kafka). What is inside is not looked at before somebody asks for it. Everybody may push, whatever ACLs say.
Served and listed with `client.telemetry.enable` alone.
"""

from __future__ import annotations

from ottla.broker.api.client_telemetry import telemetry_and_pusher
from ottla.broker.api.context import Context
from ottla.broker.core.rejected import Rejected
from ottla.protocol.messages.k72_push_telemetry import PushTelemetryRequest, PushTelemetryResponse


def handle(ctx: Context, request: PushTelemetryRequest) -> PushTelemetryResponse:
    """A megabyte at most is decompressed here, which takes some milliseconds."""
    telemetry, pusher = telemetry_and_pusher(ctx)
    try:
        telemetry.push(request, pusher)
    except Rejected as refused:
        return PushTelemetryResponse(error_code=refused.code)
    return PushTelemetryResponse()
