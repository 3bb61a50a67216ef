"""UpdateFeatures (key 57), versions 0-2: changes feature levels, either all of a request or none (KIP-584, KIP-778).

A broker that imitates a Kafka release before 4.0 changes each feature independently. Version 0's `allow_downgrade` is ignored, as in
Kafka's QuorumController, so a lower level is rejected. If a standalone node was started with the setting `transaction.version`, its next
start restores that level.
"""

from __future__ import annotations

from functools import partial

from ottla.broker.api.context import Context
from ottla.broker.api.declaration import Api
from ottla.broker.api.served_api import Forwarded
from ottla.broker.api.services import ControllerServices
from ottla.broker.controller.feature_updates import FeatureUpdate, update_features
from ottla.broker.core.acl import Operation
from ottla.broker.core.rejected import Rejected
from ottla.protocol.error_codes import ErrorCode
from ottla.protocol.messages.k57_update_features import (
    FeatureUpdateKey,
    UpdatableFeatureResult,
    UpdateFeaturesRequest,
    UpdateFeaturesResponse,
)

API = Api(UpdateFeaturesRequest, forwarded=Forwarded.ALWAYS, array_limits={"feature_updates": 1_000})
_REFUSED = "The update failed for all features since the following feature had an error: "


@API.on_controller(requires=Operation.ALTER)
async def handle(ctx: Context[ControllerServices], request: UpdateFeaturesRequest) -> UpdateFeaturesResponse:
    """Change the finalized feature levels that the request names, and respond when the new levels are in force. One invalid change rejects
    all, except in a release before Kafka 4.0."""
    if not ctx.services.active.state.settings.release_behaviour.updates_features_together:
        return UpdateFeaturesResponse(results=[await _updated(ctx, each, request.validate_only) for each in request.feature_updates])
    wanted = [FeatureUpdate(each.feature, each.max_version_level, each.upgrade_type) for each in request.feature_updates]
    try:
        await ctx.services.active.run(partial(update_features, updates=wanted), validate_only=request.validate_only)
    except Rejected as error:
        return UpdateFeaturesResponse(error_code=error.code, error_message=_REFUSED + error.message)
    results = [UpdatableFeatureResult(each.feature, error_message="NONE") for each in request.feature_updates]
    return UpdateFeaturesResponse(error_message=None, results=results)


async def _updated(ctx: Context[ControllerServices], each: FeatureUpdateKey, validate_only: bool) -> UpdatableFeatureResult:
    """Change the level of one feature and return the result. Kafka releases before 4.0 change each feature of a request independently; this
    function is used if such a release is imitated."""
    update = FeatureUpdate(each.feature, each.max_version_level, each.upgrade_type)
    try:
        await ctx.services.active.run(partial(update_features, updates=[update]), validate_only=validate_only)
    except Rejected as error:
        code = ErrorCode.INVALID_REQUEST if ctx.services.settings.release_behaviour.has_zookeeper else error.code
        return UpdatableFeatureResult(each.feature, code, error.message)
    return UpdatableFeatureResult(each.feature, error_message=None)
