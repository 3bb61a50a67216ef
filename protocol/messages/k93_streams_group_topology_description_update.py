"""Store the description of a streams group's topology (KIP-1331).

Version 0, flexible.
"""

from __future__ import annotations

from ottla.protocol.messages.streams_group import TopologyDescription
from ottla.protocol.schema import Message, int16, int32, string, struct, wire_struct


@wire_struct
class StreamsGroupTopologyDescriptionUpdateRequest(Message, api_key=93, versions="0", flexible="0+"):
    group_id: str = string()
    member_id: str = string()
    topology_epoch: int = int32()
    topology_description: TopologyDescription = struct(TopologyDescription)


@wire_struct
class StreamsGroupTopologyDescriptionUpdateResponse(Message, api_key=93, versions="0", flexible="0+"):
    throttle_time_ms: int = int32()
    error_code: int = int16()
    error_message: str | None = string(nullable="0+", default=None)
