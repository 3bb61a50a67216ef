"""Extend the expiry time of a delegation token (KIP-48).

Versions 1-2; flexible from 2.
"""

from __future__ import annotations

from ottla.protocol.schema import Buffer, Message, bytes_, int16, int32, int64, wire_struct


@wire_struct
class RenewDelegationTokenRequest(Message, api_key=39, versions="1-2", flexible="2+"):
    hmac: Buffer = bytes_()
    renew_period_ms: int = int64()


@wire_struct
class RenewDelegationTokenResponse(Message, api_key=39, versions="1-2", flexible="2+"):
    error_code: int = int16()
    expiry_timestamp_ms: int = int64()
    throttle_time_ms: int = int32()
