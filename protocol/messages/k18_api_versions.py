"""Ask which APIs the broker serves, in which versions, and which features the cluster has.

Versions 0-5; flexible from 3. The response's header is never flexible, because a client must be able to read the response to a version
that the broker does not support (KIP-511).

Changes by version:
* 1: `throttle_time_ms`. 3: the client's name and version; features as tagged fields (KIP-584).
* 4: features whose minimum version is 0 are listed (KAFKA-17011). 5: the request has the cluster id and node id of the broker that the
  client intends to connect to (KIP-1242).
"""

from __future__ import annotations

from typing import Final

from ottla.protocol.schema import Message, array, boolean, int16, int32, int64, string, wire_struct

OPENING_VERSION: Final = 4
"""The version of the first ApiVersions request that Ottla's own clients send. Every Kafka release since 3.8 serves it, and later versions
add nothing that these clients need."""


@wire_struct
class ApiVersionsRequest(Message, api_key=18, versions="0-5", flexible="3+"):
    client_software_name: str = string("3+")
    client_software_version: str = string("3+")
    cluster_id: str | None = string("5+", nullable="5+", default=None)
    node_id: int = int32("5+", default=-1)


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
class ApiVersionsResponse(Message, api_key=18, versions="0-5", flexible="3+"):
    error_code: int = int16()
    api_keys: list[ApiVersion] = array(ApiVersion)
    throttle_time_ms: int = int32("1+")
    supported_features: list[SupportedFeatureKey] = array(SupportedFeatureKey, "3+", tag=0)
    finalized_features_epoch: int = int64("3+", default=-1, tag=1)
    finalized_features: list[FinalizedFeatureKey] = array(FinalizedFeatureKey, "3+", tag=2)
    zk_migration_ready: bool = boolean("3+", tag=3)
