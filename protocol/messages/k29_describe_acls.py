"""List the ACLs that match a filter (KIP-140).

Versions 1-3; flexible from 2.

Changes by version:
* 3: resources of type USER.
"""

from __future__ import annotations

from ottla.protocol.schema import Message, array, int8, int16, int32, string, wire_struct


@wire_struct
class DescribeAclsRequest(Message, api_key=29, versions="1-3", flexible="2+"):
    resource_type_filter: int = int8()
    resource_name_filter: str | None = string(nullable="0+")
    pattern_type_filter: int = int8(default=3)
    principal_filter: str | None = string(nullable="0+")
    host_filter: str | None = string(nullable="0+")
    operation: int = int8()
    permission_type: int = int8()


@wire_struct
class AclDescription:
    principal: str = string()
    host: str = string()
    operation: int = int8()
    permission_type: int = int8()


@wire_struct
class DescribeAclsResource:
    resource_type: int = int8()
    resource_name: str = string()
    pattern_type: int = int8(default=3)
    acls: list[AclDescription] = array(AclDescription)


@wire_struct
class DescribeAclsResponse(Message, api_key=29, versions="1-3", flexible="2+"):
    throttle_time_ms: int = int32()
    error_code: int = int16()
    error_message: str | None = string(nullable="0+")
    resources: list[DescribeAclsResource] = array(DescribeAclsResource)
