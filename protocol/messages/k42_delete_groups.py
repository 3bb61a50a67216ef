"""Delete groups that have no members.

Versions 0-2; flexible from 2.
"""

from __future__ import annotations

from dataclasses import dataclass

from ottla.protocol.schema import Message, array, int16, int32, string


@dataclass(slots=True)
class DeleteGroupsRequest(Message, api_key=42, versions="0-2", flexible="2+"):
    groups_names: list[str] = array(string)


@dataclass(slots=True)
class DeletableGroupResult:
    group_id: str = string()
    error_code: int = int16()


@dataclass(slots=True)
class DeleteGroupsResponse(Message, api_key=42, versions="0-2", flexible="2+"):
    throttle_time_ms: int = int32()
    results: list[DeletableGroupResult] = array(DeletableGroupResult)
