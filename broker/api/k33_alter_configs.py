"""AlterConfigs (key 33), versions 0-2: replaces all settings of a topic, group or broker; what is not named goes back to its default.

Promises: a resource that is answered without an error runs with its new settings, in open logs too, and keeps them across a restart; one
resource's error changes nothing of that resource and leaves the others alone. See `k44_incremental_alter_configs` for single changes.
"""

from __future__ import annotations

from ottla.broker.api.config_changes import change_configs
from ottla.broker.api.context import Context
from ottla.broker.api.topic_answers import error_fields
from ottla.broker.configs.config_op import ConfigOp, OpType
from ottla.broker.controller.alter_configs import AlterResource
from ottla.protocol.messages.k33_alter_configs import AlterConfigsRequest, AlterConfigsResourceResponse, AlterConfigsResponse


async def handle(ctx: Context, request: AlterConfigsRequest) -> AlterConfigsResponse:
    """Answers when the changes are durable and in force."""
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
