"""AlterConfigs (key 33), versions 0-2: replaces all settings of a topic, group or broker; omitted settings return to their defaults.

Promises: a resource without an error in the response has its new settings in force, for open logs, too, and keeps them across restarts.
An error changes nothing of its resource and does not affect others. IncrementalAlterConfigs changes individual settings.
"""

from __future__ import annotations

from collections.abc import Sequence

from ottla.broker.api.config_changes import decide_changes, forward_changes
from ottla.broker.api.context import Context
from ottla.broker.api.declaration import Api
from ottla.broker.api.served_api import Forwarded, Split
from ottla.broker.api.services import ClusterServices, DecidingServices
from ottla.broker.api.topic_answers import error_fields
from ottla.broker.configs.config_op import ConfigOp, OpType
from ottla.broker.controller.alter_configs import AlterResource
from ottla.broker.core.rejected import Rejected
from ottla.protocol.messages.k33_alter_configs import AlterConfigsRequest, AlterConfigsResourceResponse, AlterConfigsResponse

API = Api(
    AlterConfigsRequest,
    forwarded=Forwarded.IN_PART,
    splits=(Split("resources", "responses", ("resource_type resource_name",)),),
    array_limits={"resources.configs": 1_000},
)


@API.on_controller()
async def handle_on_controller(ctx: Context[DecidingServices], request: AlterConfigsRequest) -> AlterConfigsResponse:
    """Replace the settings; respond when the changes are durable and in force."""
    changes = _changes(request)
    return _response(changes, await decide_changes(ctx, request, changes))


@API.on_broker()
async def handle(ctx: Context[ClusterServices], request: AlterConfigsRequest) -> AlterConfigsResponse:
    """Change the levels of this broker's loggers and forward the rest."""
    changes = _changes(request)
    return _response(changes, await forward_changes(ctx, request, changes))


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


def _response(changes: Sequence[AlterResource], errors: Sequence[Rejected | None]) -> AlterConfigsResponse:
    return AlterConfigsResponse(
        responses=[
            AlterConfigsResourceResponse(*error_fields(error), change.resource_type, change.name)
            for change, error in zip(changes, errors, strict=True)
        ]
    )
