from __future__ import annotations

import hmac
import time
from dataclasses import replace

import pytest

from ottla.broker.cluster.features import METADATA_VERSION
from ottla.broker.cluster.image import MetadataImage
from ottla.broker.cluster.metadata_records import DelegationTokenRecord, RemoveDelegationTokenRecord
from ottla.broker.controller.delegation_tokens import (
    NewToken,
    TokenRules,
    create_token,
    expire_token,
    remove_expired_tokens,
    renew_token,
)
from ottla.broker.core import limits
from ottla.broker.core.principal import Principal
from ottla.broker.core.rejected import Rejected
from ottla.protocol.error_codes import ErrorCode
from ottla.protocol.messages.k38_create_delegation_token import CreatableRenewers, CreateDelegationTokenRequest
from ottla.protocol.messages.k39_renew_delegation_token import RenewDelegationTokenRequest
from ottla.protocol.messages.k40_expire_delegation_token import ExpireDelegationTokenRequest
from tests.support.controllers import LiveController

NOW = 1_000_000
RULES = TokenRules("secret", max_lifetime_ms=10_000, renewed_for_ms=1_000)
ALICE, BOB, EVE = Principal("User", "alice"), Principal("User", "bob"), Principal("User", "eve")


def request(lifetime_ms: int = -1, owner: str | None = None, renewer_type: str = "User") -> CreateDelegationTokenRequest:
    kind = None if owner is None else "User"
    return CreateDelegationTokenRequest(kind, owner, [CreatableRenewers(renewer_type, "bob")], lifetime_ms)


def made(controller: LiveController, creation: CreateDelegationTokenRequest | None = None) -> NewToken:
    return controller.run(
        create_token(controller.state.image, RULES, ALICE, creation or request(), NOW, random_bytes=controller.state.random.randbytes)
    )


def renew(controller: LiveController, proof: bytes, period_ms: int = -1, *, who: Principal = ALICE, now: int = NOW) -> int:
    return controller.run(renew_token(controller.state.image, RULES, who, RenewDelegationTokenRequest(proof, period_ms), now))


def expire(controller: LiveController, proof: bytes, period_ms: int = -1, *, who: Principal = ALICE, now: int = NOW) -> int:
    return controller.run(expire_token(controller.state.image, RULES, who, ExpireDelegationTokenRequest(proof, period_ms), now))


def test_a_token_has_its_owner_and_an_hmac_of_the_secret() -> None:
    controller = LiveController()
    token = made(controller, request(owner="carol"))
    assert controller.log[-1] == token.record
    assert token.record == DelegationTokenRecord(
        "User:carol", "User:alice", ["User:bob"], NOW, NOW + 10_000, NOW + 1_000, token.record.token_id
    )
    assert len(token.record.token_id) == 22
    assert token.hmac == hmac.digest(b"secret", token.record.token_id.encode(), "sha512")


def test_the_requester_is_the_default_owner() -> None:
    assert made(LiveController()).record.owner == "User:alice"


@pytest.mark.parametrize(
    ("max_lifetime", "lasts", "expires"), [(0, 10_000, 1_000), (500, 500, 500), (5_000, 5_000, 1_000), (20_000, 10_000, 1_000)]
)
def test_a_token_lifetime_is_limited(max_lifetime: int, lasts: int, expires: int) -> None:
    record = made(LiveController(), request(max_lifetime)).record
    assert (record.max_timestamp, record.expiration_timestamp) == (NOW + lasts, NOW + expires)


def test_a_principal_can_create_a_limited_number_of_tokens(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(limits, "TOKENS_OF_REQUESTER", 2)
    controller = LiveController()
    made(controller)
    token = made(controller, request(owner="carol"))
    with pytest.raises(Rejected) as refused:
        made(controller)
    assert refused.value.code is ErrorCode.POLICY_VIOLATION
    expire(controller, token.hmac, who=Principal("User", "carol"))
    made(controller)


def test_the_names_of_a_tokens_renewers_are_limited() -> None:
    names = ["x" * 1_024] * 16
    made(LiveController(), CreateDelegationTokenRequest(renewers=[CreatableRenewers("User", name) for name in names]))
    with pytest.raises(Rejected) as refused:
        made(LiveController(), CreateDelegationTokenRequest(renewers=[CreatableRenewers("User", name) for name in [*names, "y"]]))
    assert refused.value.code is ErrorCode.POLICY_VIOLATION


def test_unknown_hmac_is_rejected_without_recomputing_the_hmacs_of_all_tokens() -> None:
    token = made(LiveController()).record
    image = MetadataImage(
        features={METADATA_VERSION: 25}, delegation_tokens={str(i): replace(token, token_id=str(i)) for i in range(10_000)}
    )
    began = time.thread_time()
    for _ in range(50):
        with pytest.raises(Rejected):
            renew_token(image, RULES, ALICE, RenewDelegationTokenRequest(bytes(64)), NOW)
    assert time.thread_time() - began < 0.6  # 0.1 s; computing them again takes 1.2 s


def test_renewers_must_be_users() -> None:
    with pytest.raises(Rejected) as refused:
        made(LiveController(), request(renewer_type="Group"))
    assert refused.value.code is ErrorCode.INVALID_PRINCIPAL_TYPE


@pytest.mark.parametrize(
    ("rules", "level", "code"),
    [(TokenRules(), 30, ErrorCode.DELEGATION_TOKEN_AUTH_DISABLED), (RULES, 13, ErrorCode.UNSUPPORTED_VERSION)],
)
def test_tokens_need_a_secret_and_their_metadata_version(rules: TokenRules, level: int, code: ErrorCode) -> None:
    image = LiveController(level=level).state.image
    for decide in (
        lambda: create_token(image, rules, ALICE, request(), NOW, random_bytes=bytes),
        lambda: renew_token(image, rules, ALICE, RenewDelegationTokenRequest(b"", 1), NOW),
        lambda: expire_token(image, rules, ALICE, ExpireDelegationTokenRequest(b"", 1), NOW),
    ):
        with pytest.raises(Rejected) as refused:
            decide()
        assert refused.value.code is code


@pytest.mark.parametrize("who", [ALICE, BOB])
def test_owner_and_renewers_can_renew_until_the_maximum(who: Principal) -> None:
    controller = LiveController()
    token = made(controller)
    assert renew(controller, token.hmac, 300, who=who, now=NOW + 500) == NOW + 800
    assert renew(controller, token.hmac, 9_999, who=who, now=NOW + 600) == NOW + 1_600
    assert renew(controller, token.hmac, who=who, now=NOW + 700) == NOW + 1_700
    assert controller.state.image.delegation_tokens[token.record.token_id].expiration_timestamp == NOW + 1_700


def test_a_token_is_not_renewed_beyond_its_maximum() -> None:
    controller = LiveController()
    token = made(controller, request(1_200))
    assert renew(controller, token.hmac, now=NOW + 900) == NOW + 1_200


def test_the_owner_can_expire_a_token() -> None:
    controller = LiveController()
    token = made(controller)
    assert expire(controller, token.hmac, 100, now=NOW + 10) == NOW + 110
    assert expire(controller, token.hmac, now=NOW + 20) == NOW + 20
    assert controller.log[-1] == RemoveDelegationTokenRecord(token.record.token_id)
    assert controller.state.image.delegation_tokens == {}


@pytest.mark.parametrize("change", [renew, expire])
def test_only_owner_and_renewers_change_an_unexpired_token(change: object) -> None:
    controller = LiveController()
    token = made(controller)
    act = renew if change is renew else expire
    for proof, who, now, code in (
        (b"x" * 64, ALICE, NOW, ErrorCode.DELEGATION_TOKEN_NOT_FOUND),
        (token.hmac, EVE, NOW, ErrorCode.DELEGATION_TOKEN_OWNER_MISMATCH),
        (token.hmac, ALICE, NOW + 1_001, ErrorCode.DELEGATION_TOKEN_EXPIRED),
    ):
        with pytest.raises(Rejected) as refused:
            act(controller, proof, 5, who=who, now=now)
        assert refused.value.code is code


def test_expired_tokens_are_removed() -> None:
    controller = LiveController()
    ends, stays = made(controller, request(100)), made(controller)
    assert not controller.run(remove_expired_tokens(controller.state.image, NOW + 100))
    assert len(controller.state.image.delegation_tokens) == 2
    controller.run(remove_expired_tokens(controller.state.image, NOW + 101))
    assert controller.log[-1] == RemoveDelegationTokenRecord(ends.record.token_id)
    assert list(controller.state.image.delegation_tokens) == [stays.record.token_id]
