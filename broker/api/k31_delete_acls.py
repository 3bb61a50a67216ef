"""DeleteAcls (key 31), versions 1-3: deletes the ACLs that match filters.

Promises: the ACLs in the response are deleted durably and apply to no later request. An ACL that matches two filters is returned for
both. A request that matches more than 10,000 ACLs deletes none. Filters are those of DescribeAcls. Without an authorizer each filter is
SECURITY_DISABLED; a client that may not ALTER the cluster gets CLUSTER_AUTHORIZATION_FAILED.
"""

from __future__ import annotations

from ottla.broker.api.access import check_cluster
from ottla.broker.api.context import Context
from ottla.broker.api.declaration import Api
from ottla.broker.api.k29_describe_acls import NO_AUTHORIZER, check_known
from ottla.broker.api.served_api import Forwarded
from ottla.broker.api.services import ControllerServices
from ottla.broker.api.topic_errors import error_fields
from ottla.broker.controller.acls import AclDeleteResult, delete_acls
from ottla.broker.core.acl import Operation
from ottla.broker.core.rejected import Rejected
from ottla.protocol.error_codes import ErrorCode
from ottla.protocol.messages.k31_delete_acls import DeleteAclsFilterResult, DeleteAclsMatchingAcl, DeleteAclsRequest, DeleteAclsResponse

API = Api(DeleteAclsRequest, forwarded=Forwarded.ALWAYS, array_limits={"filters": 10_000})


@API.on_controller()
async def handle(ctx: Context[ControllerServices], request: DeleteAclsRequest) -> DeleteAclsResponse:
    """Delete the ACLs that match the request's filters. When the deletions are durable, return a result for each filter. Raises
    CloseConnection if a field of a filter is UNKNOWN (0); any other error is in the results."""
    for wanted in request.filters:
        check_known(wanted)
    try:
        check_cluster(ctx, Operation.ALTER)
        if ctx.services.authorizer is None:
            raise Rejected(ErrorCode.SECURITY_DISABLED, NO_AUTHORIZER)
        deleted = await ctx.services.active.run(lambda state: delete_acls(state.image, request.filters))
    except Rejected as error:
        deleted = [AclDeleteResult([], error.without_traceback())] * len(request.filters)
    return DeleteAclsResponse(filter_results=[_result(each) for each in deleted])


def _result(deleted: AclDeleteResult) -> DeleteAclsFilterResult:
    matching = [
        DeleteAclsMatchingAcl(
            0, None, acl.resource_type, acl.resource_name, acl.pattern_type, acl.principal, acl.host, acl.operation, acl.permission_type
        )
        for acl in deleted.found
    ]
    return DeleteAclsFilterResult(*error_fields(deleted.error), matching)
