"""DescribeAcls (key 29), versions 1-3: the ACLs that match a filter, grouped by resource.

Promises: null and ANY match everything. The pattern type MATCH finds every ACL that applies to the name: the literal name, the literal
`*` and prefixes. Without an authorizer the response is SECURITY_DISABLED, even if the metadata has ACLs. A client that may not DESCRIBE
the cluster gets CLUSTER_AUTHORIZATION_FAILED. A filter with the value UNKNOWN (0) in a field closes the connection, because Kafka's classes
cannot parse it.
"""

from __future__ import annotations

from collections.abc import Awaitable, Sequence

from ottla.broker.api.access import allowed_of_cluster
from ottla.broker.api.context import CloseConnection, Context
from ottla.broker.api.declaration import Api
from ottla.broker.api.listing import respond_with_list
from ottla.broker.api.services import NodeServices
from ottla.broker.cluster.metadata_records import AccessControlEntryRecord
from ottla.broker.controller.acls import Filter, matches
from ottla.broker.core.acl import Operation
from ottla.protocol.error_codes import ErrorCode
from ottla.protocol.messages.k29_describe_acls import AclDescription, DescribeAclsRequest, DescribeAclsResource, DescribeAclsResponse

API = Api(DescribeAclsRequest)

NO_AUTHORIZER = "No Authorizer is configured."


@API.on_both()
def handle(ctx: Context[NodeServices], request: DescribeAclsRequest) -> DescribeAclsResponse | Awaitable[DescribeAclsResponse]:
    """Return the ACLs that match the request's filter. Without an authorizer, or without DESCRIBE on the cluster, return an error and no
    ACLs. Raises CloseConnection if a field of the filter is UNKNOWN (0)."""
    check_known(request)
    if not allowed_of_cluster(ctx, Operation.DESCRIBE):
        text = "Request DescribeAcls needs DESCRIBE permission."
        return DescribeAclsResponse(error_code=ErrorCode.CLUSTER_AUTHORIZATION_FAILED, error_message=text)
    if ctx.services.authorizer is None:
        return DescribeAclsResponse(error_code=ErrorCode.SECURITY_DISABLED, error_message="No Authorizer is configured on the broker")
    found: dict[tuple[int, str, int], DescribeAclsResource] = {}

    def describe(acls: Sequence[AccessControlEntryRecord]) -> list[DescribeAclsResource]:
        """Add the ACLs in `acls` that match the filter to the response entries of their resources. Return the entries that this call has
        created. (`acls` is a part of all ACLs; an earlier call may have created the entry of a resource.)"""
        new = []
        for acl in acls:
            if matches(request, acl):
                pattern = (acl.resource_type, acl.resource_name, acl.pattern_type)
                if pattern not in found:
                    found[pattern] = DescribeAclsResource(*pattern)
                    new.append(found[pattern])
                found[pattern].acls.append(AclDescription(acl.principal, acl.host, acl.operation, acl.permission_type))
        return new

    acls = list(ctx.services.topics.image.acls.values())
    return respond_with_list(ctx, acls, describe, lambda resources: DescribeAclsResponse(resources=resources))


def check_known(wanted: Filter) -> None:
    """Raise CloseConnection if a field of the ACL filter is UNKNOWN (0), because Kafka's classes cannot parse such a filter."""
    if 0 in (wanted.resource_type_filter, wanted.pattern_type_filter, wanted.operation, wanted.permission_type):
        raise CloseConnection("an ACL filter has an unknown resource type, pattern type, operation or permission type")
