from __future__ import annotations

from typing import Any

import pytest

from ottla.broker.core import limits
from ottla.broker.gateway.address_book import AddressBook, ClientsView
from ottla.broker.gateway.rewriting import is_rewritten, is_understood, newer_client_response, rewritten, run_steps
from ottla.protocol.api_keys import ApiKey
from ottla.protocol.codec import decode_response, encode_response, response_class
from ottla.protocol.error_codes import ErrorCode
from ottla.protocol.errors import ProtocolError
from ottla.protocol.messages.k00_produce import ProduceResponse
from ottla.protocol.messages.k01_fetch import FetchableTopicResponse, FetchResponse, PartitionData
from ottla.protocol.messages.k03_metadata import (
    MetadataResponse,
    MetadataResponseBroker,
    MetadataResponsePartition,
    MetadataResponseTopic,
)
from ottla.protocol.messages.k10_find_coordinator import Coordinator, FindCoordinatorResponse
from ottla.protocol.messages.k17_sasl_handshake import SaslHandshakeResponse
from ottla.protocol.messages.k18_api_versions import ApiVersion, ApiVersionsResponse
from ottla.protocol.messages.k60_describe_cluster import DescribeClusterBroker, DescribeClusterResponse
from ottla.protocol.messages.k78_share_fetch import ShareFetchResponse
from ottla.protocol.messages.k79_share_acknowledge import ShareAcknowledgeResponse
from ottla.protocol.messages.node_endpoint import NodeEndpoint
from ottla.protocol.wire import Buffer

VIEW = ClientsView(AddressBook([], lambda node_id: 20_000 + node_id), "gw")


def made_of(api_key: int, version: int, frame: memoryview, view: ClientsView = VIEW) -> list[Buffer]:
    """Return the buffers that the gateway sends in place of a response frame."""
    return run_steps(rewritten(api_key, version, frame, view))


def through(response: Any, version: int) -> Any:
    """Return the response as a client of the gateway decodes it."""
    frame = b"".join(encode_response(response.API_KEY, version, 77, response))[4:]
    made = b"".join(made_of(response.API_KEY, version, memoryview(frame)))
    assert int.from_bytes(made[:4], "big") == len(made) - 4
    correlation_id, got = decode_response(response.API_KEY, version, made[4:])
    assert correlation_id == 77
    return got


ENDPOINTS = [NodeEndpoint(3, "c", 9092, "rack")]
AT_GATEWAY = [NodeEndpoint(3, "gw", 20_003, "rack")]


@pytest.mark.parametrize("version", range(14))
def test_metadata_names_the_gateway_in_every_version(version: int) -> None:
    got = through(MetadataResponse(brokers=[MetadataResponseBroker(2, "b", 9092), MetadataResponseBroker(1, "a", 9092)]), version)
    assert [(broker.node_id, broker.host, broker.port) for broker in got.brokers] == [(2, "gw", 20_002), (1, "gw", 20_001)]


@pytest.mark.parametrize("version", range(14))
def test_metadata_keeps_everything_but_addresses_in_every_version(version: int) -> None:
    partitions = [MetadataResponsePartition(0, index, 1, -1, [1, 2], [2], []) for index in range(3)]
    topics = [MetadataResponseTopic(0, "a" * 200, partitions=partitions), MetadataResponseTopic(3, "b")]
    response = MetadataResponse(brokers=[MetadataResponseBroker(1, "a", 9092)], topics=topics)
    got = through(response, version)
    response.brokers = [MetadataResponseBroker(1, "gw", 20_001)]
    assert encode_response(ApiKey.METADATA, version, 0, got) == encode_response(ApiKey.METADATA, version, 0, response)


@pytest.mark.parametrize("version", range(7))
def test_find_coordinator_names_the_gateway_in_every_version(version: int) -> None:
    coordinator = Coordinator("g", 2, "b", 9092)
    got = through(FindCoordinatorResponse(node_id=2, host="b", port=9092, coordinators=[coordinator]), version)
    found = got.coordinators[0] if version >= 4 else got
    assert (found.node_id, found.host, found.port) == (2, "gw", 20_002)


def test_a_coordinator_that_is_not_available_stays_without_an_address() -> None:
    got = through(FindCoordinatorResponse(coordinators=[Coordinator("g", -1, "", -1, ErrorCode.COORDINATOR_NOT_AVAILABLE)]), 4)
    assert (got.coordinators[0].host, got.coordinators[0].port) == ("", -1)


@pytest.mark.parametrize("version", range(3))
def test_describe_cluster_names_the_gateway_in_every_version(version: int) -> None:
    (broker,) = through(DescribeClusterResponse(brokers=[DescribeClusterBroker(1, "a", 9092)]), version).brokers
    assert (broker.host, broker.port) == ("gw", 20_001)


@pytest.mark.parametrize(
    ("response", "version"),
    [
        (ProduceResponse(node_endpoints=ENDPOINTS), 10),
        (FetchResponse(node_endpoints=ENDPOINTS), 16),
        (ShareFetchResponse(node_endpoints=ENDPOINTS), 1),
        (ShareAcknowledgeResponse(node_endpoints=ENDPOINTS), 1),
    ],
)
def test_endpoints_of_new_leaders_are_the_gateways(response: Any, version: int) -> None:
    assert through(response, version).node_endpoints == AT_GATEWAY


def test_a_response_in_which_nothing_changes_keeps_its_bytes() -> None:
    response = FetchResponse(responses=[FetchableTopicResponse(topic_id=bytes(16), partitions=[PartitionData(records=b"r" * 50)])])
    frame = memoryview(b"".join(encode_response(1, 16, 5, response))[4:])
    size, same = made_of(1, 16, frame)
    assert same is frame
    assert int.from_bytes(size, "big") == len(frame)


@pytest.mark.parametrize(
    ("response", "version"),
    [
        (MetadataResponse(brokers=[MetadataResponseBroker(number, "a", 9092) for number in range(limits.GATEWAY_NODES_MAX + 1)]), 9),
        (DescribeClusterResponse(brokers=[DescribeClusterBroker(number, "a", 9092) for number in range(limits.GATEWAY_NODES_MAX + 1)]), 0),
        (FetchResponse(responses=[FetchableTopicResponse()] * (limits.GATEWAY_ELEMENTS + 1)), 16),
        (SaslHandshakeResponse(mechanisms=["PLAIN"] * (limits.GATEWAY_ELEMENTS + 1)), 1),
    ],
    ids=["Metadata", "DescribeCluster", "Fetch", "SaslHandshake"],
)
def test_a_response_with_too_many_elements_is_rejected_before_any_port_is_opened(response: Any, version: int) -> None:
    frame = memoryview(b"".join(encode_response(response.API_KEY, version, 5, response))[4:])
    known = AddressBook([], lambda _: pytest.fail("a port was opened"))
    with pytest.raises(ProtocolError, match="more than"):
        made_of(response.API_KEY, version, frame, ClientsView(known, "gw"))


def test_only_versions_with_addresses_are_decoded() -> None:
    assert not is_rewritten(ApiKey.FETCH, 15)
    assert is_rewritten(ApiKey.FETCH, 16)
    assert not is_rewritten(ApiKey.PRODUCE, 9)
    assert not is_rewritten(ApiKey.OFFSET_COMMIT, 0)
    assert not is_rewritten(12_345, 0)
    assert not is_understood(ApiKey.METADATA, response_class(ApiKey.METADATA).MAX_VERSION + 1)


def test_api_versions_limits_only_rewritten_apis_to_versions_known_to_both_sides() -> None:
    last = response_class(ApiKey.METADATA).MAX_VERSION
    offered = [
        ApiVersion(ApiKey.METADATA, 0, last + 3),
        ApiVersion(ApiKey.FIND_COORDINATOR, 99, 100),
        ApiVersion(ApiKey.PRODUCE, 0, 5),
        ApiVersion(ApiKey.OFFSET_COMMIT, 2, 900),
        ApiVersion(999, 1, 2),
    ]
    got = through(ApiVersionsResponse(api_keys=offered), 4)
    assert got.api_keys == [
        ApiVersion(ApiKey.METADATA, 0, last),
        ApiVersion(ApiKey.PRODUCE, 0, 5),
        ApiVersion(ApiKey.OFFSET_COMMIT, 2, 900),
        ApiVersion(999, 1, 2),
    ]


def test_an_older_cluster_answers_a_newer_api_versions_request_in_version_0() -> None:
    refused = ApiVersionsResponse(error_code=ErrorCode.UNSUPPORTED_VERSION, api_keys=[ApiVersion(18, 0, 3)])
    frame = memoryview(b"".join(encode_response(18, 0, 5, refused))[4:])
    assert b"".join(made_of(18, 4, frame))[4:] == frame


def test_newer_client_gets_the_supported_versions_of_api_versions() -> None:
    made = newer_client_response()
    assert (made.error_code, made.api_keys) == (ErrorCode.UNSUPPORTED_VERSION, [ApiVersion(18, 0, 5)])


def test_gssapi_is_not_offered() -> None:
    assert through(SaslHandshakeResponse(mechanisms=["GSSAPI", "PLAIN"]), 1).mechanisms == ["PLAIN"]
