from __future__ import annotations

import base64
import json
from typing import Any

import pytest

from ottla.broker.security.mechanism import InvalidSaslMessage, SaslAuthenticationError, SaslError
from ottla.broker.security.oauthbearer import OAuthBearer, UnsecuredTokenValidator

NOW_MS = 1_800_000_000_000
NOW_S = NOW_MS // 1000
NONE = {"alg": "none"}
NOT_A_NUMBER = b'{"sub":"ann","exp":NaN}'
INVALID = b'{"status":"invalid_token"}'


def part(value: Any) -> str:
    data = value if isinstance(value, bytes) else json.dumps(value).encode()
    return base64.urlsafe_b64encode(data).decode().rstrip("=")


def token(header: Any = NONE, signature: str = "", **claims: Any) -> str:
    return f"{part(header)}.{part({'sub': 'ann', 'iat': NOW_S, 'exp': NOW_S + 60} | claims)}.{signature}"


def first(value: str, authzid: str = "", scheme: str = "Bearer", rest: str = "") -> bytes:
    name = f"a={authzid}" if authzid else ""
    return f"n,{name},\x01auth={scheme} {value}\x01{rest}\x01".encode()


def server(**options: str) -> OAuthBearer:
    return OAuthBearer(UnsecuredTokenValidator(options, lambda: NOW_MS).validate)


@pytest.mark.parametrize(
    "message",
    [
        first(token()),
        first(token(), "ann"),
        first(token(), scheme="bEaReR"),
        first(token(), rest="traceId=1 2\t3\x01"),
        first(token(scope="a b")),
        first(token(iat=NOW_S - 0.5)),
    ],
)
def test_a_valid_token_authenticates_until_it_expires(message: bytes) -> None:
    bearer = server()
    assert bearer.evaluate(message) == b""
    assert (bearer.complete, bearer.user, bearer.expires_ms) == (True, "ann", NOW_MS + 60_000)


@pytest.mark.parametrize(
    "value",
    [
        "a.b",
        "a.b.c.d",
        "a..",
        token({"alg": "RS256"}),
        token(signature="AAAA"),
        f"{part(b'no json')}.{part({})}.",
        f"{part(NONE)}.A.",
        f"{part(NONE)}.{part(b'[' * 100_000)}.",
        f"{part(NONE)}.{part(NOT_A_NUMBER)}.",
        token(exp=NOW_S),
        token(exp="never"),
        token(exp=None),
        token(iat=NOW_S + 1),
        token(iat="now"),
        token(iat=NOW_S - 1, exp=NOW_S - 2),
        token(sub=" "),
        token(sub=7),
        token(scope=7),
    ],
)
def test_an_invalid_token_gets_a_json_response_and_fails_when_the_client_acknowledges_it(value: str) -> None:
    bearer = server()
    assert bearer.evaluate(first(value)) == INVALID
    assert not bearer.complete
    with pytest.raises(SaslAuthenticationError) as caught:
        bearer.evaluate(b"\x01")
    assert str(caught.value).encode() == INVALID


def test_a_missing_required_scope_is_reported() -> None:
    bearer = server(unsecuredValidatorRequiredScope="read write", unsecuredValidatorScopeClaimName="scp")
    assert bearer.evaluate(first(token(scp=["read"]))) == b'{"status":"insufficient_scope", "scope":"[read, write]"}'
    assert bearer.evaluate(first(token(scp=["read", " write "]))) == b""


def test_options_select_the_principal_claim_and_the_clock_skew() -> None:
    bearer = server(unsecuredValidatorPrincipalClaimName="who", unsecuredValidatorAllowableClockSkewMs="3000")
    assert bearer.evaluate(first(token(who="bob", exp=NOW_S - 2, iat=NOW_S - 9))) == b""
    assert bearer.user == "bob"
    for skew in ("-1", "soon"):
        with pytest.raises(ValueError, match=r"skew|soon"):
            UnsecuredTokenValidator({"unsecuredValidatorAllowableClockSkewMs": skew}, lambda: NOW_MS)


@pytest.mark.parametrize("message", [b"", b"\x01", b"y,,\x01auth=Bearer x\x01\x01", b"n,,\x01\x01", first("x y")])
def test_an_invalid_first_message_fails(message: bytes) -> None:
    with pytest.raises(SaslError):
        server().evaluate(message)


def test_another_authorization_id_is_rejected() -> None:
    with pytest.raises(
        SaslAuthenticationError, match=r"an authorization id \(bob\) that is different from the token's principal name \(ann\)"
    ):
        server().evaluate(first(token(), "bob"))


def test_a_name_with_a_lone_surrogate_can_be_encoded() -> None:
    bearer = server()
    bearer.evaluate(first(token(sub="\ud800")))
    assert bearer.user == "?"


def test_another_scheme_closes_the_connection() -> None:
    with pytest.raises(InvalidSaslMessage):
        server().evaluate(first(token(), scheme="Basic"))


@pytest.mark.parametrize("header", [{}, [], "text", b""])
def test_a_header_without_an_algorithm_closes_the_connection(header: Any) -> None:
    with pytest.raises(InvalidSaslMessage):
        server().evaluate(first(token(header)))
