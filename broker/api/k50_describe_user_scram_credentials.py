"""DescribeUserScramCredentials (key 50), version 0: the users with SCRAM credentials, and their mechanisms (KIP-554).

Promises: an empty list of users requests all. Only the mechanism and the iterations of a credential are returned, nothing that helps to
guess the password.
Source: KAFKA ScramImage.describe.
"""

from __future__ import annotations

from collections import Counter

from ottla.broker.api.access import allowed_of_cluster
from ottla.broker.api.context import Context
from ottla.broker.api.declaration import Api
from ottla.broker.api.served_api import Split
from ottla.broker.api.services import NodeServices
from ottla.broker.core.acl import Operation
from ottla.protocol.error_codes import ErrorCode
from ottla.protocol.messages.k50_describe_user_scram_credentials import (
    CredentialInfo,
    DescribeUserScramCredentialsRequest,
    DescribeUserScramCredentialsResponse,
    DescribeUserScramCredentialsResult,
)

API = Api(DescribeUserScramCredentialsRequest, splits=(Split("users", "results", ("name",)),))


@API.on_broker()
def handle(ctx: Context[NodeServices], request: DescribeUserScramCredentialsRequest) -> DescribeUserScramCredentialsResponse:
    """Return the SCRAM mechanisms and iterations of the users that the request names, or of all users. Without DESCRIBE on the cluster,
    return CLUSTER_AUTHORIZATION_FAILED."""
    if not allowed_of_cluster(ctx, Operation.DESCRIBE):
        code = ErrorCode.CLUSTER_AUTHORIZATION_FAILED
        return DescribeUserScramCredentialsResponse(
            error_code=code, error_message=None, results=[DescribeUserScramCredentialsResult("", code, None) for _ in request.users or ()]
        )
    known: dict[str, list[CredentialInfo]] = {}
    for (mechanism, name), credential in sorted(ctx.services.topics.image.scram.items()):
        known.setdefault(name, []).append(CredentialInfo(mechanism, credential.iterations))
    wanted = Counter(user.name for user in request.users) if request.users else Counter(list(known))
    return DescribeUserScramCredentialsResponse(results=[_result(name, count, known.get(name)) for name, count in wanted.items()])


def _result(name: str, count: int, found: list[CredentialInfo] | None) -> DescribeUserScramCredentialsResult:
    if count > 1:
        text = f"Cannot describe SCRAM credentials for the same user twice in a single request: {name}"
        return DescribeUserScramCredentialsResult(name, ErrorCode.DUPLICATE_RESOURCE, text)
    if found is None:
        text = f"Attempt to describe a user credential that does not exist: {name}"
        return DescribeUserScramCredentialsResult(name, ErrorCode.RESOURCE_NOT_FOUND, text)
    return DescribeUserScramCredentialsResult(name, credential_infos=found)
