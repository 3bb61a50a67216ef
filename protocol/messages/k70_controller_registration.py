"""A controller registers with the active controller (KIP-919).

Version 0, flexible.
"""

from __future__ import annotations

from ottla.protocol.messages.registration import Feature, Listener
from ottla.protocol.schema import Message, array, boolean, int16, int32, string, uuid, wire_struct


@wire_struct
class ControllerRegistrationRequest(Message, api_key=70, versions="0", flexible="0+"):
    controller_id: int = int32()
    incarnation_id: bytes = uuid()
    zk_migration_ready: bool = boolean()
    listeners: list[Listener] = array(Listener)
    features: list[Feature] = array(Feature)


@wire_struct
class ControllerRegistrationResponse(Message, api_key=70, versions="0", flexible="0+"):
    throttle_time_ms: int = int32()
    error_code: int = int16()
    error_message: str | None = string(nullable="0+")
