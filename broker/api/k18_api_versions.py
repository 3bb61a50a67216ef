"""ApiVersions (key 18), versions 0-4: what is served, from the routes themselves, and the features of the cluster.

Promises: exactly the routes are listed (Produce with the minimum of 0 that old librdkafka looks for); a version above 4 is answered in
the format of version 0 with UNSUPPORTED_VERSION and our range, so that the client can ask again (KIP-511); the tagged fields 0, 1 and 2
are filled as Kafka fills them and tag 3 never is, because librdkafka before 2.2 reads anything else as "Read underflow".

The setting transaction.version is the finalized level of the feature of that name (0: none, and nothing is said of it): clients speak
transaction version 2 if it is 2. A supported feature from level 0 on is shown from version 4 on only: older clients choke on the 0
(KAFKA-17011).
"""

from __future__ import annotations

import re
from functools import cache

from broker.api.context import Context
from broker.api.routes import ROUTES
from protocol.api_keys import ApiKey
from protocol.error_codes import ErrorCode
from protocol.messages.k18_api_versions import ApiVersion, ApiVersionsRequest, ApiVersionsResponse, FinalizedFeatureKey, SupportedFeatureKey

_SOFTWARE = re.compile(r"[A-Za-z0-9](?:[A-Za-z0-9.\-]*[A-Za-z0-9])?")

METADATA_VERSION_MIN = 7
METADATA_VERSION = 27
"""metadata.version 4.1-IV1, the levels that a Kafka 4.1 broker supports and finalizes."""

TRANSACTION_VERSION_MAX = 2

GROUP_VERSION = 1
"""group.version 1: the consumer groups of KIP-848. A Kafka 4.1 cluster finalizes it."""

_FEATURES_EPOCH = 1


def handle(ctx: Context, request: ApiVersionsRequest) -> ApiVersionsResponse:
    """Answer from the routes; remember what the client says it is."""
    if ctx.version >= 3:
        if not (_SOFTWARE.fullmatch(request.client_software_name) and _SOFTWARE.fullmatch(request.client_software_version)):
            return ApiVersionsResponse(error_code=ErrorCode.INVALID_REQUEST)
        ctx.connection.client_software_name = request.client_software_name
        ctx.connection.client_software_version = request.client_software_version
    return _response(ctx.services.settings.transaction_version, ctx.version >= 4)


@cache
def _response(transaction_version: int, shows_level_0: bool) -> ApiVersionsResponse:
    supported = [SupportedFeatureKey("metadata.version", METADATA_VERSION_MIN, METADATA_VERSION)]
    finalized = [
        FinalizedFeatureKey("metadata.version", METADATA_VERSION, METADATA_VERSION),
        FinalizedFeatureKey("group.version", GROUP_VERSION, GROUP_VERSION),
    ]
    if shows_level_0:
        supported.append(SupportedFeatureKey("transaction.version", 0, TRANSACTION_VERSION_MAX))
        supported.append(SupportedFeatureKey("group.version", 0, GROUP_VERSION))
    if transaction_version > 0:
        finalized.append(FinalizedFeatureKey("transaction.version", transaction_version, transaction_version))
    return ApiVersionsResponse(
        api_keys=[ApiVersion(key, route.advertised_min, route.max_version) for key, route in sorted(ROUTES.items())],
        supported_features=supported,
        finalized_features_epoch=_FEATURES_EPOCH,
        finalized_features=finalized,
    )


def unsupported_version_response() -> ApiVersionsResponse:
    """What a client that speaks only newer versions is told; to be encoded as version 0."""
    route = ROUTES[ApiKey.API_VERSIONS]
    return ApiVersionsResponse(
        error_code=ErrorCode.UNSUPPORTED_VERSION, api_keys=[ApiVersion(ApiKey.API_VERSIONS, route.min_version, route.max_version)]
    )
