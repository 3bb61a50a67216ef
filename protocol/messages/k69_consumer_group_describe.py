"""Describe consumer groups of the new protocol (KIP-848).

Versions 0-1, all flexible.

Changes by version:
* 1: `member_type`: classic (0), consumer (1), unknown (-1) (KIP-1099).
"""

from __future__ import annotations

from ottla.protocol.messages.group_assignment import Assignment
from ottla.protocol.schema import Message, array, boolean, int8, int16, int32, string, struct, wire_struct


@wire_struct
class ConsumerGroupDescribeRequest(Message, api_key=69, versions="0-1", flexible="0+"):
    group_ids: list[str] = array(string)
    include_authorized_operations: bool = boolean()


@wire_struct
class Member:
    member_id: str = string()
    instance_id: str | None = string(nullable="0+", default=None)
    rack_id: str | None = string(nullable="0+", default=None)
    member_epoch: int = int32()
    client_id: str = string()
    client_host: str = string()
    subscribed_topic_names: list[str] = array(string)
    subscribed_topic_regex: str | None = string(nullable="0+", default=None)
    assignment: Assignment = struct(Assignment)
    target_assignment: Assignment = struct(Assignment)
    member_type: int = int8("1+", default=-1)


@wire_struct
class DescribedGroup:
    error_code: int = int16()
    error_message: str | None = string(nullable="0+", default=None)
    group_id: str = string()
    group_state: str = string()
    group_epoch: int = int32()
    assignment_epoch: int = int32()
    assignor_name: str = string()
    members: list[Member] = array(Member)
    authorized_operations: int = int32(default=-0x80000000)


@wire_struct
class ConsumerGroupDescribeResponse(Message, api_key=69, versions="0-1", flexible="0+"):
    throttle_time_ms: int = int32()
    groups: list[DescribedGroup] = array(DescribedGroup)
