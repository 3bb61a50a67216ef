"""Change single settings of topics or brokers. The operation 0 sets a value, 1 deletes it, 2 appends items to a list, 3 removes items from
a list.

Versions 0-1; flexible from 1.
"""

from __future__ import annotations

from ottla.protocol.messages.alter_configs_resource_response import AlterConfigsResourceResponse
from ottla.protocol.schema import Message, array, boolean, int8, int32, string, wire_struct


@wire_struct
class AlterableConfig:
    name: str = string()
    config_operation: int = int8()
    value: str | None = string(nullable="0+")


@wire_struct
class AlterConfigsResource:
    resource_type: int = int8()
    resource_name: str = string()
    configs: list[AlterableConfig] = array(AlterableConfig)


@wire_struct
class IncrementalAlterConfigsRequest(Message, api_key=44, versions="0-1", flexible="1+"):
    resources: list[AlterConfigsResource] = array(AlterConfigsResource)
    validate_only: bool = boolean()


@wire_struct
class IncrementalAlterConfigsResponse(Message, api_key=44, versions="0-1", flexible="1+"):
    throttle_time_ms: int = int32()
    responses: list[AlterConfigsResourceResponse] = array(AlterConfigsResourceResponse)
