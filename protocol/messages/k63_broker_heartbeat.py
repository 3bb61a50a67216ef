"""A broker informs the controller that it is alive, and whether it wants to be unfenced or to shut down (KIP-631).

Versions 0-2, all flexible.

Changes by version:
* 1: `offline_log_dirs` (KIP-858). 2: `cordoned_log_dirs`; null leaves them unchanged (KIP-1066).
"""

from __future__ import annotations

from ottla.protocol.schema import Message, array, boolean, int16, int32, int64, uuid, wire_struct


@wire_struct
class BrokerHeartbeatRequest(Message, api_key=63, versions="0-2", flexible="0+"):
    broker_id: int = int32()
    broker_epoch: int = int64(default=-1)
    current_metadata_offset: int = int64()
    want_fence: bool = boolean()
    want_shut_down: bool = boolean()
    offline_log_dirs: list[bytes] = array(uuid, "1+", tag=0)
    cordoned_log_dirs: list[bytes] | None = array(uuid, "2+", nullable="2+", default=None, tag=1)


@wire_struct
class BrokerHeartbeatResponse(Message, api_key=63, versions="0-2", flexible="0+"):
    throttle_time_ms: int = int32()
    error_code: int = int16()
    is_caught_up: bool = boolean()
    is_fenced: bool = boolean(default=True)
    should_shut_down: bool = boolean()
