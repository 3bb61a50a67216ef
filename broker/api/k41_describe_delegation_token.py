"""DescribeDelegationToken (key 41), versions 1-3: the delegation tokens of some owners, or of all (KIP-48).

Promises: a client sees the tokens that it owns, requested or may renew. To see another token, the client needs DESCRIBE on the token or
DESCRIBE_TOKENS on the token's owner; otherwise the token is omitted. A client that authenticated with a token sees none.
Source: KAFKA KafkaApis.handleDescribeTokensRequest, DelegationTokenManager.filterToken.
"""

from __future__ import annotations

from collections.abc import Awaitable, Sequence, Set

from ottla.broker.api.access import allowed
from ottla.broker.api.context import Context
from ottla.broker.api.declaration import Api
from ottla.broker.api.listing import respond_with_list
from ottla.broker.api.services import NodeServices
from ottla.broker.api.token_rules import check_token_requests_allowed
from ottla.broker.cluster.metadata_records import DelegationTokenRecord
from ottla.broker.core.acl import Operation, Resource
from ottla.broker.core.principal import Principal
from ottla.broker.core.rejected import Rejected
from ottla.broker.security.tokens import token_hmac
from ottla.protocol.error_codes import ErrorCode
from ottla.protocol.messages.k41_describe_delegation_token import (
    DescribedDelegationToken,
    DescribedDelegationTokenRenewer,
    DescribeDelegationTokenRequest,
    DescribeDelegationTokenResponse,
)

API = Api(DescribeDelegationTokenRequest, array_limits={"owners": 10_000})


@API.on_broker()
def handle(
    ctx: Context[NodeServices], request: DescribeDelegationTokenRequest
) -> DescribeDelegationTokenResponse | Awaitable[DescribeDelegationTokenResponse]:
    """Return the delegation tokens of the owners that the request names, or of all owners, as far as the client may see them. Return an
    error if the client is not authenticated, authenticated with a token, or tokens are disabled."""
    try:
        check_token_requests_allowed(ctx.peer)
    except Rejected as error:
        return DescribeDelegationTokenResponse(error.code)
    secret = ctx.services.settings.delegation_token_secret_key
    if not secret:
        return DescribeDelegationTokenResponse(ErrorCode.DELEGATION_TOKEN_AUTH_DISABLED)
    owners = None if request.owners is None else {f"{owner.principal_type}:{owner.principal_name}" for owner in request.owners}

    def describe(tokens: Sequence[DelegationTokenRecord]) -> list[DescribedDelegationToken]:
        return [_described(ctx, token, secret) for token in tokens if _is_shown(ctx, token, owners)]

    tokens = list(ctx.services.topics.image.delegation_tokens.values())
    return respond_with_list(ctx, tokens, describe, lambda described: DescribeDelegationTokenResponse(tokens=described))


def _is_shown(ctx: Context[NodeServices], token: DelegationTokenRecord, owners: Set[str] | None) -> bool:
    whose = {token.owner, token.requester, *token.renewers}
    if owners is not None and whose.isdisjoint(owners):
        return False
    return (
        str(ctx.peer.principal) in whose
        or allowed(ctx, Operation.DESCRIBE, Resource.DELEGATION_TOKEN, token.token_id)
        or allowed(ctx, Operation.DESCRIBE_TOKENS, Resource.USER, token.owner)
    )


def _described(ctx: Context[NodeServices], token: DelegationTokenRecord, secret: str) -> DescribedDelegationToken:
    owner, requester = Principal.parse(token.owner), Principal.parse(token.requester)
    described = DescribedDelegationToken(
        *owner,
        issue_timestamp=token.issue_timestamp,
        expiry_timestamp=token.expiration_timestamp,
        max_timestamp=token.max_timestamp,
        token_id=token.token_id,
        hmac=token_hmac(secret, token.token_id),
        renewers=[DescribedDelegationTokenRenewer(*Principal.parse(renewer)) for renewer in token.renewers],
    )
    if ctx.version >= 3:
        described.token_requester_principal_type, described.token_requester_principal_name = requester
    return described
