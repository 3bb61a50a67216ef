"""Exchange SASL tokens.

Versions 0-2; flexible from 2.

Changes by version:
* 1: `session_lifetime_ms` (KIP-368).
"""

from __future__ import annotations

from ottla.protocol.schema import Buffer, Message, bytes_, int16, int64, string, wire_struct


@wire_struct
class SaslAuthenticateRequest(Message, api_key=36, versions="0-2", flexible="2+"):
    auth_bytes: Buffer = bytes_()


@wire_struct
class SaslAuthenticateResponse(Message, api_key=36, versions="0-2", flexible="2+"):
    error_code: int = int16()
    error_message: str | None = string(nullable="0+")
    auth_bytes: Buffer = bytes_()
    session_lifetime_ms: int = int64("1+")
