"""Inform the coordinator of a classic group that a member is alive, and learn whether a rebalance has begun.

Versions 0-4; flexible from 4.

Changes by version:
* 1: `throttle_time_ms`. 3: `group_instance_id`.
"""

from __future__ import annotations

from ottla.protocol.schema import Message, int16, int32, string, wire_struct


@wire_struct
class HeartbeatRequest(Message, api_key=12, versions="0-4", flexible="4+"):
    group_id: str = string()
    generation_id: int = int32()
    member_id: str = string()
    group_instance_id: str | None = string("3+", nullable="3+", default=None)


@wire_struct
class HeartbeatResponse(Message, api_key=12, versions="0-4", flexible="4+"):
    throttle_time_ms: int = int32("1+")
    error_code: int = int16()
