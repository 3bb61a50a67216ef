"""Delegation tokens: creation, authentication, and expiry. The tests advance the time."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from ottla.broker.core.acl import Operation, Resource
from ottla.broker.core.clock import VirtualClock
from ottla.protocol.client import Client
from ottla.protocol.error_codes import ErrorCode
from ottla.protocol.messages.k03_metadata import MetadataRequest
from ottla.protocol.messages.k38_create_delegation_token import CreatableRenewers, CreateDelegationTokenRequest
from ottla.protocol.messages.k60_describe_cluster import DescribeClusterRequest
from tests.support.access import acl, allow, ann, bob
from tests.support.running_broker import RunningBroker
from tests.support.tokens import (
    DAY_MS,
    WITH_TOKENS,
    create_token,
    describe_tokens,
    expire_token,
    log_in_by_token,
    proof_of,
    renew_token,
)

NOW = VirtualClock().now_ms()


@pytest.fixture
def broker(tmp_path: Path) -> Iterator[RunningBroker]:
    with RunningBroker(tmp_path / "data", WITH_TOKENS, clock=VirtualClock()) as running:
        yield running


def is_served(client: Client) -> bool:
    return bool(client.call(MetadataRequest(topics=[]), 1).brokers)


def test_a_token_authenticates_its_owner_in_every_version_and_survives_a_kill(broker: RunningBroker) -> None:
    with ann(broker) as client:
        made = {version: create_token(client, None, "bob", version=version, lasts_ms=5_000) for version in (1, 2, 3)}
    for version, token in made.items():
        assert (token.error_code, token.principal_type, token.principal_name) == (0, "User", "ann")
        requester = ("User", "ann") if version == 3 else ("", "")
        assert (token.token_requester_principal_type, token.token_requester_principal_name) == requester
        assert (token.issue_timestamp_ms, token.expiry_timestamp_ms, token.max_timestamp_ms) == (NOW, NOW + 5_000, NOW + 5_000)
        assert bytes(token.hmac) == proof_of(token.token_id)
    assert len({token.token_id for token in made.values()}) == 3
    broker.kill()
    broker.start()
    for mechanism in ("SCRAM-SHA-256", "SCRAM-SHA-512"):
        with broker.client() as client:
            answer = log_in_by_token(client, made[1].token_id, proof_of(made[1].token_id), mechanism)
            assert (answer.error_code, answer.session_lifetime_ms) == (0, 5_000)


def test_a_client_with_a_token_is_its_owner_until_expiry_and_cannot_create_another(broker: RunningBroker) -> None:
    refused = ErrorCode.DELEGATION_TOKEN_REQUEST_NOT_ALLOWED
    with bob(broker) as client:  # a super user
        token = create_token(client)
    with broker.client() as client:
        assert log_in_by_token(client, token.token_id, bytes(token.hmac)).session_lifetime_ms == DAY_MS
        described = client.call(DescribeClusterRequest(include_cluster_authorized_operations=True), 0)
        assert described.cluster_authorized_operations > 0, "as bob"
        answer = create_token(client)
        assert (answer.error_code, answer.principal_name, answer.max_timestamp_ms) == (refused, "bob", -1)
        for changed in (renew_token(client, bytes(token.hmac)), expire_token(client, bytes(token.hmac))):
            assert (changed.error_code, changed.expiry_timestamp_ms) == (refused, -1)
        assert (describe_tokens(client).error_code, describe_tokens(client).tokens) == (refused, [])
        broker.clock.advance(DAY_MS / 1000)
        assert is_served(client)
        broker.clock.advance(0.001)
        with pytest.raises(ConnectionError):
            is_served(client)


def test_an_invalid_token_authenticates_no_client(broker: RunningBroker) -> None:
    with bob(broker) as client:
        token, other = create_token(client), create_token(client)
    for token_id, proof in ((token.token_id, bytes(other.hmac)), ("nobody's", bytes(token.hmac)), ("ann", b"pass word")):
        with broker.client() as client:
            assert log_in_by_token(client, token_id, proof).error_code == ErrorCode.SASL_AUTHENTICATION_FAILED
    with bob(broker) as client:
        assert expire_token(client, bytes(token.hmac)).error_code == 0
    with broker.client() as client:
        assert log_in_by_token(client, token.token_id, bytes(token.hmac)).error_code == ErrorCode.SASL_AUTHENTICATION_FAILED


def test_a_token_for_another_user_requires_create_tokens(broker: RunningBroker) -> None:
    with ann(broker) as client, bob(broker) as admin:
        refused = create_token(client, "eve")
        assert (refused.error_code, refused.principal_name, refused.token_requester_principal_name) == (
            ErrorCode.DELEGATION_TOKEN_AUTHORIZATION_FAILED,
            "eve",
            "ann",
        )
        assert (refused.issue_timestamp_ms, bytes(refused.hmac), refused.token_id) == (-1, b"", "")
        allow(admin, acl(Resource.USER, "User:eve", Operation.CREATE_TOKENS))
        token = create_token(client, "eve")
        assert (token.error_code, token.principal_name, token.token_requester_principal_name) == (0, "eve", "ann")
        groups = CreateDelegationTokenRequest(renewers=[CreatableRenewers("Group", "g")])
        assert client.call(groups, 3).error_code == ErrorCode.INVALID_PRINCIPAL_TYPE


def test_a_token_requires_authentication_and_a_secret(tmp_path: Path) -> None:
    with RunningBroker(tmp_path / "open", {"delegation.token.secret.key": "s"}) as broker, broker.client() as client:
        for answer in (create_token(client), renew_token(client, b""), expire_token(client, b""), describe_tokens(client)):
            assert answer.error_code == ErrorCode.DELEGATION_TOKEN_REQUEST_NOT_ALLOWED
    with RunningBroker(tmp_path / "data", {**WITH_TOKENS, "delegation.token.secret.key": ""}) as broker, ann(broker) as client:
        created = create_token(client)
        for answer in (created, renew_token(client, b""), expire_token(client, b""), describe_tokens(client)):
            assert answer.error_code == ErrorCode.DELEGATION_TOKEN_AUTH_DISABLED
        assert (created.principal_name, created.issue_timestamp_ms) == ("ann", 0), "decided by the controller"
