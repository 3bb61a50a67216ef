"""DescribeClientQuotas (key 48), versions 0-1: the quotas that match a filter (KIP-546).

Promise: the response has the quotas that every broker of the cluster applies, as far as this broker has read the cluster's metadata.

Source: KAFKA ClientQuotasImage.describe.
"""

from __future__ import annotations

from collections.abc import Awaitable, Sequence
from typing import Final

from ottla.broker.api.access import allowed_of_cluster
from ottla.broker.api.context import Context
from ottla.broker.api.declaration import Api
from ottla.broker.api.listing import respond_with_list
from ottla.broker.api.services import NodeServices
from ottla.broker.cluster.image import QuotaTarget
from ottla.broker.core.acl import Operation
from ottla.broker.core.rejected import Rejected
from ottla.protocol.error_codes import ErrorCode
from ottla.protocol.messages.k48_describe_client_quotas import (
    ComponentData,
    DescribeClientQuotasRequest,
    DescribeClientQuotasResponse,
    EntityData,
    EntryData,
    ValueData,
)

API = Api(DescribeClientQuotasRequest, array_limits={"components": 1_000})

EXACT, DEFAULT, SPECIFIED = 0, 1, 2
_TYPES: Final = frozenset({"user", "client-id", "ip"})


@API.on_broker()
def handle(
    ctx: Context[NodeServices], request: DescribeClientQuotasRequest
) -> DescribeClientQuotasResponse | Awaitable[DescribeClientQuotasResponse]:
    """Return the client quotas that match the request's filter. An entity (such as user and client id) matches if it has all components of
    the filter; with `strict`, it must have no other component."""
    if not allowed_of_cluster(ctx, Operation.DESCRIBE_CONFIGS):
        return DescribeClientQuotasResponse(error_code=ErrorCode.CLUSTER_AUTHORIZATION_FAILED, error_message=None, entries=None)
    try:
        filters = _filters(request.components)
    except Rejected as error:
        return DescribeClientQuotasResponse(error_code=error.code, error_message=error.message, entries=None)
    quotas = ctx.services.topics.image.client_quotas

    def describe(targets: Sequence[QuotaTarget]) -> list[EntryData]:
        return [
            EntryData(
                [EntityData(kind, name) for kind, name in sorted(target)],
                [ValueData(key, value) for key, value in sorted(quotas[target].items())],
            )
            for target in targets
            if _matches(target, filters, strict=request.strict)
        ]

    return respond_with_list(ctx, list(quotas), describe, lambda entries: DescribeClientQuotasResponse(entries=entries))


def _matches(target: QuotaTarget, filters: Sequence[ComponentData], *, strict: bool) -> bool:
    parts = dict(target)
    return (not strict or len(parts) == len(filters)) and all(
        part.entity_type in parts and (part.match_type == SPECIFIED or parts[part.entity_type] == part.match) for part in filters
    )


def _filters(components: Sequence[ComponentData]) -> Sequence[ComponentData]:
    """Check the components of the request's filter and return them. Raises Rejected if a component has an empty, repeated or unsupported
    entity type, or an invalid match."""
    seen: set[str] = set()
    for part in components:
        kind = part.entity_type
        if not kind:
            raise _invalid("Invalid empty entity type.")
        if kind in seen:
            raise _invalid(f"Entity type {kind} cannot appear more than once in the filter.")
        if kind not in _TYPES:
            raise Rejected(ErrorCode.UNSUPPORTED_VERSION, f"Unsupported entity type {kind}")
        if part.match_type == EXACT and part.match is None:
            raise _invalid("Request specified MATCH_TYPE_EXACT, but set match string to null.")
        if part.match_type in {DEFAULT, SPECIFIED} and part.match is not None:
            name = "MATCH_TYPE_DEFAULT" if part.match_type == DEFAULT else "MATCH_TYPE_SPECIFIED"
            raise _invalid(f"Request specified {name}, but also specified a match string.")
        if part.match_type not in {EXACT, DEFAULT, SPECIFIED}:
            raise _invalid(f"Unknown match type {part.match_type}")
        seen.add(kind)
    if "ip" in seen and len(seen) > 1:
        raise _invalid(
            "Invalid entity filter component combination. IP filter component should not be used with user or clientId filter component."
        )
    return components


def _invalid(message: str) -> Rejected:
    return Rejected(ErrorCode.INVALID_REQUEST, message)
