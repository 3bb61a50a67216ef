"""Write commit or abort markers into partitions; sent by transaction coordinators to leaders.

Versions 1 and 2, flexible; 2 names the transaction version, for which a marker outranks its transaction (KIP-1228).
"""

from __future__ import annotations

from dataclasses import dataclass

from ottla.protocol.schema import Message, array, boolean, int8, int16, int32, int64, string


@dataclass(slots=True)
class WritableTxnMarkerTopic:
    name: str = string()
    partition_indexes: list[int] = array(int32)


@dataclass(slots=True)
class WritableTxnMarker:
    producer_id: int = int64()
    producer_epoch: int = int16()
    transaction_result: bool = boolean()
    topics: list[WritableTxnMarkerTopic] = array(WritableTxnMarkerTopic)
    coordinator_epoch: int = int32()
    transaction_version: int = int8("2+")


@dataclass(slots=True)
class WriteTxnMarkersRequest(Message, api_key=27, versions="1-2", flexible="1+"):
    markers: list[WritableTxnMarker] = array(WritableTxnMarker)


@dataclass(slots=True)
class WritableTxnMarkerPartitionResult:
    partition_index: int = int32()
    error_code: int = int16()


@dataclass(slots=True)
class WritableTxnMarkerTopicResult:
    name: str = string()
    partitions: list[WritableTxnMarkerPartitionResult] = array(WritableTxnMarkerPartitionResult)


@dataclass(slots=True)
class WritableTxnMarkerResult:
    producer_id: int = int64()
    topics: list[WritableTxnMarkerTopicResult] = array(WritableTxnMarkerTopicResult)


@dataclass(slots=True)
class WriteTxnMarkersResponse(Message, api_key=27, versions="1-2", flexible="1+"):
    markers: list[WritableTxnMarkerResult] = array(WritableTxnMarkerResult)
