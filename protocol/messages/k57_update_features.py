"""Raise or lower the cluster's feature levels (KIP-584).

Versions 0-2, all flexible.

Changes by version:
* 1: `upgrade_type` instead of `allow_downgrade`, and `validate_only` (KIP-778). 2: the response has no results for single features.
"""

from __future__ import annotations

from ottla.protocol.schema import Message, array, boolean, int8, int16, int32, string, wire_struct


@wire_struct
class FeatureUpdateKey:
    feature: str = string()
    max_version_level: int = int16()
    allow_downgrade: bool = boolean("0")
    upgrade_type: int = int8("1+", default=1)


@wire_struct
class UpdateFeaturesRequest(Message, api_key=57, versions="0-2", flexible="0+"):
    timeout_ms: int = int32(default=60000)
    feature_updates: list[FeatureUpdateKey] = array(FeatureUpdateKey)
    validate_only: bool = boolean("1+")


@wire_struct
class UpdatableFeatureResult:
    feature: str = string()
    error_code: int = int16()
    error_message: str | None = string(nullable="0+")


@wire_struct
class UpdateFeaturesResponse(Message, api_key=57, versions="0-2", flexible="0+"):
    throttle_time_ms: int = int32()
    error_code: int = int16()
    error_message: str | None = string(nullable="0+")
    results: list[UpdatableFeatureResult] = array(UpdatableFeatureResult, "0-1")
