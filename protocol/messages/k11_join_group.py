"""Join a classic consumer group.

Versions 0-9; flexible from 6. From version 4 on a member without id gets MEMBER_ID_REQUIRED, and joins again with the id
that it was given (KIP-394).

Changes by version:
* 1: `rebalance_timeout_ms`; before, the session timeout serves as both. 2: `throttle_time_ms`. 5: `group_instance_id` (KIP-345).
* 7: the response names the protocol type, and its protocol may be null (KIP-559). 8: `reason` (KIP-800). 9: `skip_assignment` (KIP-814).
"""

from __future__ import annotations

from ottla.protocol.schema import Buffer, Message, array, boolean, bytes_, int16, int32, string, wire_struct


@wire_struct
class JoinGroupRequestProtocol:
    name: str = string()
    metadata: Buffer = bytes_()


@wire_struct
class JoinGroupRequest(Message, api_key=11, versions="0-9", flexible="6+"):
    group_id: str = string()
    session_timeout_ms: int = int32()
    rebalance_timeout_ms: int = int32("1+", default=-1)
    member_id: str = string()
    group_instance_id: str | None = string("5+", nullable="5+", default=None)
    protocol_type: str = string()
    protocols: list[JoinGroupRequestProtocol] = array(JoinGroupRequestProtocol)
    reason: str | None = string("8+", nullable="8+", default=None)


@wire_struct
class JoinGroupResponseMember:
    member_id: str = string()
    group_instance_id: str | None = string("5+", nullable="5+", default=None)
    metadata: Buffer = bytes_()


@wire_struct
class JoinGroupResponse(Message, api_key=11, versions="0-9", flexible="6+"):
    throttle_time_ms: int = int32("2+")
    error_code: int = int16()
    generation_id: int = int32(default=-1)
    protocol_type: str | None = string("7+", nullable="7+", default=None)
    protocol_name: str | None = string(nullable="7+")
    leader: str = string()
    skip_assignment: bool = boolean("9+")
    member_id: str = string()
    members: list[JoinGroupResponseMember] = array(JoinGroupResponseMember)
