from __future__ import annotations

import time
from itertools import count
from pathlib import Path

import pytest

from ottla.protocol.client import Client
from ottla.protocol.error_codes import ErrorCode
from ottla.protocol.messages.k00_produce import PartitionProduceData, ProduceRequest, TopicProduceData
from ottla.protocol.messages.k03_metadata import MetadataRequest, MetadataRequestTopic
from ottla.protocol.messages.k17_sasl_handshake import SaslHandshakeRequest
from ottla.protocol.messages.k18_api_versions import ApiVersionsRequest
from ottla.protocol.messages.k32_describe_configs import DescribeConfigsRequest, DescribeConfigsResource
from ottla.protocol.messages.k36_sasl_authenticate import SaslAuthenticateRequest
from ottla.protocol.records.record import SimpleRecord, build_batch
from tests.support.logins import MODULES, BareConnection, authenticate, handshake, log_in, plain, secured
from tests.support.running_broker import RunningBroker
from tests.support.signed import ec_key, first_message, jwk, key_set, rsa_key, signed

OUT_OF_TURN = "SaslAuthenticate request received after successful authentication"
WRONG = "Authentication failed: Invalid username or password"
WITH_SASL = pytest.mark.broker_settings(secured())
RENEWED = pytest.mark.broker_settings(secured(connections_max_reauth_ms="60000"))


def metadata(client: Client) -> bool:
    return bool(client.call(MetadataRequest(topics=[]), 1).brokers)


@pytest.mark.parametrize("version", [0, 1, 2])
def test_a_token_at_a_plaintext_listener_is_an_illegal_state(client: Client, version: int) -> None:
    answer = authenticate(client, plain(), version)
    assert (answer.error_code, answer.error_message, bytes(answer.auth_bytes)) == (ErrorCode.ILLEGAL_SASL_STATE, OUT_OF_TURN, b"")
    assert metadata(client)


@WITH_SASL
@pytest.mark.parametrize("version", [0, 1, 2])
def test_an_authenticated_client_is_served(client: Client, version: int) -> None:
    handshake(client)
    answer = authenticate(client, plain(), version)
    assert (answer.error_code, answer.error_message, bytes(answer.auth_bytes), answer.session_lifetime_ms) == (0, "", b"", 0)
    assert metadata(client)
    assert authenticate(client, plain(), version).error_message == OUT_OF_TURN
    assert metadata(client)


@WITH_SASL
@pytest.mark.parametrize("version", [0, 1, 2])
def test_the_response_to_a_wrong_password_is_delayed_and_the_connection_closes(client: Client, version: int) -> None:
    handshake(client)
    began = time.monotonic()
    answer = authenticate(client, plain(password="nope"), version)
    assert time.monotonic() - began >= 0.095
    assert (answer.error_code, answer.error_message, bytes(answer.auth_bytes)) == (ErrorCode.SASL_AUTHENTICATION_FAILED, WRONG, b"")
    with pytest.raises(ConnectionError):
        metadata(client)


@pytest.mark.broker_settings(secured(connection_failed_authentication_delay_ms="0"))
def test_without_a_delay_the_response_is_immediate_and_the_connection_closes(client: Client) -> None:
    assert log_in(client, plain(password="nope")).error_code == ErrorCode.SASL_AUTHENTICATION_FAILED
    with pytest.raises(ConnectionError):
        metadata(client)


@WITH_SASL
def test_requests_behind_a_failed_authentication_are_ignored(broker: RunningBroker) -> None:
    with BareConnection(broker.port) as connection:
        connection.ask(SaslHandshakeRequest("PLAIN"), 1)
        connection.ask(SaslAuthenticateRequest(plain(password="nope")), 1)
        assert connection.ask(MetadataRequest(topics=[]), 1) is None


@WITH_SASL
def test_requests_behind_an_authentication_are_answered_after_it(client: Client) -> None:
    handshake(client)
    sent = [client.send(SaslAuthenticateRequest(plain()), 1), client.send(MetadataRequest(topics=[]), 1)]
    answered = [int.from_bytes(bytes(client.read_frame()[:4]), "big") for _ in sent]
    assert answered == sent


@WITH_SASL
def test_tokens_are_bare_after_a_handshake_of_version_0(broker: RunningBroker) -> None:
    with BareConnection(broker.port) as connection:
        assert connection.ask(SaslHandshakeRequest("PLAIN"), 0).error_code == 0
        connection.send(plain())
        assert connection.receive() == b""
        assert connection.ask(MetadataRequest(topics=[]), 1).brokers
    with BareConnection(broker.port) as connection:
        connection.ask(SaslHandshakeRequest("PLAIN"), 0)
        connection.send(plain(password="nope"))
        assert connection.receive() is None


@WITH_SASL
@pytest.mark.parametrize("request_", [MetadataRequest([MetadataRequestTopic(name="t")]), ApiVersionsRequest("test", "1")])
def test_another_request_in_place_of_a_token_is_rejected_with_its_own_response(
    client: Client, request_: MetadataRequest | ApiVersionsRequest
) -> None:
    handshake(client)
    answer = client.call(request_, 1)
    result = answer.topics[0] if isinstance(request_, MetadataRequest) else answer
    assert result.error_code == ErrorCode.ILLEGAL_SASL_STATE
    with pytest.raises(ConnectionError):
        authenticate(client, plain())


@WITH_SASL
def test_a_topic_named_by_id_is_rejected_with_an_empty_name(client: Client) -> None:
    handshake(client)
    (topic,) = client.call(MetadataRequest([MetadataRequestTopic(topic_id=b"i" * 16, name=None)]), 11).topics
    assert (topic.error_code, topic.name, topic.topic_id) == (ErrorCode.ILLEGAL_SASL_STATE, "", b"i" * 16)


@WITH_SASL
def test_a_produce_before_authentication_writes_nothing(broker: RunningBroker) -> None:
    broker.topics.create("t")
    batch = build_batch([SimpleRecord(None, b"v")])
    for before in (False, True):
        with broker.client() as client:
            if before:
                handshake(client)
            client.send(ProduceRequest(acks=1, topic_data=[TopicProduceData("t", partition_data=[PartitionProduceData(0, batch)])]), 9)
            if before:
                client.read_frame()
            with pytest.raises(ConnectionError):
                client.read_frame()
    assert broker.topics.end_offset("t") == 0


@RENEWED
@pytest.mark.parametrize(("version", "lifetime_ms"), [(0, 0), (1, 60_000), (2, 60_000)])
def test_the_session_lifetime_is_returned_from_version_1_on(client: Client, version: int, lifetime_ms: int) -> None:
    handshake(client)
    assert authenticate(client, plain(), version).session_lifetime_ms == lifetime_ms


@RENEWED
def test_a_client_can_reauthenticate(client: Client) -> None:
    assert log_in(client).session_lifetime_ms == 60_000
    assert log_in(client).session_lifetime_ms == 60_000
    assert metadata(client)
    assert handshake(client).error_code == ErrorCode.ILLEGAL_SASL_STATE  # within a second
    assert metadata(client)


@RENEWED
def test_reauthentication_cannot_change_the_principal(client: Client) -> None:
    log_in(client)
    answer = log_in(client, plain("bob", 'b;"b'))
    assert answer.error_code == ErrorCode.SASL_AUTHENTICATION_FAILED
    assert answer.error_message == "Cannot change principals during re-authentication from User.ann: User.bob"
    with pytest.raises(ConnectionError):
        metadata(client)


@RENEWED
def test_reauthentication_cannot_change_the_mechanism(client: Client) -> None:
    log_in(client)
    assert handshake(client, "SCRAM-SHA-256").error_code == ErrorCode.NONE
    with pytest.raises(ConnectionError):
        authenticate(client, b"n,,n=ann,r=x")


@RENEWED
def test_a_failed_reauthentication_ends_the_session(client: Client) -> None:
    log_in(client)
    assert log_in(client, plain(password="nope")).error_message == WRONG
    with pytest.raises(ConnectionError):
        metadata(client)


@pytest.mark.broker_settings(secured(connections_max_reauth_ms="1"))
def test_an_expired_session_is_closed_unless_it_reauthenticates(client: Client) -> None:
    log_in(client)
    assert log_in(client).error_code == 0
    with pytest.raises(ConnectionError):
        any(not metadata(client) for _ in count())  # the millisecond passes


@pytest.mark.broker_settings(
    {**secured(), "listener.name.secure.plain.connections.max.reauth.ms": "5000", "connections.max.reauth.ms": "9"}
)
def test_a_mechanism_can_have_its_own_session_lifetime(client: Client) -> None:
    assert log_in(client).session_lifetime_ms == 5_000


@pytest.mark.broker_settings(secured(ssl_keystore_password="of a store", ssl_key_password="of a key"))
def test_passwords_are_never_described(client: Client) -> None:
    log_in(client)
    request = DescribeConfigsRequest([DescribeConfigsResource(4, "1", None)], include_synonyms=True, include_documentation=True)
    (result,) = client.call(request, 4).results
    entries = {entry.name: entry for entry in result.configs}
    for name in ("listener.name.secure.plain.sasl.jaas.config", "ssl.keystore.password", "ssl.key.password"):
        assert (entries[name].value, entries[name].is_sensitive) == (None, True)
    assert not any(secret in repr(result) for secret in ("pass word", "of a store", "of a key"))


@pytest.mark.broker_settings(secured(connection_failed_authentication_delay_ms="0"))
def test_failed_authentications_leave_no_state(broker: RunningBroker) -> None:
    for _ in range(500):
        with broker.client() as client:
            assert log_in(client, plain(password="nope")).error_code == ErrorCode.SASL_AUTHENTICATION_FAILED
    broker.call_until(lambda broker: broker.connection_count == 0)
    assert broker.call(lambda broker: broker.buffered_bytes) == 0
    with broker.client() as client:
        assert log_in(client).error_code == 0


def test_a_signed_token_authenticates_until_it_expires_and_keys_change_at_run_time(tmp_path: Path) -> None:
    file, ends_s = tmp_path / "keys.json", int(time.time()) + 3_600
    file.write_bytes(key_set(jwk(rsa_key(), "a")))
    module = f"{MODULES}.oauthbearer"
    given = {
        **secured(sasl_enabled_mechanisms="OAUTHBEARER", connection_failed_authentication_delay_ms="0"),
        "listener.name.secure.oauthbearer.sasl.jaas.config": f"{module}.OAuthBearerLoginModule required;",
        "listener.name.secure.oauthbearer.sasl.server.callback.handler.class": f"{module}.OAuthBearerValidatorCallbackHandler",
        "listener.name.secure.oauthbearer.sasl.oauthbearer.jwks.endpoint.url": file.as_uri(),
        "org.apache.kafka.sasl.oauthbearer.allowed.urls": file.as_uri(),
        "sasl.oauthbearer.allow.unverified.audience": "true",
        "sasl.oauthbearer.allow.unverified.issuer": "true",
    }
    new = signed(ec_key(), "ES256", "b", sub="ann", iat=0, exp=ends_s)
    with RunningBroker(tmp_path / "data", given) as broker:
        with broker.client() as client:
            handshake(client, "OAUTHBEARER")
            answer = authenticate(client, first_message(signed(rsa_key(), sub="ann", iat=0, exp=ends_s)))
            assert answer.error_code == 0
            assert 3_500_000 < answer.session_lifetime_ms <= 3_600_000
            assert metadata(client)
        with broker.client() as client:
            handshake(client, "OAUTHBEARER")
            response = authenticate(client, first_message(new))
            assert (response.error_code, bytes(response.auth_bytes)) == (0, b'{"status":"invalid_token"}')
            refused = authenticate(client, b"\x01")
            assert (refused.error_code, refused.error_message) == (ErrorCode.SASL_AUTHENTICATION_FAILED, '{"status":"invalid_token"}')
        file.write_bytes(key_set(jwk(ec_key(), "b")))
        with broker.client() as client:
            handshake(client, "OAUTHBEARER")
            assert authenticate(client, first_message(new)).session_lifetime_ms > 0
            assert metadata(client)
