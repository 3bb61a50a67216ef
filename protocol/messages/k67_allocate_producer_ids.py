"""A broker asks the controller for a block of producer ids (KIP-730).

Version 0, flexible.
"""

from __future__ import annotations

from ottla.protocol.schema import Message, int16, int32, int64, wire_struct


@wire_struct
class AllocateProducerIdsRequest(Message, api_key=67, versions="0", flexible="0+"):
    broker_id: int = int32()
    broker_epoch: int = int64(default=-1)


@wire_struct
class AllocateProducerIdsResponse(Message, api_key=67, versions="0", flexible="0+"):
    throttle_time_ms: int = int32()
    error_code: int = int16()
    producer_id_start: int = int64()
    producer_id_len: int = int32()
