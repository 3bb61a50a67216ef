"""UpdateFeatures (key 57), versions 0-2, of a controller: all of a request's features are updated, or none.

Version 0's `allow_downgrade` is ignored, as in Kafka's QuorumController, so a lower level is rejected.
"""

from __future__ import annotations

from functools import partial

from ottla.broker.api.controller_context import ControllerContext
from ottla.broker.controller.feature_updates import FeatureUpdate, update_features
from ottla.broker.core.rejected import Rejected
from ottla.protocol.messages.k57_update_features import (
    UpdatableFeatureResult,
    UpdateFeaturesRequest,
    UpdateFeaturesResponse,
)

_REFUSED = "The update failed for all features since the following feature had an error: "


async def update(ctx: ControllerContext, request: UpdateFeaturesRequest) -> UpdateFeaturesResponse:
    """Update the features; respond when the levels are in force."""
    wanted = [FeatureUpdate(each.feature, each.max_version_level, each.upgrade_type) for each in request.feature_updates]
    try:
        await ctx.services.active.run(partial(update_features, updates=wanted), validate_only=request.validate_only)
    except Rejected as error:
        return UpdateFeaturesResponse(error_code=error.code, error_message=_REFUSED + error.message)
    results = [UpdatableFeatureResult(each.feature, error_message="NONE") for each in request.feature_updates]
    return UpdateFeaturesResponse(error_message=None, results=results)
