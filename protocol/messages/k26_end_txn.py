"""Commit or abort a transaction.

Versions 0-5; flexible from 3.

Changes by version:
* 2: PRODUCER_FENCED may be returned. 4: TRANSACTION_ABORTABLE. 5: every transaction increases the producer epoch; the response has the
  producer's next id and epoch (KIP-890).
"""

from __future__ import annotations

from ottla.protocol.schema import Message, boolean, int16, int32, int64, string, wire_struct


@wire_struct
class EndTxnRequest(Message, api_key=26, versions="0-5", flexible="3+"):
    transactional_id: str = string()
    producer_id: int = int64()
    producer_epoch: int = int16()
    committed: bool = boolean()


@wire_struct
class EndTxnResponse(Message, api_key=26, versions="0-5", flexible="3+"):
    throttle_time_ms: int = int32()
    error_code: int = int16()
    producer_id: int = int64("5+", default=-1)
    producer_epoch: int = int16("5+", default=-1)
