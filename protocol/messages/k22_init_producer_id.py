"""Get a producer id and epoch, for idempotence or for a transactional id.

Versions 0-5; flexible from 2.

Changes by version:
* 3: the producer's present id and epoch, so that it can continue after an error (KIP-360). 4: PRODUCER_FENCED may be returned.
* 5: TRANSACTION_ABORTABLE may be returned (KIP-890).
"""

from __future__ import annotations

from ottla.protocol.schema import Message, int16, int32, int64, string, wire_struct


@wire_struct
class InitProducerIdRequest(Message, api_key=22, versions="0-5", flexible="2+"):
    transactional_id: str | None = string(nullable="0+")
    transaction_timeout_ms: int = int32()
    producer_id: int = int64("3+", default=-1)
    producer_epoch: int = int16("3+", default=-1)


@wire_struct
class InitProducerIdResponse(Message, api_key=22, versions="0-5", flexible="2+"):
    throttle_time_ms: int = int32()
    error_code: int = int16()
    producer_id: int = int64(default=-1)
    producer_epoch: int = int16()
