"""Replace the whole configuration of topics or brokers.

Versions 0-2; flexible from 2.
"""

from __future__ import annotations

from ottla.protocol.messages.alter_configs_resource_response import AlterConfigsResourceResponse
from ottla.protocol.schema import Message, array, boolean, int8, int32, string, wire_struct


@wire_struct
class AlterableConfig:
    name: str = string()
    value: str | None = string(nullable="0+")


@wire_struct
class AlterConfigsResource:
    resource_type: int = int8()
    resource_name: str = string()
    configs: list[AlterableConfig] = array(AlterableConfig)


@wire_struct
class AlterConfigsRequest(Message, api_key=33, versions="0-2", flexible="2+"):
    resources: list[AlterConfigsResource] = array(AlterConfigsResource)
    validate_only: bool = boolean()


@wire_struct
class AlterConfigsResponse(Message, api_key=33, versions="0-2", flexible="2+"):
    throttle_time_ms: int = int32()
    responses: list[AlterConfigsResourceResponse] = array(AlterConfigsResourceResponse)
