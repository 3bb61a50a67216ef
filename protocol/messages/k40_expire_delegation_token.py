"""Change the expiry time of a delegation token; a negative period expires it at once (KIP-48).

Versions 1-2; flexible from 2.
"""

from __future__ import annotations

from ottla.protocol.schema import Buffer, Message, bytes_, int16, int32, int64, wire_struct


@wire_struct
class ExpireDelegationTokenRequest(Message, api_key=40, versions="1-2", flexible="2+"):
    hmac: Buffer = bytes_()
    expiry_time_period_ms: int = int64()


@wire_struct
class ExpireDelegationTokenResponse(Message, api_key=40, versions="1-2", flexible="2+"):
    error_code: int = int16()
    expiry_timestamp_ms: int = int64()
    throttle_time_ms: int = int32()
