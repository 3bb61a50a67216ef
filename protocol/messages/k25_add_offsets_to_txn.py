"""Add a consumer group's offsets to a transaction.

Versions 0-4; flexible from 3.

Changes by version:
* 2: PRODUCER_FENCED may be returned. 4: TRANSACTION_ABORTABLE (KIP-890).
"""

from __future__ import annotations

from ottla.protocol.schema import Message, int16, int32, int64, string, wire_struct


@wire_struct
class AddOffsetsToTxnRequest(Message, api_key=25, versions="0-4", flexible="3+"):
    transactional_id: str = string()
    producer_id: int = int64()
    producer_epoch: int = int16()
    group_id: str = string()


@wire_struct
class AddOffsetsToTxnResponse(Message, api_key=25, versions="0-4", flexible="3+"):
    throttle_time_ms: int = int32()
    error_code: int = int16()
