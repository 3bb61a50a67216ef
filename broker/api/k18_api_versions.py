"""ApiVersions (key 18), versions 0-5: the served APIs, taken from the routes, and the features of the cluster.

Promises:
* Exactly the served APIs are listed. Produce is listed from version 0 on, because old versions of librdkafka check for that (KAFKA-18659).
  On a cluster broker, forwarded APIs are limited to the controller's versions. The telemetry APIs are listed if they are enabled.
* A version that is not served is answered in the format of version 0 with UNSUPPORTED_VERSION and the supported range, so that the client
  can retry (KIP-511).
* From version 5 on the request can name the cluster and the node that the client expects. If this node differs in either, the response is
  REBOOTSTRAP_REQUIRED without APIs. A request that names only one of them is INVALID_REQUEST (KIP-1242). Like Kafka's, controllers do not
  compare them.
* The tagged fields 0, 1 and 2 (supported features, finalized features and their epoch) are set as in Kafka. Tag 3 (ZkMigrationReady) is
  never sent, because librdkafka before 2.2 fails on it with "Read underflow".
* Finalized levels are those of the metadata log (`ottla.broker.cluster.features`), without features of level 0. Their epoch is the offset
  of the log's last record, as in Kafka, because clients keep the response with the greatest epoch. Clients use transaction version 2 if the
  finalized level of `transaction.version` is 2.
* A supported feature whose range begins at 0 is returned from version 4 on, because older clients fail on the 0 (KAFKA-17011).
"""

from __future__ import annotations

import re
from functools import cache
from typing import TYPE_CHECKING

from ottla.broker.api.context import Context, Peer
from ottla.broker.api.declaration import Api
from ottla.broker.api.routes import Routes, broker_routes, controller_routes
from ottla.broker.api.services import ClusterServices, NodeServices
from ottla.broker.cluster.features import Features
from ottla.protocol.api_keys import ApiKey
from ottla.protocol.error_codes import ErrorCode
from ottla.protocol.messages.k18_api_versions import (
    ApiVersion,
    ApiVersionsRequest,
    ApiVersionsResponse,
    FinalizedFeatureKey,
    SupportedFeatureKey,
)

if TYPE_CHECKING:
    from ottla.broker.releases.release_behaviour import ReleaseBehaviour

API = Api(ApiVersionsRequest)

NO_NODE = -1
_SOFTWARE = re.compile(r"[A-Za-z0-9](?:[A-Za-z0-9.\-]*[A-Za-z0-9])?")


@API.on_broker()
def handle(ctx: Context[ClusterServices], request: ApiVersionsRequest) -> ApiVersionsResponse:
    """Return the APIs that this broker serves and the features of the cluster, or REBOOTSTRAP_REQUIRED if the client expects another
    cluster or node. Store the client's software name and version."""
    services = ctx.services
    node = services.cluster_id, services.settings.broker_id
    if request.cluster_id is not None and is_valid(request, ctx.version) and (request.cluster_id, request.node_id) != node:
        return ApiVersionsResponse(error_code=ErrorCode.REBOOTSTRAP_REQUIRED)
    telemetry = services.telemetry is not None
    if services.forwarding.versions(ApiKey.API_VERSIONS) is None:
        api_keys = _api_keys(telemetry, services.settings.release_behaviour)
    else:
        from ottla.broker.api.forwarding import advertised_apis  # noqa: PLC0415 # only a cluster broker needs it

        api_keys = advertised_apis(services.forwarding, broker_routes(telemetry=telemetry))
    return _answer(request, ctx.version, ctx.peer, services.features(), api_keys)


@API.on_controller()
def handle_on_controller(ctx: Context[NodeServices], request: ApiVersionsRequest) -> ApiVersionsResponse:
    """Return the APIs that this controller serves and the features of the cluster. Store the client's software name and version."""
    return _answer(request, ctx.version, ctx.peer, ctx.services.features(), _listed(controller_routes()))


@cache
def _api_keys(telemetry: bool, like: ReleaseBehaviour | None) -> list[ApiVersion]:
    return _listed(broker_routes(telemetry=telemetry, like=like))


def _listed(routes: Routes) -> list[ApiVersion]:
    return [ApiVersion(key, route.advertised_min, route.max_version) for key, route in routes.items()]


def _answer(request: ApiVersionsRequest, version: int, peer: Peer, features: Features, api_keys: list[ApiVersion]) -> ApiVersionsResponse:
    """Return the ApiVersions response of a node that serves `api_keys`, and store the client's software name and version in `peer`. For an
    invalid request, the response is INVALID_REQUEST.
    """
    if version >= 3:
        if not is_valid(request, version):
            return ApiVersionsResponse(error_code=ErrorCode.INVALID_REQUEST)
        peer.client_software_name = request.client_software_name
        peer.client_software_version = request.client_software_version
    supported, finalized, epoch = features
    shown = {name: (first, last) for name, (first, last) in supported.items() if first > 0 or version >= 4}
    return ApiVersionsResponse(
        api_keys=api_keys,
        supported_features=[SupportedFeatureKey(name, first, last) for name, (first, last) in shown.items()],
        finalized_features_epoch=epoch,
        finalized_features=[FinalizedFeatureKey(name, level, level) for name, level in finalized.items()],
    )


def is_valid(request: ApiVersionsRequest, version: int) -> bool:
    """Return whether the request has a cluster id and a node id, or neither, and from version 3 on a valid software name and version."""
    if (request.cluster_id is None) != (request.node_id == NO_NODE):
        return False
    return version < 3 or bool(_SOFTWARE.fullmatch(request.client_software_name) and _SOFTWARE.fullmatch(request.client_software_version))


def unsupported_version_response(routes: Routes) -> ApiVersionsResponse:
    """Return the UNSUPPORTED_VERSION response to an ApiVersions request of a newer version. It names the served versions of ApiVersions;
    the caller must encode it as version 0."""
    route = routes[ApiKey.API_VERSIONS]
    return ApiVersionsResponse(
        error_code=ErrorCode.UNSUPPORTED_VERSION, api_keys=[ApiVersion(ApiKey.API_VERSIONS, route.min_version, route.max_version)]
    )
