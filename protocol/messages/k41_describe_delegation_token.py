"""List delegation tokens (KIP-48).

Versions 1-3; flexible from 2.

Changes by version:
* 3: the requester of each token (KIP-373).
"""

from __future__ import annotations

from ottla.protocol.schema import Buffer, Message, array, bytes_, int16, int32, int64, string, wire_struct


@wire_struct
class DescribeDelegationTokenOwner:
    principal_type: str = string()
    principal_name: str = string()


@wire_struct
class DescribeDelegationTokenRequest(Message, api_key=41, versions="1-3", flexible="2+"):
    owners: list[DescribeDelegationTokenOwner] | None = array(DescribeDelegationTokenOwner, nullable="0+")


@wire_struct
class DescribedDelegationTokenRenewer:
    principal_type: str = string()
    principal_name: str = string()


@wire_struct
class DescribedDelegationToken:
    principal_type: str = string()
    principal_name: str = string()
    token_requester_principal_type: str = string("3+")
    token_requester_principal_name: str = string("3+")
    issue_timestamp: int = int64()
    expiry_timestamp: int = int64()
    max_timestamp: int = int64()
    token_id: str = string()
    hmac: Buffer = bytes_()
    renewers: list[DescribedDelegationTokenRenewer] = array(DescribedDelegationTokenRenewer)


@wire_struct
class DescribeDelegationTokenResponse(Message, api_key=41, versions="1-3", flexible="2+"):
    error_code: int = int16()
    tokens: list[DescribedDelegationToken] = array(DescribedDelegationToken)
    throttle_time_ms: int = int32()
