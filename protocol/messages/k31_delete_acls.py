"""Delete the ACLs that match any of the filters (KIP-140). Null in a filter matches every name, principal or host.

Versions 1-3; flexible from 2.

Changes by version:
* 3: resources of type USER.
"""

from __future__ import annotations

from ottla.protocol.schema import Message, array, int8, int16, int32, string, wire_struct


@wire_struct
class DeleteAclsFilter:
    resource_type_filter: int = int8()
    resource_name_filter: str | None = string(nullable="0+")
    pattern_type_filter: int = int8(default=3)
    principal_filter: str | None = string(nullable="0+")
    host_filter: str | None = string(nullable="0+")
    operation: int = int8()
    permission_type: int = int8()


@wire_struct
class DeleteAclsRequest(Message, api_key=31, versions="1-3", flexible="2+"):
    filters: list[DeleteAclsFilter] = array(DeleteAclsFilter)


@wire_struct
class DeleteAclsMatchingAcl:
    error_code: int = int16()
    error_message: str | None = string(nullable="0+")
    resource_type: int = int8()
    resource_name: str = string()
    pattern_type: int = int8(default=3)
    principal: str = string()
    host: str = string()
    operation: int = int8()
    permission_type: int = int8()


@wire_struct
class DeleteAclsFilterResult:
    error_code: int = int16()
    error_message: str | None = string(nullable="0+")
    matching_acls: list[DeleteAclsMatchingAcl] = array(DeleteAclsMatchingAcl)


@wire_struct
class DeleteAclsResponse(Message, api_key=31, versions="1-3", flexible="2+"):
    throttle_time_ms: int = int32()
    filter_results: list[DeleteAclsFilterResult] = array(DeleteAclsFilterResult)
