"""The struct with the result for one resource, which the responses to AlterConfigs and IncrementalAlterConfigs have in common."""

from __future__ import annotations

from ottla.protocol.schema import int8, int16, string, wire_struct


@wire_struct
class AlterConfigsResourceResponse:
    error_code: int = int16()
    error_message: str | None = string(nullable="0+")
    resource_type: int = int8()
    resource_name: str = string()
