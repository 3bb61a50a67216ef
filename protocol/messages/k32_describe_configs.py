"""Describe the configuration of topics and brokers.

Versions 1-4; flexible from 4. Null `configuration_keys` means all of them.

Changes by version:
* 1: `config_source` and synonyms. 3: documentation and `config_type` (KIP-569).
"""

from __future__ import annotations

from ottla.protocol.schema import Message, array, boolean, int8, int16, int32, string, wire_struct


@wire_struct
class DescribeConfigsResource:
    resource_type: int = int8()
    resource_name: str = string()
    configuration_keys: list[str] | None = array(string, nullable="0+")


@wire_struct
class DescribeConfigsRequest(Message, api_key=32, versions="1-4", flexible="4+"):
    resources: list[DescribeConfigsResource] = array(DescribeConfigsResource)
    include_synonyms: bool = boolean()
    include_documentation: bool = boolean("3+")


@wire_struct
class DescribeConfigsSynonym:
    name: str = string()
    value: str | None = string(nullable="0+")
    source: int = int8()


@wire_struct
class DescribeConfigsResourceResult:
    name: str = string()
    value: str | None = string(nullable="0+")
    read_only: bool = boolean()
    config_source: int = int8(default=-1)
    is_sensitive: bool = boolean()
    synonyms: list[DescribeConfigsSynonym] = array(DescribeConfigsSynonym)
    config_type: int = int8("3+")
    documentation: str | None = string("3+", nullable="0+")


@wire_struct
class DescribeConfigsResult:
    error_code: int = int16()
    error_message: str | None = string(nullable="0+")
    resource_type: int = int8()
    resource_name: str = string()
    configs: list[DescribeConfigsResourceResult] = array(DescribeConfigsResourceResult)


@wire_struct
class DescribeConfigsResponse(Message, api_key=32, versions="1-4", flexible="4+"):
    throttle_time_ms: int = int32()
    results: list[DescribeConfigsResult] = array(DescribeConfigsResult)
