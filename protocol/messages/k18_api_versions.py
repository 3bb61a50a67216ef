"""Ask which APIs the broker serves, in which versions, and which features the cluster has.

Versions 0-4; flexible from 3, but for the response's header, which never is: a client must be able to read that its version is refused
(KIP-511).

* 1: `throttle_time_ms`. 3: the client's name and version; features as tagged fields (KIP-584).
* 4: features whose minimal version is 0 are shown (KAFKA-17011).
"""

from __future__ import annotations

from ottla.protocol.schema import Message, array, boolean, int16, int32, int64, string, wire_struct


@wire_struct
class ApiVersionsRequest(Message, api_key=18, versions="0-4", flexible="3+"):
    client_software_name: str = string("3+")
    client_software_version: str = string("3+")


@wire_struct
class ApiVersion:
    api_key: int = int16()
    min_version: int = int16()
    max_version: int = int16()


@wire_struct
class SupportedFeatureKey:
    name: str = string()
    min_version: int = int16()
    max_version: int = int16()


@wire_struct
class FinalizedFeatureKey:
    name: str = string()
    max_version_level: int = int16()
    min_version_level: int = int16()


@wire_struct
class ApiVersionsResponse(Message, api_key=18, versions="0-4", flexible="3+"):
    error_code: int = int16()
    api_keys: list[ApiVersion] = array(ApiVersion)
    throttle_time_ms: int = int32("1+")
    supported_features: list[SupportedFeatureKey] = array(SupportedFeatureKey, "3+", tag=0)
    finalized_features_epoch: int = int64("3+", default=-1, tag=1)
    finalized_features: list[FinalizedFeatureKey] = array(FinalizedFeatureKey, "3+", tag=2)
    zk_migration_ready: bool = boolean("3+", tag=3)
