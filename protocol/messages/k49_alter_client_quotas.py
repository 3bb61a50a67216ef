"""Set or remove quotas of users, client ids and IP addresses (KIP-546). A null name stands for the default of its entity type.

Versions 0-1; flexible from 1.
"""

from __future__ import annotations

from ottla.protocol.schema import Message, array, boolean, float64, int16, int32, string, wire_struct


@wire_struct
class EntityData:
    entity_type: str = string()
    entity_name: str | None = string(nullable="0+")


@wire_struct
class OpData:
    key: str = string()
    value: float = float64()
    remove: bool = boolean()


@wire_struct
class EntryData:
    entity: list[EntityData] = array(EntityData)
    ops: list[OpData] = array(OpData)


@wire_struct
class AlterClientQuotasRequest(Message, api_key=49, versions="0-1", flexible="1+"):
    entries: list[EntryData] = array(EntryData)
    validate_only: bool = boolean()


@wire_struct
class EntryResult:
    error_code: int = int16()
    error_message: str | None = string(nullable="0+")
    entity: list[EntityData] = array(EntityData)


@wire_struct
class AlterClientQuotasResponse(Message, api_key=49, versions="0-1", flexible="1+"):
    throttle_time_ms: int = int32()
    entries: list[EntryResult] = array(EntryResult)
