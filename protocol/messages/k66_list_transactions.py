"""List transactional ids and the states of their transactions (KIP-664).

Versions 0-2, all flexible.

Changes by version:
* 1: `duration_filter` (KIP-994). 2: `transactional_id_pattern` (KIP-1152).
"""

from __future__ import annotations

from ottla.protocol.schema import Message, array, int16, int32, int64, string, wire_struct


@wire_struct
class ListTransactionsRequest(Message, api_key=66, versions="0-2", flexible="0+"):
    state_filters: list[str] = array(string)
    producer_id_filters: list[int] = array(int64)
    duration_filter: int = int64("1+", default=-1)
    transactional_id_pattern: str | None = string("2+", nullable="2+", default=None)


@wire_struct
class TransactionState:
    transactional_id: str = string()
    producer_id: int = int64()
    transaction_state: str = string()


@wire_struct
class ListTransactionsResponse(Message, api_key=66, versions="0-2", flexible="0+"):
    throttle_time_ms: int = int32()
    error_code: int = int16()
    unknown_state_filters: list[str] = array(string)
    transaction_states: list[TransactionState] = array(TransactionState)
