"""Create the state of share partitions with a start offset. The group coordinator sends this request to the share coordinator (KIP-932).

Version 0, flexible.
"""

from __future__ import annotations

from ottla.protocol.messages.share_state import StateResult
from ottla.protocol.schema import Message, array, int32, int64, string, uuid, wire_struct


@wire_struct
class PartitionData:
    partition: int = int32()
    state_epoch: int = int32()
    start_offset: int = int64()


@wire_struct
class InitializeStateData:
    topic_id: bytes = uuid()
    partitions: list[PartitionData] = array(PartitionData)


@wire_struct
class InitializeShareGroupStateRequest(Message, api_key=83, versions="0", flexible="0+"):
    group_id: str = string()
    topics: list[InitializeStateData] = array(InitializeStateData)


@wire_struct
class InitializeShareGroupStateResponse(Message, api_key=83, versions="0", flexible="0+"):
    results: list[StateResult] = array(StateResult)
