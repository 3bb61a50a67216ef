"""CreateAcls (key 30), versions 1-3: creates ACLs.

Promises:
* An ACL without an error in the response is durable, and applies to every request after the response. An existing ACL is not an error and
  not created again. An invalid ACL does not affect the others.
* Without an authorizer each ACL is SECURITY_DISABLED. A client that may not ALTER the cluster gets CLUSTER_AUTHORIZATION_FAILED.
* As in Kafka, an ACL with ANY in a field fails the whole request with UNKNOWN_SERVER_ERROR, and an ACL with UNKNOWN (0) closes the
  connection.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial

from ottla.broker.api.access import check_cluster
from ottla.broker.api.context import CloseConnection, Context
from ottla.broker.api.declaration import Api
from ottla.broker.api.k29_describe_acls import NO_AUTHORIZER
from ottla.broker.api.served_api import Forwarded
from ottla.broker.api.services import ControllerServices
from ottla.broker.api.topic_errors import error_fields
from ottla.broker.controller.acls import create_acls
from ottla.broker.core.acl import CLUSTER_NAME, Operation, Pattern, Permission, Resource
from ottla.broker.core.rejected import Rejected
from ottla.protocol.error_codes import ErrorCode
from ottla.protocol.messages.k30_create_acls import AclCreation, AclCreationResult, CreateAclsRequest, CreateAclsResponse

API = Api(CreateAclsRequest, forwarded=Forwarded.ALWAYS, array_limits={"creations": 10_000})


@API.on_controller()
async def handle(ctx: Context[ControllerServices], request: CreateAclsRequest) -> CreateAclsResponse:
    """Create the ACLs that the request lists. When they are durable, return a result for each. Raises CloseConnection if a field of an ACL
    is UNKNOWN (0); any other error is in the results."""
    acls = request.creations
    if any(0 in (acl.resource_type, acl.resource_pattern_type, acl.operation, acl.permission_type) for acl in acls):
        raise CloseConnection("an ACL has an unknown resource type, pattern type, operation or permission type")
    try:
        check_cluster(ctx, Operation.ALTER)
        if ctx.services.authorizer is None:
            raise Rejected(ErrorCode.SECURITY_DISABLED, NO_AUTHORIZER)
        if any(_is_a_filter(acl) for acl in acls):
            raise Rejected(ErrorCode.UNKNOWN_SERVER_ERROR)
        results = await _create(ctx, acls)
    except Rejected as error:
        results = [error.without_traceback()] * len(acls)
    return CreateAclsResponse(
        results=[AclCreationResult() if error is None else AclCreationResult(*error_fields(error)) for error in results]
    )


async def _create(ctx: Context[ControllerServices], acls: Sequence[AclCreation]) -> list[Rejected | None]:
    results = [_misnamed(acl) for acl in acls]
    valid = [acl for acl, error in zip(acls, results, strict=True) if error is None]
    created = await ctx.services.active.run(partial(create_acls, acls=valid))
    made = iter(created)
    return [next(made) if error is None else error for error in results]


def _misnamed(acl: AclCreation) -> Rejected | None:
    if acl.resource_type == Resource.CLUSTER and acl.resource_name != CLUSTER_NAME:
        return Rejected(ErrorCode.INVALID_REQUEST, f"The only valid name for the CLUSTER resource is {CLUSTER_NAME}")
    return None if acl.resource_name else Rejected(ErrorCode.INVALID_REQUEST, "Invalid empty resource name")


def _is_a_filter(acl: AclCreation) -> bool:
    return (
        acl.resource_type == Resource.ANY
        or acl.resource_pattern_type in (Pattern.ANY, Pattern.MATCH)
        or acl.operation == Operation.ANY
        or acl.permission_type == Permission.ANY
    )
