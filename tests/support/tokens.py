"""Delegation tokens over the wire: created, changed, and used to authenticate."""

from __future__ import annotations

import base64
import hmac
from typing import Final

from ottla.protocol.client import Client
from ottla.protocol.messages.k36_sasl_authenticate import SaslAuthenticateResponse
from ottla.protocol.messages.k38_create_delegation_token import (
    CreatableRenewers,
    CreateDelegationTokenRequest,
    CreateDelegationTokenResponse,
)
from ottla.protocol.messages.k39_renew_delegation_token import RenewDelegationTokenRequest, RenewDelegationTokenResponse
from ottla.protocol.messages.k40_expire_delegation_token import ExpireDelegationTokenRequest, ExpireDelegationTokenResponse
from ottla.protocol.messages.k41_describe_delegation_token import (
    DescribeDelegationTokenOwner,
    DescribeDelegationTokenRequest,
    DescribeDelegationTokenResponse,
)
from tests.support.access import GUARDED
from tests.support.logins import ScramClient, authenticate, handshake

SECRET: Final = "of all nodes"
DAY_MS: Final = 86_400_000
WITH_TOKENS: Final = {
    **GUARDED,
    "delegation.token.secret.key": SECRET,
    "connections.max.idle.ms": "-1",
    "connection.failed.authentication.delay.ms": "0",
}
"""Settings of a broker with delegation tokens. Idle connections are not closed, because tests advance the clock by days, and a failed
authentication is answered without delay, because in other tests the clock does not advance at all."""


def proof_of(token_id: str) -> bytes:
    return hmac.digest(SECRET.encode(), token_id.encode(), "sha512")


def create_token(
    client: Client, owner: str | None = None, *renewers: str, version: int = 3, lasts_ms: int = -1
) -> CreateDelegationTokenResponse:
    named = [CreatableRenewers("User", name) for name in renewers]
    request = CreateDelegationTokenRequest(None if owner is None else "User", owner, named, lasts_ms)
    answer: CreateDelegationTokenResponse = client.call(request, version)
    return answer


def renew_token(client: Client, proof: bytes, period_ms: int = -1, version: int = 2) -> RenewDelegationTokenResponse:
    answer: RenewDelegationTokenResponse = client.call(RenewDelegationTokenRequest(proof, period_ms), version)
    return answer


def expire_token(client: Client, proof: bytes, period_ms: int = -1, version: int = 2) -> ExpireDelegationTokenResponse:
    answer: ExpireDelegationTokenResponse = client.call(ExpireDelegationTokenRequest(proof, period_ms), version)
    return answer


def describe_tokens(client: Client, *owners: str, version: int = 3) -> DescribeDelegationTokenResponse:
    """Describe the tokens of these owners, by default of all."""
    named = [DescribeDelegationTokenOwner("User", name) for name in owners] or None
    answer: DescribeDelegationTokenResponse = client.call(DescribeDelegationTokenRequest(named), version)
    return answer


def log_in_by_token(client: Client, token_id: str, proof: bytes, mechanism: str = "SCRAM-SHA-256") -> SaslAuthenticateResponse:
    """Authenticate with a delegation token over SCRAM; return the last response."""
    name = "sha256" if mechanism == "SCRAM-SHA-256" else "sha512"
    scram = ScramClient(token_id, base64.b64encode(proof).decode(), name, ",tokenauth=true")
    handshake(client, mechanism)
    first = authenticate(client, scram.first())
    if first.error_code:
        return first
    last = authenticate(client, scram.final(bytes(first.auth_bytes)))
    assert last.error_code or scram.trusts(bytes(last.auth_bytes))
    return last
