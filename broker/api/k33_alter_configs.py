"""AlterConfigs (key 33), versions 0-2: replaces all settings of a topic, group or broker; omitted settings return to their defaults.

Promises: a resource without an error in the response has its new settings in force, for open logs, too, and keeps them across restarts.
An error changes nothing of its resource and does not affect others. IncrementalAlterConfigs changes individual settings.
"""

from __future__ import annotations

from ottla.broker.api.config_changes import decide_changes, forward_changes
from ottla.broker.api.context import Context
from ottla.broker.api.declaration import Api
from ottla.broker.api.served_api import Forwarded, Split
from ottla.broker.api.services import ClusterServices, ControllerServices
from ottla.broker.configs.config_op import ConfigOp, OpType
from ottla.broker.controller.alter_configs import AlterResource
from ottla.protocol.messages.k33_alter_configs import AlterConfigsRequest, AlterConfigsResponse

API = Api(
    AlterConfigsRequest,
    forwarded=Forwarded.IN_PART,
    splits=(Split("resources", "responses", ("resource_type resource_name",)),),
    array_limits={"resources.configs": 1_000},
)


@API.on_controller()
async def handle_on_controller(ctx: Context[ControllerServices], request: AlterConfigsRequest) -> AlterConfigsResponse:
    """Replace the settings of the resources that the request names; respond when the changes are durable and in force."""
    return AlterConfigsResponse(responses=await decide_changes(ctx, request, _changes(request)))


@API.on_broker()
async def handle(ctx: Context[ClusterServices], request: AlterConfigsRequest) -> AlterConfigsResponse:
    """Change the levels of this broker's loggers, and forward the other resources of the request to the controller. Return a result for
    each resource.
    """
    return AlterConfigsResponse(responses=await forward_changes(ctx, request, _changes(request)))


def _changes(request: AlterConfigsRequest) -> list[AlterResource]:
    return [
        AlterResource(
            resource.resource_type,
            resource.resource_name,
            [ConfigOp(config.name, OpType.SET, config.value) for config in resource.configs],
            replace=True,
        )
        for resource in request.resources
    ]
