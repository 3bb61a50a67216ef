"""A broker with an authorizer, and its users: bob is a super user, ann may do only what ACLs allow."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from ottla.broker.core.acl import CLUSTER_NAME, STANDARD_AUTHORIZER, Operation, Pattern, Permission, Resource
from ottla.protocol.client import Client
from ottla.protocol.messages.k30_create_acls import AclCreation, AclCreationResult, CreateAclsRequest
from ottla.protocol.messages.k31_delete_acls import DeleteAclsFilter, DeleteAclsRequest, DeleteAclsResponse
from tests.support.logins import log_in, plain, secured
from tests.support.running_broker import RunningBroker

GUARDED = {**secured(), "authorizer.class.name": STANDARD_AUTHORIZER, "super.users": "User:bob"}
ANYTHING = DeleteAclsFilter(Resource.ANY, None, Pattern.ANY, None, None, Operation.ANY, Permission.ANY)


@contextmanager
def ann(broker: RunningBroker) -> Iterator[Client]:
    """Open a connection that is authenticated as ann."""
    with broker.client() as client:
        assert log_in(client).error_code == 0
        yield client


@contextmanager
def bob(broker: RunningBroker) -> Iterator[Client]:
    """Open a connection that is authenticated as bob."""
    with broker.client() as client:
        assert log_in(client, plain("bob", 'b;"b')).error_code == 0
        yield client


def acl(
    resource: Resource,
    name: str,
    operation: Operation,
    permission: Permission = Permission.ALLOW,
    *,
    principal: str = "User:ann",
    pattern: Pattern = Pattern.LITERAL,
    host: str = "*",
) -> AclCreation:
    return AclCreation(resource, name, pattern, principal, host, operation, permission)


def of_cluster(operation: Operation, permission: Permission = Permission.ALLOW) -> AclCreation:
    return acl(Resource.CLUSTER, CLUSTER_NAME, operation, permission)


def create_acls(client: Client, *acls: AclCreation, version: int = 3) -> list[AclCreationResult]:
    results: list[AclCreationResult] = client.call(CreateAclsRequest(list(acls)), version).results
    return results


def allow(client: Client, *acls: AclCreation) -> None:
    """Create the ACLs, and assert that each was created."""
    assert all(result.error_code == 0 for result in create_acls(client, *acls))


def delete_all_acls(client: Client, version: int = 3) -> DeleteAclsResponse:
    response: DeleteAclsResponse = client.call(DeleteAclsRequest([ANYTHING]), version)
    return response
