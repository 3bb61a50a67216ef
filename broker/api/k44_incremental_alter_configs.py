"""IncrementalAlterConfigs (key 44), versions 0-1: sets, deletes, appends to or subtracts from individual settings of a topic, group, broker
or client metrics subscription, and changes the levels of loggers.

Promises: a resource without an error in the response has its new settings in force, for open logs, too, and keeps them across restarts.
Omitted settings are unchanged. Only lists can be appended to and subtracted from, starting from the value in force.
"""

from __future__ import annotations

from ottla.broker.api.config_changes import decide_changes, forward_changes
from ottla.broker.api.context import Context
from ottla.broker.api.declaration import Api
from ottla.broker.api.served_api import Forwarded, Split
from ottla.broker.api.services import ClusterServices, ControllerServices
from ottla.broker.configs.config_op import ConfigOp
from ottla.broker.controller.alter_configs import AlterResource
from ottla.protocol.messages.k44_incremental_alter_configs import (
    IncrementalAlterConfigsRequest,
    IncrementalAlterConfigsResponse,
)

API = Api(
    IncrementalAlterConfigsRequest,
    forwarded=Forwarded.IN_PART,
    splits=(Split("resources", "responses", ("resource_type resource_name",)),),
    array_limits={"resources.configs": 1_000},
)


@API.on_controller()
async def handle_on_controller(
    ctx: Context[ControllerServices], request: IncrementalAlterConfigsRequest
) -> IncrementalAlterConfigsResponse:
    """Change settings of the resources that the request names; respond when the changes are durable and in force."""
    return IncrementalAlterConfigsResponse(responses=await decide_changes(ctx, request, _changes(request)))


@API.on_broker()
async def handle(ctx: Context[ClusterServices], request: IncrementalAlterConfigsRequest) -> IncrementalAlterConfigsResponse:
    """Change the levels of this broker's loggers, and forward the other resources of the request to the controller. Return a result for
    each resource.
    """
    return IncrementalAlterConfigsResponse(responses=await forward_changes(ctx, request, _changes(request)))


def _changes(request: IncrementalAlterConfigsRequest) -> list[AlterResource]:
    return [
        AlterResource(
            resource.resource_type,
            resource.resource_name,
            [ConfigOp(config.name, config.config_operation, config.value) for config in resource.configs],
        )
        for resource in request.resources
    ]
