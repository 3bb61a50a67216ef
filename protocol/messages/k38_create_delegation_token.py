"""Create a delegation token, with which other clients act for its owner (KIP-48).

Versions 1-3; flexible from 2.

Changes by version:
* 3: the owner may be another principal than the requester (KIP-373).
"""

from __future__ import annotations

from ottla.protocol.schema import Buffer, Message, array, bytes_, int16, int32, int64, string, wire_struct


@wire_struct
class CreatableRenewers:
    principal_type: str = string()
    principal_name: str = string()


@wire_struct
class CreateDelegationTokenRequest(Message, api_key=38, versions="1-3", flexible="2+"):
    owner_principal_type: str | None = string("3+", nullable="3+")
    owner_principal_name: str | None = string("3+", nullable="3+")
    renewers: list[CreatableRenewers] = array(CreatableRenewers)
    max_lifetime_ms: int = int64()


@wire_struct
class CreateDelegationTokenResponse(Message, api_key=38, versions="1-3", flexible="2+"):
    error_code: int = int16()
    principal_type: str = string()
    principal_name: str = string()
    token_requester_principal_type: str = string("3+")
    token_requester_principal_name: str = string("3+")
    issue_timestamp_ms: int = int64()
    expiry_timestamp_ms: int = int64()
    max_timestamp_ms: int = int64()
    token_id: str = string()
    hmac: Buffer = bytes_()
    throttle_time_ms: int = int32()
