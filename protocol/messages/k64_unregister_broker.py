"""Remove the registration of a broker from the cluster (KIP-631).

Version 0, flexible.
"""

from __future__ import annotations

from ottla.protocol.schema import Message, int16, int32, string, wire_struct


@wire_struct
class UnregisterBrokerRequest(Message, api_key=64, versions="0", flexible="0+"):
    broker_id: int = int32()


@wire_struct
class UnregisterBrokerResponse(Message, api_key=64, versions="0", flexible="0+"):
    throttle_time_ms: int = int32()
    error_code: int = int16()
    error_message: str | None = string(nullable="0+")
