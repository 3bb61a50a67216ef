"""Get a member's assignment in a classic group. The group's leader sends all members' assignments in its request.

Versions 0-5; flexible from 4.

Changes by version:
* 1: `throttle_time_ms`. 3: `group_instance_id`. 5: protocol type and name, which must match the group's (KIP-559).
"""

from __future__ import annotations

from ottla.protocol.schema import Buffer, Message, array, bytes_, int16, int32, string, wire_struct


@wire_struct
class SyncGroupRequestAssignment:
    member_id: str = string()
    assignment: Buffer = bytes_()


@wire_struct
class SyncGroupRequest(Message, api_key=14, versions="0-5", flexible="4+"):
    group_id: str = string()
    generation_id: int = int32()
    member_id: str = string()
    group_instance_id: str | None = string("3+", nullable="3+", default=None)
    protocol_type: str | None = string("5+", nullable="5+", default=None)
    protocol_name: str | None = string("5+", nullable="5+", default=None)
    assignments: list[SyncGroupRequestAssignment] = array(SyncGroupRequestAssignment)


@wire_struct
class SyncGroupResponse(Message, api_key=14, versions="0-5", flexible="4+"):
    throttle_time_ms: int = int32("1+")
    error_code: int = int16()
    protocol_type: str | None = string("5+", nullable="5+", default=None)
    protocol_name: str | None = string("5+", nullable="5+", default=None)
    assignment: Buffer = bytes_()
