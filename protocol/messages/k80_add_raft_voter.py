"""Add a voter to the metadata quorum (KIP-853).

Versions 0-1, all flexible.

Changes by version:
* 1: `ack_when_committed` (KIP-1186).
"""

from __future__ import annotations

from ottla.protocol.messages.quorum import Listener
from ottla.protocol.schema import Message, array, boolean, int16, int32, string, uuid, wire_struct


@wire_struct
class AddRaftVoterRequest(Message, api_key=80, versions="0-1", flexible="0+"):
    cluster_id: str | None = string(nullable="0+")
    timeout_ms: int = int32()
    voter_id: int = int32()
    voter_directory_id: bytes = uuid()
    listeners: list[Listener] = array(Listener)
    ack_when_committed: bool = boolean("1+", default=True)


@wire_struct
class AddRaftVoterResponse(Message, api_key=80, versions="0-1", flexible="0+"):
    throttle_time_ms: int = int32()
    error_code: int = int16()
    error_message: str | None = string(nullable="0+")
