"""ApiVersions (key 18), versions 0-4: what is served, from the routes themselves, and the features of the cluster.

Promises: exactly the routes are listed (Produce with the minimum of 0 that old librdkafka looks for), in a member of a cluster as far as
the controller serves those that it decides, and clients' telemetry where it is on; a version above 4 is answered in
the format of version 0 with UNSUPPORTED_VERSION and our range, so that the client can ask again (KIP-511); the tagged fields 0, 1 and 2
are filled as Kafka fills them and tag 3 never is, because librdkafka before 2.2 reads anything else as "Read underflow".

The finalized levels are those of the metadata log (`ottla.broker.cluster.features`), all of them in a member of a cluster; a feature of
level 0 is not among them. Their epoch is the offset of the log's last record, as Kafka's: a client believes the greatest. Clients speak
transaction version 2 if that is the level. A supported feature from level 0 on is shown from version 4 on only: older clients choke on the
0 (KAFKA-17011).
"""

from __future__ import annotations

import re
from functools import cache
from typing import TYPE_CHECKING

from ottla.broker.api.context import Context
from ottla.broker.api.routes import ROUTES, served
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
    from ottla.broker.api.context import Peer
    from ottla.broker.cluster.features import Features
    from ottla.broker.runtime.nodes.envelopes import Forwarding

_SOFTWARE = re.compile(r"[A-Za-z0-9](?:[A-Za-z0-9.\-]*[A-Za-z0-9])?")


def handle(ctx: Context, request: ApiVersionsRequest) -> ApiVersionsResponse:
    """Answer from the routes; remember what the client says it is."""
    services = ctx.services
    telemetry = services.telemetry is not None
    api_keys = _own_api_keys(telemetry) if services.forwarding is None else _listed(services.forwarding, telemetry)
    return answer(request, ctx.version, ctx.peer, services.features(), api_keys)


@cache
def _own_api_keys(telemetry: bool) -> list[ApiVersion]:
    routes = served(in_cluster=False, telemetry=telemetry)
    return [ApiVersion(key, route.advertised_min, route.max_version) for key, route in routes.items()]


def answer(request: ApiVersionsRequest, version: int, peer: Peer, features: Features, api_keys: list[ApiVersion]) -> ApiVersionsResponse:
    """What a node that serves `api_keys` answers."""
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
    """Whether a client calls itself what it may."""
    return version < 3 or bool(_SOFTWARE.fullmatch(request.client_software_name) and _SOFTWARE.fullmatch(request.client_software_version))


def _listed(forwarding: Forwarding, telemetry: bool) -> list[ApiVersion]:
    from ottla.broker.api.forwarding import listed  # noqa: PLC0415 # only a member of a cluster needs it

    return listed(forwarding, served(in_cluster=True, telemetry=telemetry))


def unsupported_version_response() -> ApiVersionsResponse:
    """What a client that speaks only newer versions is told; to be encoded as version 0."""
    route = ROUTES[ApiKey.API_VERSIONS]
    return ApiVersionsResponse(
        error_code=ErrorCode.UNSUPPORTED_VERSION, api_keys=[ApiVersion(ApiKey.API_VERSIONS, route.min_version, route.max_version)]
    )
