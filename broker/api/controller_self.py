"""The controller's handlers for ApiVersions (key 18) and DescribeCluster (60)."""

from __future__ import annotations

from collections.abc import Mapping

from ottla.broker.api.access import operations_of_cluster
from ottla.broker.api.controller_context import ControllerContext
from ottla.broker.api.dispatch import Served
from ottla.broker.api.k18_api_versions import answer
from ottla.protocol.error_codes import ErrorCode
from ottla.protocol.messages.k18_api_versions import ApiVersion, ApiVersionsRequest, ApiVersionsResponse
from ottla.protocol.messages.k60_describe_cluster import DescribeClusterBroker, DescribeClusterRequest, DescribeClusterResponse

BROKERS = 1
CONTROLLERS = 2


def api_versions(ctx: ControllerContext, request: ApiVersionsRequest, routes: Mapping[int, Served]) -> ApiVersionsResponse:
    """Return the controller's routes and the features of the cluster."""
    listed = [ApiVersion(key, route.min_version, route.max_version) for key, route in sorted(routes.items())]
    return answer(request, ctx.version, ctx.peer, ctx.services.features(), listed)


def describe_cluster(ctx: ControllerContext, request: DescribeClusterRequest) -> DescribeClusterResponse:
    """Return the controllers, which is this one only. A controller listener does not return brokers (KIP-919)."""
    if request.endpoint_type != CONTROLLERS:
        if request.endpoint_type == BROKERS:
            wrong = "The request was sent to an endpoint of type CONTROLLER, but we wanted an endpoint of type BROKER"
            return DescribeClusterResponse(error_code=ErrorCode.MISMATCHED_ENDPOINT_TYPE, error_message=wrong)
        unsupported = f"Unsupported endpoint type {request.endpoint_type}"
        return DescribeClusterResponse(error_code=ErrorCode.UNSUPPORTED_ENDPOINT_TYPE, error_message=unsupported)
    me = ctx.services.voter.me
    at = next((endpoint for endpoint in me.endpoints if endpoint.name == ctx.peer.listener.name), me.endpoints[0])
    response = DescribeClusterResponse(
        endpoint_type=CONTROLLERS,
        cluster_id=me.cluster_id,
        controller_id=me.node_id,
        brokers=[DescribeClusterBroker(me.node_id, at.host, at.port)],
    )
    if request.include_cluster_authorized_operations:
        response.cluster_authorized_operations = operations_of_cluster(ctx)
    return response
