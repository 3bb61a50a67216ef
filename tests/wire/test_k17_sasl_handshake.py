from __future__ import annotations

import struct
import time

import pytest

from ottla.protocol.client import Client
from ottla.protocol.codec import decode_response
from ottla.protocol.error_codes import ErrorCode
from ottla.protocol.messages.k03_metadata import MetadataRequest
from ottla.protocol.messages.k17_sasl_handshake import SaslHandshakeRequest
from ottla.protocol.messages.k18_api_versions import ApiVersionsRequest
from ottla.protocol.messages.k36_sasl_authenticate import SaslAuthenticateRequest
from ottla.protocol.messages.k42_delete_groups import DeleteGroupsRequest
from tests.support.logins import BareConnection, authenticate, handshake, log_in, plain, secured
from tests.support.running_broker import RunningBroker

MECHANISMS = ["PLAIN", "SCRAM-SHA-256", "SCRAM-SHA-512"]
WITH_SASL = pytest.mark.broker_settings(secured())


@pytest.mark.parametrize("version", [0, 1])
def test_a_handshake_at_a_plaintext_listener_is_an_illegal_state(client: Client, version: int) -> None:
    answer = handshake(client, version=version)
    assert (answer.error_code, answer.mechanisms) == (ErrorCode.ILLEGAL_SASL_STATE, [])
    assert client.call(MetadataRequest(topics=[]), 1).brokers  # the connection stays open


@WITH_SASL
@pytest.mark.parametrize("version", [0, 1])
def test_an_enabled_mechanism_is_accepted(client: Client, version: int) -> None:
    answer = handshake(client, "SCRAM-SHA-512", version)
    assert (answer.error_code, answer.mechanisms) == (ErrorCode.NONE, MECHANISMS)


@WITH_SASL
@pytest.mark.parametrize("name", ["GSSAPI", "plain", ""])
def test_a_mechanism_that_is_not_enabled_is_rejected_with_the_enabled_ones_and_a_delay(client: Client, name: str) -> None:
    began = time.monotonic()
    answer = handshake(client, name)
    assert time.monotonic() - began >= 0.095
    assert (answer.error_code, answer.mechanisms) == (ErrorCode.UNSUPPORTED_SASL_MECHANISM, MECHANISMS)
    with pytest.raises(ConnectionError):
        handshake(client)


@WITH_SASL
def test_api_versions_is_allowed_once_before_the_handshake(client: Client) -> None:
    refused = client.call(ApiVersionsRequest("no name", ""), 3)
    assert refused.error_code == ErrorCode.INVALID_REQUEST
    versions = client.call(ApiVersionsRequest("test", "1"), 4)
    assert {api.api_key for api in versions.api_keys} >= {0, 3, 17, 18, 36}
    assert handshake(client).error_code == ErrorCode.NONE


@WITH_SASL
@pytest.mark.broker_like("4.3")
def test_a_client_of_a_newer_release_learns_the_versions_before_the_handshake_and_asks_again(client: Client) -> None:
    """franz-go sends the newest ApiVersions version that it knows. An unsupported version gets a response in version 0 with the supported
    ones."""
    client.send(ApiVersionsRequest("test", "1"), ApiVersionsRequest.MAX_VERSION)
    _, response = decode_response(ApiVersionsRequest.API_KEY, 0, client.read_frame())
    (of_itself,) = (api for api in response.api_keys if api.api_key == ApiVersionsRequest.API_KEY)
    assert (response.error_code, of_itself.max_version) == (ErrorCode.UNSUPPORTED_VERSION, ApiVersionsRequest.MAX_VERSION - 1)
    assert client.call(ApiVersionsRequest("test", "1"), of_itself.max_version).error_code == ErrorCode.NONE
    assert handshake(client).error_code == ErrorCode.NONE


@WITH_SASL
@pytest.mark.broker_like("4.3")
def test_a_request_in_a_version_of_a_newer_release_closes_the_connection_during_authentication(client: Client) -> None:
    handshake(client)
    with pytest.raises(ConnectionError):
        client.call(DeleteGroupsRequest([]), DeleteGroupsRequest.MAX_VERSION)


@WITH_SASL
def test_a_second_api_versions_closes_the_connection(client: Client) -> None:
    client.call(ApiVersionsRequest("test", "1"), 4)
    with pytest.raises(ConnectionError):
        client.call(ApiVersionsRequest("test", "1"), 4)


@WITH_SASL
@pytest.mark.parametrize("after_versions", [False, True])
@pytest.mark.parametrize("request_", [MetadataRequest(topics=[]), SaslAuthenticateRequest(plain())])
def test_any_other_request_before_authentication_closes_the_connection(
    client: Client, request_: MetadataRequest | SaslAuthenticateRequest, *, after_versions: bool
) -> None:
    if after_versions:
        client.call(ApiVersionsRequest("test", "1"), 3)
    with pytest.raises(ConnectionError):
        client.call(request_, 0)


@WITH_SASL
@pytest.mark.parametrize(
    "sent",
    [
        b"GET / HTTP/1.1\r\n\r\n",
        b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03" + bytes(64),
        struct.pack(">i", 4) + b"\x60\x01\x02\x03",
        struct.pack(">i", 0),
        struct.pack(">i", -1),
        struct.pack(">i", 65_537),
        struct.pack(">ihhih", 10, 17, 2, 1, -1),
        struct.pack(">ihhih", 10, 9_999, 0, 1, -1),
        struct.pack(">ihhih", 12, 17, 1, 1, -1) + b"\x7f\xff",
    ],
)
def test_an_invalid_frame_before_authentication_closes_the_connection_without_a_response(broker: RunningBroker, sent: bytes) -> None:
    with BareConnection(broker.port) as connection:
        connection.socket.sendall(sent)
        assert connection.receive() is None
    with broker.client() as client:
        assert log_in(client).error_code == ErrorCode.NONE


@WITH_SASL
def test_a_handshake_after_authentication_is_an_illegal_state_and_the_connection_stays_open(client: Client) -> None:
    log_in(client)
    assert (handshake(client).error_code, handshake(client, "x", 0).mechanisms) == (ErrorCode.ILLEGAL_SASL_STATE, [])
    assert client.call(MetadataRequest(topics=[]), 1).brokers


@WITH_SASL
def test_a_second_handshake_closes_the_connection(client: Client) -> None:
    handshake(client)
    answer = client.call(SaslHandshakeRequest("PLAIN"), 1)
    assert (answer.error_code, answer.mechanisms) == (ErrorCode.ILLEGAL_SASL_STATE, [])
    with pytest.raises(ConnectionError):
        authenticate(client, plain())
