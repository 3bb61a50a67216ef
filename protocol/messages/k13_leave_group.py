"""Leave a classic group, alone or, from version 3 on, as a batch of members.

Versions 0-5; flexible from 4.

Changes by version:
* 1: `throttle_time_ms`. 3: `members` replaces `member_id` (KIP-345). 5: `reason` (KIP-800).
"""

from __future__ import annotations

from ottla.protocol.schema import Message, array, int16, int32, string, wire_struct


@wire_struct
class MemberIdentity:
    member_id: str = string()
    group_instance_id: str | None = string(nullable="0+", default=None)
    reason: str | None = string("5+", nullable="5+", default=None)


@wire_struct
class LeaveGroupRequest(Message, api_key=13, versions="0-5", flexible="4+"):
    group_id: str = string()
    member_id: str = string("0-2")
    members: list[MemberIdentity] = array(MemberIdentity, "3+")


@wire_struct
class MemberResponse:
    member_id: str = string()
    group_instance_id: str | None = string(nullable="0+")
    error_code: int = int16()


@wire_struct
class LeaveGroupResponse(Message, api_key=13, versions="0-5", flexible="4+"):
    throttle_time_ms: int = int32("1+")
    error_code: int = int16()
    members: list[MemberResponse] = array(MemberResponse, "3+")
