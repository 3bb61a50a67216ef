from __future__ import annotations

import re
import struct
from pathlib import Path

import pytest

from ottla.broker.api.routes import broker_routes
from ottla.broker.releases.release_behaviour import DEFAULT_RELEASE
from ottla.broker.releases.table import table_of
from ottla.protocol.api_keys import ApiKey
from ottla.protocol.client import Client
from ottla.protocol.codec import decode_response, request_class
from ottla.protocol.error_codes import ErrorCode
from ottla.protocol.messages.k18_api_versions import ApiVersionsRequest, ApiVersionsResponse
from tests.support.running_broker import RunningBroker

ROOT = Path(__file__).parents[2]
ONLY_WITH_A_PLUGIN = {ApiKey.GET_TELEMETRY_SUBSCRIPTIONS, ApiKey.PUSH_TELEMETRY}
"""Kafka lists them if a metrics reporter takes what clients send."""
DOCUMENTED = ROOT / "docs" / "apis.md"


def ask(client: Client, version: int, name: str = "test", software_version: str = "1.0") -> ApiVersionsResponse:
    response = client.call(ApiVersionsRequest(name, software_version), version=version)
    assert isinstance(response, ApiVersionsResponse)
    return response


@pytest.mark.parametrize("version", range(6))
def test_every_version_lists_exactly_the_routes(client: Client, version: int) -> None:
    listed = {api.api_key: (api.min_version, api.max_version) for api in ask(client, version).api_keys}
    assert listed == {int(key): (route.advertised_min, route.max_version) for key, route in broker_routes().items()}


def kafkas_apis() -> dict[ApiKey, tuple[int, int]]:
    """Return the APIs that the recorded Apache Kafka lists without a metrics reporter: the first and the last version by key."""
    recorded = table_of(DEFAULT_RELEASE).apis
    return {key: recorded[key.camel_case] for key in ApiKey if key.camel_case in recorded and key not in ONLY_WITH_A_PLUGIN}


def test_the_apis_and_versions_are_those_of_kafkas_listener(client: Client) -> None:
    assert {ApiKey(api.api_key): (api.min_version, api.max_version) for api in ask(client, 4).api_keys} == kafkas_apis()


def test_the_documented_apis_include_those_of_kafkas_listener_under_its_names() -> None:
    rows = dict(re.findall(r"^\| (\d+) \| (\w+) \|", DOCUMENTED.read_text(), re.MULTILINE))
    named = {ApiKey(int(key)): re.sub(r"(?<=[a-z])(?=[A-Z])", "_", name).upper() for key, name in rows.items()}
    assert named == {key: key.name for key in named}
    assert kafkas_apis().keys() <= named.keys()


def test_only_produce_advertises_versions_that_it_does_not_serve() -> None:
    assert [key for key, route in broker_routes().items() if route.advertised_min != route.min_version] == [ApiKey.PRODUCE]


def test_every_route_serves_versions_that_its_messages_have_and_has_a_handler() -> None:
    for key, route in broker_routes(telemetry=True).items():
        message = request_class(key)
        assert message.MIN_VERSION <= route.min_version <= route.max_version <= message.MAX_VERSION, key
        assert callable(route.handle)


@pytest.mark.parametrize("version", [3, 4, 5])
def test_transaction_version_2_and_the_kinds_of_groups_are_finalized(client: Client, version: int) -> None:
    response = ask(client, version)
    finalized = {feature.name: feature.max_version_level for feature in response.finalized_features}
    assert finalized == {"metadata.version": 33, "transaction.version": 2, "group.version": 1, "share.version": 2, "streams.version": 1}
    assert response.finalized_features_epoch >= 0


def test_a_feature_range_from_level_0_is_returned_from_version_4_on(client: Client) -> None:
    assert [feature.name for feature in ask(client, 3).supported_features] == ["metadata.version"]
    shown = {feature.name: (feature.min_version, feature.max_version) for feature in ask(client, 4).supported_features}
    assert shown["transaction.version"] == (0, 2)
    assert shown["group.version"] == (0, 1)


@pytest.mark.parametrize(
    ("level", "finalized"),
    [
        pytest.param(0, {}, marks=pytest.mark.broker_settings({"transaction.version": "0"})),
        pytest.param(1, {"transaction.version": 1}, marks=pytest.mark.broker_settings({"transaction.version": "1"})),
    ],
)
def test_a_setting_selects_the_finalized_level_and_level_0_is_omitted(client: Client, level: int, finalized: dict[str, int]) -> None:
    features = {feature.name: feature.max_version_level for feature in ask(client, 4).finalized_features}
    others = {"metadata.version", "group.version", "share.version", "streams.version"}
    assert {name: found for name, found in features.items() if name not in others} == finalized


def test_tags_0_1_and_2_are_set_and_tag_3_is_absent_for_old_librdkafka(client: Client) -> None:
    client.send(ApiVersionsRequest("test", "1"), 3)
    frame = bytes(client.read_frame())
    response = decode_response(ApiKey.API_VERSIONS, 3, frame)[1]
    assert response.supported_features
    assert response.finalized_features
    # The section of tagged fields: how many, then each by number and size.
    tail = frame[4 + 2 + 1 + 7 * len(response.api_keys) + 4 :]
    assert tail[0] == 3
    first_size = tail[2]
    assert (tail[1], tail[3 + first_size]) == (0, 1)


@pytest.mark.parametrize(
    ("of", "code"),
    [
        (None, ErrorCode.NONE),
        ((None, -1), ErrorCode.NONE),
        (("another", 1), ErrorCode.REBOOTSTRAP_REQUIRED),
        (("", 2), ErrorCode.REBOOTSTRAP_REQUIRED),
        ((None, 1), ErrorCode.INVALID_REQUEST),
        (("another", -1), ErrorCode.INVALID_REQUEST),
    ],
    ids=["this node", "no node", "another cluster", "another node", "no cluster", "a cluster alone"],
)
def test_version_5_names_the_cluster_and_the_node_that_the_client_means(
    broker: RunningBroker, client: Client, of: tuple[str | None, int] | None, code: ErrorCode
) -> None:
    cluster_id = broker.call(lambda running: running.services.cluster_id)
    meant, node_id = (cluster_id, 1) if of is None else (of[0] if of[0] != "" else cluster_id, of[1])
    response = client.call(ApiVersionsRequest("test", "1", meant, node_id), version=5)
    assert (response.error_code, bool(response.api_keys)) == (code, code is ErrorCode.NONE)


@pytest.mark.parametrize("version", [6, 99, 32767])
def test_an_unknown_version_is_answered_as_version_0_with_the_supported_range(client: Client, version: int) -> None:
    body = b"\xff whatever a future version holds"
    header = struct.pack(">hhih", ApiKey.API_VERSIONS, version, 77, -1)
    client.send_raw(struct.pack(">i", len(header) + len(body)) + header + body)
    correlation_id, response = decode_response(ApiKey.API_VERSIONS, 0, client.read_frame())
    assert (correlation_id, response.error_code) == (77, ErrorCode.UNSUPPORTED_VERSION)
    assert [(api.api_key, api.min_version, api.max_version) for api in response.api_keys] == [(18, 0, 5)]
    assert ask(client, 4).error_code == ErrorCode.NONE


@pytest.mark.parametrize(
    ("name", "software_version"), [("", "1"), ("a", ""), ("-a", "1"), ("a-", "1"), ("a b", "1"), ("a", "1\n"), ("é", "1")]
)
def test_an_invalid_client_software_name_or_version_is_rejected(client: Client, name: str, software_version: str) -> None:
    response = ask(client, 3, name, software_version)
    assert (response.error_code, response.api_keys) == (ErrorCode.INVALID_REQUEST, [])


@pytest.mark.parametrize(("name", "software_version"), [("a", "1"), ("apache-kafka-java", "4.1.0"), ("librdkafka", "2.11.0-12-gabc.x")])
def test_usual_client_names_are_accepted(client: Client, name: str, software_version: str) -> None:
    assert ask(client, 4, name, software_version).error_code == ErrorCode.NONE


def test_a_null_client_id_is_accepted(broker: RunningBroker) -> None:
    with broker.client(client_id=None) as client:
        assert ask(client, 0).error_code == ErrorCode.NONE
