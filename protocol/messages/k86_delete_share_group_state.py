"""Delete the state of share partitions. The group coordinator sends this request to the share coordinator (KIP-932).

Version 0, flexible.
"""

from __future__ import annotations

from ottla.protocol.messages.share_state import StateResult
from ottla.protocol.schema import Message, array, int32, string, uuid, wire_struct


@wire_struct
class PartitionData:
    partition: int = int32()


@wire_struct
class DeleteStateData:
    topic_id: bytes = uuid()
    partitions: list[PartitionData] = array(PartitionData)


@wire_struct
class DeleteShareGroupStateRequest(Message, api_key=86, versions="0", flexible="0+"):
    group_id: str = string()
    topics: list[DeleteStateData] = array(DeleteStateData)


@wire_struct
class DeleteShareGroupStateResponse(Message, api_key=86, versions="0", flexible="0+"):
    results: list[StateResult] = array(StateResult)
