"""StreamsGroupTopologyDescriptionUpdate (key 93), version 0: stores the description of a streams group's topology (KIP-1331). Only a broker
that imitates Kafka 4.4 serves it.

Promise: the response is that of a Kafka broker without `group.streams.topology.description.plugin.class`, because no Java class can be
loaded here. It is UNSUPPORTED_VERSION, after the feature and the client's authorization were checked. No heartbeat asks a client for a
description.
"""

from __future__ import annotations

from ottla.broker.api.access import allowed
from ottla.broker.api.context import Context
from ottla.broker.api.declaration import Api
from ottla.broker.api.services import CoordinationServices
from ottla.broker.api.streams_groups import enabled
from ottla.broker.core.acl import Operation, Resource
from ottla.protocol.error_codes import ErrorCode
from ottla.protocol.messages.k93_streams_group_topology_description_update import (
    StreamsGroupTopologyDescriptionUpdateRequest,
    StreamsGroupTopologyDescriptionUpdateResponse,
)

_NODES = tuple(f"topology_description.{path}" for path in ("subtopologies.nodes", "global_stores.source", "global_stores.processor"))
API = Api(
    StreamsGroupTopologyDescriptionUpdateRequest,
    array_limits={"topology_description.subtopologies": 1_000, "topology_description.global_stores": 1_000}
    | {"topology_description.subtopologies.nodes": 10_000}
    | {f"{node}.{names}": 10_000 for node in _NODES for names in ("source_topics", "stores", "successors")},
)


@API.on_broker()
def handle(
    ctx: Context[CoordinationServices], request: StreamsGroupTopologyDescriptionUpdateRequest
) -> StreamsGroupTopologyDescriptionUpdateResponse:
    """Reject the request: GROUP_AUTHORIZATION_FAILED without READ on the group, otherwise UNSUPPORTED_VERSION with the reason."""
    if not enabled(ctx):
        return StreamsGroupTopologyDescriptionUpdateResponse(error_code=ErrorCode.UNSUPPORTED_VERSION)
    if not allowed(ctx, Operation.READ, Resource.GROUP, request.group_id):
        return StreamsGroupTopologyDescriptionUpdateResponse(error_code=ErrorCode.GROUP_AUTHORIZATION_FAILED)
    return StreamsGroupTopologyDescriptionUpdateResponse(
        error_code=ErrorCode.UNSUPPORTED_VERSION,
        error_message="The broker has no streams group topology description plugin configured.",
    )
