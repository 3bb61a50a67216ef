"""DescribeCluster (key 60), versions 0-2: the cluster's id, brokers and controller.

Promises: brokers and addresses are those of Metadata; from version 2 on fenced brokers are returned on request. A request for controllers
at a broker's listener is MISMATCHED_ENDPOINT_TYPE, for any other type UNSUPPORTED_ENDPOINT_TYPE (KIP-919).
"""

from __future__ import annotations

from ottla.broker.api.access import operations_of_cluster
from ottla.broker.api.context import Context
from ottla.broker.api.declaration import Api
from ottla.broker.api.services import ClusterServices, ControllerServices
from ottla.broker.core.acl import Operation
from ottla.protocol.error_codes import ErrorCode
from ottla.protocol.messages.k60_describe_cluster import DescribeClusterBroker, DescribeClusterRequest, DescribeClusterResponse

API = Api(DescribeClusterRequest)

BROKERS = 1
CONTROLLERS = 2


@API.on_broker()
def handle(ctx: Context[ClusterServices], request: DescribeClusterRequest) -> DescribeClusterResponse:
    """Return the cluster's id, the brokers with their addresses, and the controller's id."""
    if request.endpoint_type != BROKERS:
        if request.endpoint_type == CONTROLLERS:
            wrong = "The request was sent to an endpoint of type BROKER, but we wanted an endpoint of type CONTROLLER"
            return DescribeClusterResponse(error_code=ErrorCode.MISMATCHED_ENDPOINT_TYPE, error_message=wrong)
        unsupported = f"Unsupported endpoint type {request.endpoint_type}"
        return DescribeClusterResponse(error_code=ErrorCode.UNSUPPORTED_ENDPOINT_TYPE, error_message=unsupported)
    services = ctx.services
    response = DescribeClusterResponse(
        cluster_id=services.cluster_id,
        controller_id=services.cluster.controller_id,
        brokers=[
            DescribeClusterBroker(*broker)
            for broker in services.cluster.brokers(ctx.peer.client_listener)
            if request.include_fenced_brokers or not broker.fenced
        ],
    )
    if request.include_cluster_authorized_operations:
        response.cluster_authorized_operations = operations_of_cluster(ctx)
    return response


@API.on_controller(requires=Operation.ALTER)
def handle_on_controller(ctx: Context[ControllerServices], request: DescribeClusterRequest) -> DescribeClusterResponse:
    """Return the cluster's only controller: this one. A controller listener does not return brokers (KIP-919)."""
    if request.endpoint_type != CONTROLLERS:
        if request.endpoint_type == BROKERS:
            wrong = "The request was sent to an endpoint of type CONTROLLER, but we wanted an endpoint of type BROKER"
            return DescribeClusterResponse(error_code=ErrorCode.MISMATCHED_ENDPOINT_TYPE, error_message=wrong)
        unsupported = f"Unsupported endpoint type {request.endpoint_type}"
        return DescribeClusterResponse(error_code=ErrorCode.UNSUPPORTED_ENDPOINT_TYPE, error_message=unsupported)
    me = ctx.services.active.voter.me
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
