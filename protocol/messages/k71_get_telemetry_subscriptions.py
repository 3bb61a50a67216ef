"""Get a client's telemetry subscription: the metrics to push, and the push interval (KIP-714).

Version 0, flexible.
"""

from __future__ import annotations

from ottla.protocol.schema import Message, array, boolean, int8, int16, int32, string, uuid, wire_struct


@wire_struct
class GetTelemetrySubscriptionsRequest(Message, api_key=71, versions="0", flexible="0+"):
    client_instance_id: bytes = uuid()


@wire_struct
class GetTelemetrySubscriptionsResponse(Message, api_key=71, versions="0", flexible="0+"):
    throttle_time_ms: int = int32()
    error_code: int = int16()
    client_instance_id: bytes = uuid()
    subscription_id: int = int32()
    accepted_compression_types: list[int] = array(int8)
    push_interval_ms: int = int32()
    telemetry_max_bytes: int = int32()
    delta_temporality: bool = boolean()
    requested_metrics: list[str] = array(string)
