"""Write changes to the state of share partitions. Their leader sends this request to the share coordinator (KIP-932).

Versions 0-1, all flexible.

Changes by version:
* 1: `delivery_complete_count` (KIP-1226).
"""

from __future__ import annotations

from ottla.protocol.messages.share_state import StateBatch, StateResult
from ottla.protocol.schema import Message, array, int32, int64, string, uuid, wire_struct


@wire_struct
class PartitionData:
    partition: int = int32()
    state_epoch: int = int32()
    leader_epoch: int = int32()
    start_offset: int = int64()
    delivery_complete_count: int = int32("1+", default=-1)
    state_batches: list[StateBatch] = array(StateBatch)


@wire_struct
class WriteStateData:
    topic_id: bytes = uuid()
    partitions: list[PartitionData] = array(PartitionData)


@wire_struct
class WriteShareGroupStateRequest(Message, api_key=85, versions="0-1", flexible="0+"):
    group_id: str = string()
    topics: list[WriteStateData] = array(WriteStateData)


@wire_struct
class WriteShareGroupStateResponse(Message, api_key=85, versions="0-1", flexible="0+"):
    results: list[StateResult] = array(StateResult)
