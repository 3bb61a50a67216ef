"""List what has configurations of its own (KIP-1142); in version 0 only client metrics' (KIP-714).

Versions 0-1, all flexible. No `resource_types` means every type.
"""

from __future__ import annotations

from dataclasses import dataclass

from ottla.protocol.schema import Message, array, int8, int16, int32, string

CLIENT_METRICS = 16


@dataclass(slots=True)
class ListConfigResourcesRequest(Message, api_key=74, versions="0-1", flexible="0+"):
    resource_types: list[int] = array(int8, "1+")


@dataclass(slots=True)
class ConfigResource:
    resource_name: str = string()
    resource_type: int = int8("1+", default=CLIENT_METRICS)


@dataclass(slots=True)
class ListConfigResourcesResponse(Message, api_key=74, versions="0-1", flexible="0+"):
    throttle_time_ms: int = int32()
    error_code: int = int16()
    config_resources: list[ConfigResource] = array(ConfigResource)
