"""Write commit or abort markers into partitions; sent by transaction coordinators to leaders.

Versions 1-2, all flexible.

Changes by version:
* 2: `transaction_version`; if it is 2, the marker's producer epoch is higher than that of the transaction's records (KIP-1228).
"""

from __future__ import annotations

from ottla.protocol.schema import Message, array, boolean, int8, int16, int32, int64, string, wire_struct


@wire_struct
class WritableTxnMarkerTopic:
    name: str = string()
    partition_indexes: list[int] = array(int32)


@wire_struct
class WritableTxnMarker:
    producer_id: int = int64()
    producer_epoch: int = int16()
    transaction_result: bool = boolean()
    topics: list[WritableTxnMarkerTopic] = array(WritableTxnMarkerTopic)
    coordinator_epoch: int = int32()
    transaction_version: int = int8("2+")


@wire_struct
class WriteTxnMarkersRequest(Message, api_key=27, versions="1-2", flexible="1+"):
    markers: list[WritableTxnMarker] = array(WritableTxnMarker)


@wire_struct
class WritableTxnMarkerPartitionResult:
    partition_index: int = int32()
    error_code: int = int16()


@wire_struct
class WritableTxnMarkerTopicResult:
    name: str = string()
    partitions: list[WritableTxnMarkerPartitionResult] = array(WritableTxnMarkerPartitionResult)


@wire_struct
class WritableTxnMarkerResult:
    producer_id: int = int64()
    topics: list[WritableTxnMarkerTopicResult] = array(WritableTxnMarkerTopicResult)


@wire_struct
class WriteTxnMarkersResponse(Message, api_key=27, versions="1-2", flexible="1+"):
    markers: list[WritableTxnMarkerResult] = array(WritableTxnMarkerResult)
