"""List the resources that have a dynamic configuration (KIP-1142); in version 0 only client metrics subscriptions (KIP-714).

Versions 0-1, all flexible. No `resource_types` means every type.
"""

from __future__ import annotations

from ottla.protocol.schema import Message, array, int8, int16, int32, string, wire_struct

CLIENT_METRICS = 16


@wire_struct
class ListConfigResourcesRequest(Message, api_key=74, versions="0-1", flexible="0+"):
    resource_types: list[int] = array(int8, "1+")


@wire_struct
class ConfigResource:
    resource_name: str = string()
    resource_type: int = int8("1+", default=CLIENT_METRICS)


@wire_struct
class ListConfigResourcesResponse(Message, api_key=74, versions="0-1", flexible="0+"):
    throttle_time_ms: int = int32()
    error_code: int = int16()
    config_resources: list[ConfigResource] = array(ConfigResource)
