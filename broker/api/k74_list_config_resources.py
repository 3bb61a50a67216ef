"""ListConfigResources (key 74), versions 0-1: the names under which settings can be described: topics, the registered brokers, configured
groups.

Promises: no types means all of them; in version 0 it means client metrics, of which there are none here. A type that has no settings is
UNSUPPORTED_VERSION, as in Kafka.
"""

from __future__ import annotations

from ottla.broker.api.access import allowed_of_cluster, refused
from ottla.broker.api.context import Context
from ottla.broker.cluster.image import ResourceType
from ottla.broker.core.acl import Operation
from ottla.protocol.error_codes import ErrorCode
from ottla.protocol.messages.k74_list_config_resources import ConfigResource, ListConfigResourcesRequest, ListConfigResourcesResponse

LISTED = (ResourceType.GROUP, ResourceType.CLIENT_METRICS, ResourceType.BROKER_LOGGER, ResourceType.BROKER, ResourceType.TOPIC)
"""In the order of Kafka's answer."""


def handle(ctx: Context, request: ListConfigResourcesRequest) -> ListConfigResourcesResponse:
    """All of it is in memory."""
    if not allowed_of_cluster(ctx, Operation.DESCRIBE_CONFIGS):
        refusal: ListConfigResourcesResponse = refused(request)
        return refusal
    wanted = set(request.resource_types) or ({ResourceType.CLIENT_METRICS} if ctx.version == 0 else set(LISTED))
    if not wanted.issubset(LISTED):
        return ListConfigResourcesResponse(error_code=ErrorCode.UNSUPPORTED_VERSION)
    found = [ConfigResource(name, kind) for kind in LISTED if kind in wanted for name in _names(ctx, kind)]
    return ListConfigResourcesResponse(config_resources=found)


def _names(ctx: Context, kind: ResourceType) -> list[str]:
    match kind:
        case ResourceType.TOPIC:
            return [topic.name for topic in ctx.services.topics.topics()]
        case ResourceType.BROKER | ResourceType.BROKER_LOGGER:
            return [str(broker.node_id) for broker in ctx.services.cluster.brokers(ctx.peer.dialled)]
        case _:
            return ctx.services.topics.configured_resources(kind)
