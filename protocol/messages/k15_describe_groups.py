"""Describe classic groups and their members.

Versions 0-6; flexible from 5.

Changes by version:
* 1: `throttle_time_ms`. 3: authorized operations. 4: `group_instance_id`.
* 6: an unknown group is GROUP_ID_NOT_FOUND, with a message (KIP-1043).
"""

from __future__ import annotations

from ottla.protocol.schema import Buffer, Message, array, boolean, bytes_, int16, int32, string, wire_struct


@wire_struct
class DescribeGroupsRequest(Message, api_key=15, versions="0-6", flexible="5+"):
    groups: list[str] = array(string)
    include_authorized_operations: bool = boolean("3+")


@wire_struct
class DescribedGroupMember:
    member_id: str = string()
    group_instance_id: str | None = string("4+", nullable="4+", default=None)
    client_id: str = string()
    client_host: str = string()
    member_metadata: Buffer = bytes_()
    member_assignment: Buffer = bytes_()


@wire_struct
class DescribedGroup:
    error_code: int = int16()
    error_message: str | None = string("6+", nullable="6+", default=None)
    group_id: str = string()
    group_state: str = string()
    protocol_type: str = string()
    protocol_data: str = string()
    members: list[DescribedGroupMember] = array(DescribedGroupMember)
    authorized_operations: int = int32("3+", default=-0x80000000)


@wire_struct
class DescribeGroupsResponse(Message, api_key=15, versions="0-6", flexible="5+"):
    throttle_time_ms: int = int32("1+")
    groups: list[DescribedGroup] = array(DescribedGroup)
