"""AlterClientQuotas (key 49), versions 0-1: changes the quotas of users, client ids and IP addresses (KIP-546).

Promises: a quota without an error in the response is durable and in force. An error of one entity does not affect others. validate_only
checks everything and changes nothing.
"""

from __future__ import annotations

from ottla.broker.api.access import check_cluster
from ottla.broker.api.context import Context
from ottla.broker.api.declaration import Api
from ottla.broker.api.served_api import Forwarded, Split
from ottla.broker.api.services import ControllerServices
from ottla.broker.api.topic_errors import error_fields
from ottla.broker.controller.client_quotas import alter_client_quotas
from ottla.broker.core.acl import Operation
from ottla.broker.core.rejected import Rejected
from ottla.protocol.messages.k49_alter_client_quotas import AlterClientQuotasRequest, AlterClientQuotasResponse, EntityData, EntryResult

API = Api(
    AlterClientQuotasRequest,
    forwarded=Forwarded.ALWAYS,
    splits=(Split("entries", "entries"),),
    array_limits={"entries.entity": 100, "entries.ops": 1_000},
)


@API.on_controller()
async def handle(ctx: Context[ControllerServices], request: AlterClientQuotasRequest) -> AlterClientQuotasResponse:
    """Change the client quotas of the entities that the request names. When the changes are durable, return one result for each entity."""
    try:
        check_cluster(ctx, Operation.ALTER_CONFIGS)
        results = await ctx.services.active.run(
            lambda state: alter_client_quotas(state.image, request.entries), validate_only=request.validate_only
        )
    except Rejected as error:
        named = [[EntityData(part.entity_type, part.entity_name) for part in entry.entity] for entry in request.entries]
        return AlterClientQuotasResponse(entries=[EntryResult(*error_fields(error), entity) for entity in named])
    return AlterClientQuotasResponse(
        entries=[
            EntryResult(*error_fields(error), [EntityData(kind, name) for kind, name in sorted(target)])
            for target, error in results.items()
        ]
    )
