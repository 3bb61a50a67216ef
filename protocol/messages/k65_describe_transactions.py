"""Describe transactional ids (KIP-664).

Version 0, flexible.
"""

from __future__ import annotations

from ottla.protocol.schema import Message, array, int16, int32, int64, string, wire_struct


@wire_struct
class DescribeTransactionsRequest(Message, api_key=65, versions="0", flexible="0+"):
    transactional_ids: list[str] = array(string)


@wire_struct
class TopicData:
    topic: str = string()
    partitions: list[int] = array(int32)


@wire_struct
class TransactionState:
    error_code: int = int16()
    transactional_id: str = string()
    transaction_state: str = string()
    transaction_timeout_ms: int = int32()
    transaction_start_time_ms: int = int64()
    producer_id: int = int64()
    producer_epoch: int = int16()
    topics: list[TopicData] = array(TopicData)


@wire_struct
class DescribeTransactionsResponse(Message, api_key=65, versions="0", flexible="0+"):
    throttle_time_ms: int = int32()
    transaction_states: list[TransactionState] = array(TransactionState)
