"""DescribeAcls (key 29), versions 1-3: the ACLs that a filter means, those of one resource together.

Promises: null and ANY mean everything; a pattern type of MATCH finds all that is about the name: its own literal, the literal `*` and the
prefixes of it. Without an authorizer SECURITY_DISABLED, also where the metadata holds ACLs. Who may not DESCRIBE the cluster is
CLUSTER_AUTHORIZATION_FAILED. A filter of an unknown kind (0) closes the connection, as a request that cannot be read does in Kafka.
"""

from __future__ import annotations

from ottla.broker.api.access import allowed_of_cluster
from ottla.broker.api.context import CloseConnection, Context
from ottla.broker.controller.acls import Filter, matches
from ottla.broker.core.acl import Operation
from ottla.protocol.error_codes import ErrorCode
from ottla.protocol.messages.k29_describe_acls import AclDescription, DescribeAclsRequest, DescribeAclsResource, DescribeAclsResponse

NO_AUTHORIZER = "No Authorizer is configured."


def handle(ctx: Context, request: DescribeAclsRequest) -> DescribeAclsResponse:
    """All of it is in memory."""
    check_known(request)
    if not allowed_of_cluster(ctx, Operation.DESCRIBE):
        text = "Request DescribeAcls needs DESCRIBE permission."
        return DescribeAclsResponse(error_code=ErrorCode.CLUSTER_AUTHORIZATION_FAILED, error_message=text)
    if ctx.services.authorizer is None:
        return DescribeAclsResponse(error_code=ErrorCode.SECURITY_DISABLED, error_message="No Authorizer is configured on the broker")
    found: dict[tuple[int, str, int], DescribeAclsResource] = {}
    for acl in ctx.services.topics.image.acls.values():
        if matches(request, acl):
            pattern = (acl.resource_type, acl.resource_name, acl.pattern_type)
            resource = found.setdefault(pattern, DescribeAclsResource(*pattern))
            resource.acls.append(AclDescription(acl.principal, acl.host, acl.operation, acl.permission_type))
    return DescribeAclsResponse(resources=list(found.values()))


def check_known(wanted: Filter) -> None:
    """Raises CloseConnection for what Kafka cannot read."""
    if 0 in (wanted.resource_type_filter, wanted.pattern_type_filter, wanted.operation, wanted.permission_type):
        raise CloseConnection("a filter of ACLs has a part of unknown kind")
