"""Set or remove users' SCRAM credentials (KIP-554). The request has the salted password, never the password itself.

Version 0, flexible.
"""

from __future__ import annotations

from ottla.protocol.schema import Buffer, Message, array, bytes_, int8, int16, int32, string, wire_struct


@wire_struct
class ScramCredentialDeletion:
    name: str = string()
    mechanism: int = int8()


@wire_struct
class ScramCredentialUpsertion:
    name: str = string()
    mechanism: int = int8()
    iterations: int = int32()
    salt: Buffer = bytes_()
    salted_password: Buffer = bytes_()


@wire_struct
class AlterUserScramCredentialsRequest(Message, api_key=51, versions="0", flexible="0+"):
    deletions: list[ScramCredentialDeletion] = array(ScramCredentialDeletion)
    upsertions: list[ScramCredentialUpsertion] = array(ScramCredentialUpsertion)


@wire_struct
class AlterUserScramCredentialsResult:
    user: str = string()
    error_code: int = int16()
    error_message: str | None = string(nullable="0+")


@wire_struct
class AlterUserScramCredentialsResponse(Message, api_key=51, versions="0", flexible="0+"):
    throttle_time_ms: int = int32()
    results: list[AlterUserScramCredentialsResult] = array(AlterUserScramCredentialsResult)
