"""The structs that BrokerRegistration (key 62) and ControllerRegistration (key 70) have in common."""

from __future__ import annotations

from ottla.protocol.schema import int16, string, uint16, wire_struct


@wire_struct
class Listener:
    name: str = string()
    host: str = string()
    port: int = uint16()
    security_protocol: int = int16()


@wire_struct
class Feature:
    name: str = string()
    min_supported_version: int = int16()
    max_supported_version: int = int16()
