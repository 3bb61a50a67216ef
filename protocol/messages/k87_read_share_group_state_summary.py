"""Read the start offsets of share partitions. The group coordinator sends this request to the share coordinator (KIP-932).

Versions 0-1, all flexible.

Changes by version:
* 1: `delivery_complete_count` (KIP-1226).
"""

from __future__ import annotations

from ottla.protocol.schema import Message, array, int16, int32, int64, string, uuid, wire_struct


@wire_struct
class PartitionData:
    partition: int = int32()
    leader_epoch: int = int32()


@wire_struct
class ReadStateSummaryData:
    topic_id: bytes = uuid()
    partitions: list[PartitionData] = array(PartitionData)


@wire_struct
class ReadShareGroupStateSummaryRequest(Message, api_key=87, versions="0-1", flexible="0+"):
    group_id: str = string()
    topics: list[ReadStateSummaryData] = array(ReadStateSummaryData)


@wire_struct
class PartitionResult:
    partition: int = int32()
    error_code: int = int16()
    error_message: str | None = string(nullable="0+", default=None)
    state_epoch: int = int32()
    leader_epoch: int = int32()
    start_offset: int = int64()
    delivery_complete_count: int = int32("1+", default=-1)


@wire_struct
class ReadStateSummaryResult:
    topic_id: bytes = uuid()
    partitions: list[PartitionResult] = array(PartitionResult)


@wire_struct
class ReadShareGroupStateSummaryResponse(Message, api_key=87, versions="0-1", flexible="0+"):
    results: list[ReadStateSummaryResult] = array(ReadStateSummaryResult)
