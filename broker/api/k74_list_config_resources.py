"""ListConfigResources (key 74), versions 0-1: the names of resources whose settings can be described: topics, registered brokers,
configured groups and client metrics subscriptions.

Promises: an empty list of types requests all; in version 0 it requests client metrics. An unknown type is UNSUPPORTED_VERSION, as in Kafka.
"""

from __future__ import annotations

from ottla.broker.api.context import Context
from ottla.broker.api.declaration import Api
from ottla.broker.api.services import ClusterServices
from ottla.broker.cluster.image import ResourceType
from ottla.broker.core.acl import Operation
from ottla.protocol.error_codes import ErrorCode
from ottla.protocol.messages.k74_list_config_resources import ConfigResource, ListConfigResourcesRequest, ListConfigResourcesResponse

API = Api(ListConfigResourcesRequest)

LISTED = (ResourceType.GROUP, ResourceType.CLIENT_METRICS, ResourceType.BROKER_LOGGER, ResourceType.BROKER, ResourceType.TOPIC)
"""The resource types that can be listed, in the order of Kafka's response."""


@API.on_broker(requires=Operation.DESCRIBE_CONFIGS)
def handle(ctx: Context[ClusterServices], request: ListConfigResourcesRequest) -> ListConfigResourcesResponse:
    """Return type and name of each resource of the requested types, or UNSUPPORTED_VERSION if one of the types cannot be listed."""
    wanted = set(request.resource_types) or ({ResourceType.CLIENT_METRICS} if ctx.version == 0 else set(LISTED))
    if not wanted.issubset(LISTED):
        return ListConfigResourcesResponse(error_code=ErrorCode.UNSUPPORTED_VERSION)
    found = [ConfigResource(name, kind) for kind in LISTED if kind in wanted for name in _names(ctx, kind)]
    return ListConfigResourcesResponse(config_resources=found)


def _names(ctx: Context[ClusterServices], kind: ResourceType) -> list[str]:
    match kind:
        case ResourceType.TOPIC:
            return [topic.name for topic in ctx.services.topics.topics()]
        case ResourceType.BROKER | ResourceType.BROKER_LOGGER:
            return [str(broker.node_id) for broker in ctx.services.cluster.brokers(ctx.peer.client_listener)]
        case _:
            return ctx.services.topics.configured_resources(kind)
