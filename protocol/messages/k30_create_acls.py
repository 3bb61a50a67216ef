"""Create ACLs (KIP-140).

Versions 1-3; flexible from 2.

Changes by version:
* 3: resources of type USER.
"""

from __future__ import annotations

from ottla.protocol.schema import Message, array, int8, int16, int32, string, wire_struct


@wire_struct
class AclCreation:
    resource_type: int = int8()
    resource_name: str = string()
    resource_pattern_type: int = int8(default=3)
    principal: str = string()
    host: str = string()
    operation: int = int8()
    permission_type: int = int8()


@wire_struct
class CreateAclsRequest(Message, api_key=30, versions="1-3", flexible="2+"):
    creations: list[AclCreation] = array(AclCreation)


@wire_struct
class AclCreationResult:
    error_code: int = int16()
    error_message: str | None = string(nullable="0+")


@wire_struct
class CreateAclsResponse(Message, api_key=30, versions="1-3", flexible="2+"):
    throttle_time_ms: int = int32()
    results: list[AclCreationResult] = array(AclCreationResult)
