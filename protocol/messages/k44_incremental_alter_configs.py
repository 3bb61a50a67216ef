"""Change single configuration values of topics or brokers: set (0), delete (1), append to (2) or subtract from (3) a list.

Versions 0-1; flexible from 1.
"""

from __future__ import annotations

from dataclasses import dataclass

from ottla.protocol.schema import Message, array, boolean, int8, int16, int32, string


@dataclass(slots=True)
class AlterableConfig:
    name: str = string()
    config_operation: int = int8()
    value: str | None = string(nullable="0+")


@dataclass(slots=True)
class AlterConfigsResource:
    resource_type: int = int8()
    resource_name: str = string()
    configs: list[AlterableConfig] = array(AlterableConfig)


@dataclass(slots=True)
class IncrementalAlterConfigsRequest(Message, api_key=44, versions="0-1", flexible="1+"):
    resources: list[AlterConfigsResource] = array(AlterConfigsResource)
    validate_only: bool = boolean()


@dataclass(slots=True)
class AlterConfigsResourceResponse:
    error_code: int = int16()
    error_message: str | None = string(nullable="0+")
    resource_type: int = int8()
    resource_name: str = string()


@dataclass(slots=True)
class IncrementalAlterConfigsResponse(Message, api_key=44, versions="0-1", flexible="1+"):
    throttle_time_ms: int = int32()
    responses: list[AlterConfigsResourceResponse] = array(AlterConfigsResourceResponse)
