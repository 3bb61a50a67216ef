"""AlterConfigs (key 33), versions 0-2: replaces all settings of a topic, group or broker; omitted settings return to their defaults.

Promises: a resource without an error in the response has its new settings in force, for open logs, too, and keeps them across restarts.
An error changes nothing of its resource and does not affect others. IncrementalAlterConfigs changes individual settings.
"""

from __future__ import annotations

from ottla.broker.api.config_changes import change_configs
from ottla.broker.api.context import Context
from ottla.broker.api.declaration import Api
from ottla.broker.api.served_api import Forwarded, Split
from ottla.broker.api.services import DecidingServices
from ottla.broker.api.topic_answers import error_fields
from ottla.broker.configs.config_op import ConfigOp, OpType
from ottla.broker.controller.alter_configs import AlterResource
from ottla.protocol.messages.k33_alter_configs import AlterConfigsRequest, AlterConfigsResourceResponse, AlterConfigsResponse

API = Api(
    AlterConfigsRequest,
    forwarded=Forwarded.IN_PART,
    splits=(Split("resources", "responses", ("resource_type resource_name",)),),
    array_limits={"resources.configs": 1_000},
)


@API.on_both()
async def handle(ctx: Context[DecidingServices], request: AlterConfigsRequest) -> AlterConfigsResponse:
    """Replace the settings; respond when the changes are durable and in force."""
    changes = [
        AlterResource(
            resource.resource_type,
            resource.resource_name,
            [ConfigOp(config.name, OpType.SET, config.value) for config in resource.configs],
            replace=True,
        )
        for resource in request.resources
    ]
    errors = await change_configs(ctx, request, changes)
    return AlterConfigsResponse(
        responses=[
            AlterConfigsResourceResponse(*error_fields(error), change.resource_type, change.name)
            for change, error in zip(changes, errors, strict=True)
        ]
    )
