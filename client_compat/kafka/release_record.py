"""Records what a release of Apache Kafka offers, from its real broker: APIs, features, and settings of a broker, a topic and a group."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from client_compat.kafka.compiled import compiled
from client_compat.kafka.reference import KRAFT_SINCE, NODE_ID, ReferenceBroker, release_of
from client_compat.support.brokers import HOST, POLL_S, BrokerFailed
from ottla.protocol.api_keys import ApiKey
from ottla.protocol.client import Client
from ottla.protocol.messages.k03_metadata import MetadataRequest
from ottla.protocol.messages.k18_api_versions import ApiVersionsRequest, ApiVersionsResponse
from ottla.protocol.messages.k19_create_topics import CreatableTopic, CreateTopicsRequest
from ottla.protocol.messages.k32_describe_configs import DescribeConfigsRequest, DescribeConfigsResource, DescribeConfigsResponse

VERSIONS = (
    *("4.4.0", "4.3.1", "4.2.2", "4.1.2", "4.0.2"),
    *("3.9.2", "3.8.1", "3.7.2", "3.6.2", "3.5.2", "3.4.1", "3.3.2", "3.2.3", "3.1.2", "3.0.2", "2.8.2"),
)
"""The recorded releases of Apache Kafka, each by the version of its last patch."""
ELR_SINCE = (4, 0)
"""The first release with the feature eligible.leader.replicas.version."""
TELEMETRY_SINCE = (3, 7)
"""The first release with client telemetry (KIP-714). A broker offers its APIs only with a metrics reporter that receives the telemetry."""
WAIT_S = 30.0
_TOPIC, _BROKER, _GROUP = 2, 4, 32
_DEFAULT_SOURCE, _UNKNOWN_TYPE = 5, 0
_TOPIC_NAME = "recorded"


def last_patch(name: str) -> str:
    """Return the last patch of a release: `3.7.2` for `3.7` or `3.7.0`. Raises ValueError for a release that is not in VERSIONS."""
    found = next((version for version in VERSIONS if name.split(".")[:2] == version.split(".")[:2]), None)
    if found is None:
        raise ValueError(f"{name} is no release of Apache Kafka from {VERSIONS[-1]} to {VERSIONS[0]}")
    return found


@dataclass(frozen=True, slots=True)
class Recorded:
    """What Apache Kafka `version` offers, from its broker's responses: the version range of each API, the features, and the default of each
    setting."""

    version: str
    mode: str
    apis: dict[str, tuple[int, int]]
    features: dict[str, tuple[int, int, int]]
    broker_settings: dict[str, str | None]
    topic_settings: dict[str, str | None]
    group_settings: dict[str, str | None]


def record(version: str, directory: Path) -> Recorded:
    """Start a new broker of `version` in `directory`, and return what it offers according to its responses. Raises KafkaMissing if the
    version is not available, BrokerFailed if the broker does not start or creates no topic, OSError or ProtocolError if a request fails."""
    release = release_of(version)
    settings = {"metric.reporters": "ottla.compat.TelemetryTaker"} if release >= TELEMETRY_SINCE else {}
    classes = compiled("TelemetryTaker") if settings else None
    with ReferenceBroker(directory / version, settings, version, classes=classes) as broker, Client(HOST, broker.port) as client:
        _wait_until(lambda: _knows_brokers(client), "the broker is registered")
        offered = _api_versions(client)
        created = client.call(CreateTopicsRequest(topics=[CreatableTopic(_TOPIC_NAME, 1, 1)], timeout_ms=10_000))
        if created.topics[0].error_code:
            raise BrokerFailed(f"Apache Kafka {version} did not create a topic: error code {created.topics[0].error_code}")
        _wait_until(lambda: _settings(client, _TOPIC, _TOPIC_NAME) != {}, "the topic is known")
        return Recorded(
            version,
            "KRaft" if release >= KRAFT_SINCE else "ZooKeeper",
            {_name(api.api_key): (api.min_version, api.max_version) for api in offered.api_keys},
            _features(offered),
            _settings(client, _BROKER, str(NODE_ID)),
            _settings(client, _TOPIC, _TOPIC_NAME),
            _settings(client, _GROUP, _TOPIC_NAME),
        )


def _api_versions(client: Client) -> ApiVersionsResponse:
    request = ApiVersionsRequest(client_software_name="ottla", client_software_version="1")
    found: ApiVersionsResponse = client.call(request, client.highest_version(ApiVersionsRequest))
    return found


def _knows_brokers(client: Client) -> bool:
    return bool(client.call(MetadataRequest(topics=[])).brokers)


def _name(api_key: int) -> str:
    return ApiKey(api_key).camel_case


def _features(offered: ApiVersionsResponse) -> dict[str, tuple[int, int, int]]:
    levels = {feature.name: feature.max_version_level for feature in offered.finalized_features}
    return {each.name: (each.min_version, each.max_version, levels.get(each.name, 0)) for each in offered.supported_features}


def _settings(client: Client, kind: int, name: str) -> dict[str, str | None]:
    """Return the default of each setting of a resource; `kind` is its type number in DescribeConfigs. If the broker's configuration
    overrides a setting, the default is taken from its synonyms. A setting without a type is unknown to the release and omitted."""
    request = DescribeConfigsRequest(resources=[DescribeConfigsResource(kind, name, None)], include_synonyms=True)
    answer: DescribeConfigsResponse = client.call(request)
    (result,) = answer.results
    return {entry.name: _default(entry) for entry in result.configs if entry.config_type != _UNKNOWN_TYPE}


def _default(entry: Any) -> str | None:
    if entry.config_source == _DEFAULT_SOURCE:
        value: str | None = entry.value
        return value
    defaults = (each.value for each in entry.synonyms if each.source == _DEFAULT_SOURCE and each.name == entry.name)
    return next(defaults, None)


def _wait_until(is_so: Callable[[], object], what: str) -> None:
    end = time.monotonic() + WAIT_S
    while not is_so():
        if time.monotonic() > end:
            raise BrokerFailed(f"still waiting after {WAIT_S:.0f} s: {what}")
        time.sleep(POLL_S)
