"""Push a client's metrics, encoded as OpenTelemetry MetricsData (KIP-714).

Version 0, flexible.
"""

from __future__ import annotations

from ottla.protocol.schema import Message, boolean, bytes_, int8, int16, int32, uuid, wire_struct


@wire_struct
class PushTelemetryRequest(Message, api_key=72, versions="0", flexible="0+"):
    client_instance_id: bytes = uuid()
    subscription_id: int = int32()
    terminating: bool = boolean()
    compression_type: int = int8()
    metrics: bytes | bytearray | memoryview = bytes_()


@wire_struct
class PushTelemetryResponse(Message, api_key=72, versions="0", flexible="0+"):
    throttle_time_ms: int = int32()
    error_code: int = int16()
