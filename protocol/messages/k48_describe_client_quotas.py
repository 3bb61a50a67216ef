"""List the client quotas that match a filter (KIP-546). `match_type`: 0 this name, 1 the default quota, 2 any name.

Versions 0-1; flexible from 1.
"""

from __future__ import annotations

from ottla.protocol.schema import Message, array, boolean, float64, int8, int16, int32, string, wire_struct


@wire_struct
class ComponentData:
    entity_type: str = string()
    match_type: int = int8()
    match: str | None = string(nullable="0+")


@wire_struct
class DescribeClientQuotasRequest(Message, api_key=48, versions="0-1", flexible="1+"):
    components: list[ComponentData] = array(ComponentData)
    strict: bool = boolean()


@wire_struct
class EntityData:
    entity_type: str = string()
    entity_name: str | None = string(nullable="0+")


@wire_struct
class ValueData:
    key: str = string()
    value: float = float64()


@wire_struct
class EntryData:
    entity: list[EntityData] = array(EntityData)
    values: list[ValueData] = array(ValueData)


@wire_struct
class DescribeClientQuotasResponse(Message, api_key=48, versions="0-1", flexible="1+"):
    throttle_time_ms: int = int32()
    error_code: int = int16()
    error_message: str | None = string(nullable="0+")
    entries: list[EntryData] | None = array(EntryData, nullable="0+")
