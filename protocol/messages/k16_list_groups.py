"""List the groups that this broker coordinates.

Versions 0-5; flexible from 3.

Changes by version:
* 1: `throttle_time_ms`. 4: filter by state, `group_state` (KIP-518). 5: filter by type, `group_type` (KIP-848).
"""

from __future__ import annotations

from ottla.protocol.schema import Message, array, int16, int32, string, wire_struct


@wire_struct
class ListGroupsRequest(Message, api_key=16, versions="0-5", flexible="3+"):
    states_filter: list[str] = array(string, "4+")
    types_filter: list[str] = array(string, "5+")


@wire_struct
class ListedGroup:
    group_id: str = string()
    protocol_type: str = string()
    group_state: str = string("4+")
    group_type: str = string("5+")


@wire_struct
class ListGroupsResponse(Message, api_key=16, versions="0-5", flexible="3+"):
    throttle_time_ms: int = int32("1+")
    error_code: int = int16()
    groups: list[ListedGroup] = array(ListedGroup)
