"""Delete groups that have no members.

Versions 0-3; flexible from 2.

Changes by version:
* 3: `error_message`.
"""

from __future__ import annotations

from ottla.protocol.schema import Message, array, int16, int32, string, wire_struct


@wire_struct
class DeleteGroupsRequest(Message, api_key=42, versions="0-3", flexible="2+"):
    groups_names: list[str] = array(string)


@wire_struct
class DeletableGroupResult:
    group_id: str = string()
    error_code: int = int16()
    error_message: str | None = string("3+", nullable="3+", default=None)


@wire_struct
class DeleteGroupsResponse(Message, api_key=42, versions="0-3", flexible="2+"):
    throttle_time_ms: int = int32()
    results: list[DeletableGroupResult] = array(DeletableGroupResult)
