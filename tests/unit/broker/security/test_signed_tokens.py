"""Tests of the validation of signed tokens, with real keys and a stopped clock."""

from __future__ import annotations

import hashlib
import hmac
import json
from collections.abc import Sequence
from typing import Any

import pytest
from cryptography.hazmat.primitives.serialization import Encoding, PublicFormat
from jwt.algorithms import RSAAlgorithm

from ottla.broker.security.oauthbearer import BadToken, Bearer
from ottla.broker.security.signed_tokens import ClaimRules, SignedTokenValidator, SigningKey, read_key_set
from tests.support.signed import ec_key, jwk, key_set, part, rsa_key, signed

NOW_S = 1_700_000_000
GOOD: dict[str, Any] = {"sub": "ann", "iat": NOW_S - 60, "exp": NOW_S + 60}
RSA, EC = rsa_key(), ec_key()
KEYS = key_set(
    jwk(RSA, "a"), jwk(EC, "e"), jwk(ec_key("P-384"), "e3"), jwk(rsa_key(1024), "small"), jwk(rsa_key(number=1), "enc", use="enc")
)
NO_KEY, ALGORITHM = "no key of the set matches the token", "the token's algorithm is not allowed"
NO_SIGNATURE = "the token's signature is invalid"


class Known:
    def __init__(self, text: bytes = KEYS) -> None:
        self.found, self.missed_ids = read_key_set(text), list[str]()

    def current_keys(self) -> Sequence[SigningKey]:
        return self.found

    def maybe_expedite_refresh(self, kid: str) -> None:
        self.missed_ids.append(kid)


def validated(token: str, rules: ClaimRules | None = None, known: Known | None = None) -> Bearer | str:
    """Return the Bearer of a valid token, or the logged problem of an invalid one."""
    problems: list[str] = []
    try:
        return SignedTokenValidator(known or Known(), rules or ClaimRules(), lambda: NOW_S * 1000, problems.append).validate(token)
    except BadToken:
        return " and ".join(problems)


@pytest.mark.parametrize("alg", ["RS256", "RS384", "RS512", "PS256", "PS384", "PS512", "ES256", "ES384"])
def test_a_signed_token_identifies_its_subject_until_it_expires(alg: str) -> None:
    key, kid = {"ES256": (EC, "e"), "ES384": (ec_key("P-384"), "e3")}.get(alg, (RSA, "a"))
    for named in (kid, None):
        assert validated(signed(key, alg, named, **GOOD)) == Bearer("ann", (NOW_S + 60) * 1000)


def tampered(token: str, **claims: Any) -> str:
    header, _, signature = token.split(".")
    return f"{header}.{part({**GOOD, **claims})}.{signature}"


def hmac_with_the_public_key() -> str:
    """Return a token signed with HS256, whose secret is a public key: valid only for a validator that trusts the algorithm in the token."""
    pem = RSA.public_key().public_bytes(Encoding.PEM, PublicFormat.SubjectPublicKeyInfo)
    head = f"{part({'alg': 'HS256', 'kid': 'a'})}.{part(GOOD)}"
    return f"{head}.{part(hmac.digest(pem, head.encode(), hashlib.sha256))}"


def by_hand(header: dict[str, Any], claims: dict[str, Any]) -> str:
    """Return a token with any header and claims, signed with a valid key."""
    head = f"{part({'alg': 'RS256', 'kid': 'a', **header})}.{part(claims)}"
    return f"{head}.{part(RSAAlgorithm(RSAAlgorithm.SHA256).sign(head.encode(), RSA))}"


def with_header(header: Any) -> str:
    return f"{part(header)}.{signed(RSA, **GOOD).split('.', 1)[1]}"


@pytest.mark.parametrize(
    ("token", "problems"),
    [
        (tampered(signed(RSA, **GOOD), sub="bob"), NO_SIGNATURE),
        (signed(rsa_key(number=1), **GOOD), NO_SIGNATURE),
        (signed(ec_key("P-256"), "ES256", "a", **GOOD), NO_KEY),
        (signed(RSA, "RS256", "b", **GOOD), NO_KEY),
        (signed(rsa_key(number=1), "RS256", "enc", **GOOD), NO_KEY),
        (hmac_with_the_public_key(), NO_KEY),
        (f"{part({'alg': 'none', 'kid': 'a'})}.{part(GOOD)}.x", ALGORITHM),
        (f"{part({'alg': 'none'})}.{part(GOOD)}.", "the token does not have three parts"),
        (with_header({"alg": "None"}), ALGORITHM),
        (with_header({"alg": ["RS256"]}), ALGORITHM),
        (with_header({"kid": "a"}), ALGORITHM),
        (with_header({"alg": "RS512", "kid": "a"}), NO_SIGNATURE),
        (with_header({"alg": "RS256", "kid": 7}), "the token's key id is not a string"),
        (by_hand({"crit": ["x"], "x": 1}, GOOD), f"{NO_SIGNATURE} (InvalidTokenError)"),
        (with_header({"alg": "ES384", "kid": "e"}), "the token's algorithm does not match its key"),
        (with_header(b'{"alg":"RS256","alg":"none"}'), "the token's header cannot be parsed"),
        (with_header(b"[" * 100_000), "the token's header cannot be parsed"),
        (with_header([1]), "the token's header cannot be parsed"),
        ("a.b.c", "the token's header cannot be parsed"),
        ("a.b", "the token does not have three parts"),
        ("a.b.c.d.e", "the token does not have three parts"),
        ("", "the token does not have three parts"),
        ("." * 500_000, "the token does not have three parts"),
        (f"{part({'alg': 'RS256', 'kid': 'a', 'x': 'y' * 400_000})}.{part(GOOD)}.{'A' * 400_000}", NO_SIGNATURE),
        (f"{part({'alg': 'RS256', 'kid': 'small'})}.{part(GOOD)}.AAAA", NO_SIGNATURE),
    ],
)
def test_a_token_that_no_key_of_the_set_verifies_is_invalid(token: str, problems: str) -> None:
    assert problems in str(validated(token))


@pytest.mark.parametrize(
    ("claims", "problems"),
    [
        ({"exp": NOW_S - 30}, "the token has expired"),
        ({"exp": None}, "the token lacks its expiry time"),
        ({"iat": None}, "the token lacks its expiry time"),
        ({"exp": "never"}, "the token's claim exp is not a time"),
        ({"exp": True}, "the token's claim exp is not a time"),
        ({"exp": 1e300}, "the token's claim exp is not a time"),
        ({"iat": NOW_S + 61}, "the token expires before it becomes valid"),
        ({"nbf": NOW_S + 61}, "the token expires before it becomes valid"),
        ({"nbf": NOW_S + 31}, "the token is not valid yet"),
        ({"iat": -1}, "the token's times are negative"),
        ({"sub": " "}, "the token's name is not a non-empty string"),
        ({"sub": None}, "the token's name is not a non-empty string"),
        ({"iss": ["us"]}, "the token's claim iss is not a string"),
        ({"scope": ""}, "the token's scope is not a non-empty string"),
        ({"scope": ["a", 7]}, "the token's scope is not a non-empty string"),
        ({"scope": ["a", " a"]}, "the token's scope has a duplicate item"),
        ({"aud": "us"}, "the token has an audience"),
        ({"aud": {"us": 1}}, "the token's audience is not a string or a list of strings"),
    ],
)
def test_invalid_claims_are_reported(claims: dict[str, Any], problems: str) -> None:
    wanted = {name: value for name, value in {**GOOD, **claims}.items() if value is not None}
    assert problems in str(validated(by_hand({}, wanted)))


def test_clock_skew_and_claim_names_can_be_configured() -> None:
    rules = ClaimRules(frozenset({"us", "them"}), "https://issuer", "scp", "email", 5)
    claims = {"email": " ann@x ", "scp": ["r", "w"], "aud": ["others", "them"], "iss": "https://issuer", "iat": NOW_S - 9, "exp": NOW_S - 4}
    assert validated(signed(RSA, **claims), rules) == Bearer("ann@x", (NOW_S - 4) * 1000)
    for changed, problems in (
        ({"exp": NOW_S - 5}, "the token has expired"),
        ({"aud": "others"}, "the token's audience is not in"),
        ({"aud": []}, "the token's audience is not in"),
        ({"iss": "https://other"}, "the token's issuer is not"),
    ):
        assert problems in str(validated(signed(RSA, **{**claims, **changed}), rules))
    del claims["aud"], claims["iss"]
    assert "the token's audience is not in" in str(validated(signed(RSA, **claims), rules))


@pytest.mark.parametrize("audience", [None, "others", ["others"]])
def test_any_audience_can_be_allowed(audience: str | list[str] | None) -> None:
    claims = GOOD if audience is None else {**GOOD, "aud": audience}
    assert isinstance(validated(signed(RSA, **claims), ClaimRules(audiences=None)), Bearer)


def test_lone_surrogates_and_odd_key_sets_are_handled() -> None:
    assert validated(signed(RSA, **{**GOOD, "sub": "\ud800"})) == Bearer("?", (NOW_S + 60) * 1000)
    assert "the keys cannot be read" in str(validated(signed(RSA, **GOOD), known=Known(key_set({**jwk(RSA, "a"), "use": ["sig"]}))))


def test_an_unknown_key_id_triggers_a_fetch_and_a_known_one_does_not() -> None:
    known = Known()
    validated(signed(RSA, **GOOD), known=known)
    validated(signed(RSA, kid=None, **GOOD), known=Known(key_set()))
    assert known.missed_ids == []
    validated(signed(RSA, kid="new", **GOOD), known=known)
    assert known.missed_ids == ["new"]


def test_the_key_whose_alg_matches_is_preferred() -> None:
    other = rsa_key(number=1)
    known = Known(key_set(jwk(other, "a", alg="RS512"), jwk(RSA, "a", alg="RS256"), jwk(ec_key("P-384"), "e"), jwk(EC, "e")))
    assert isinstance(validated(signed(RSA, **GOOD), known=known), Bearer)
    assert isinstance(validated(signed(EC, "ES256", "e", **GOOD), known=known), Bearer)
    assert isinstance(validated(signed(other, "RS512", **GOOD), known=known), Bearer)


def test_unusable_keys_are_skipped_and_an_invalid_key_set_is_reported() -> None:
    odd = [{"kty": "RSA"}, {"kty": "x"}, {}, 7, {"kty": "EC", "crv": "P-256", "x": "AA", "y": "AA"}, {**jwk(RSA, "a"), "n": 1}]
    assert [key.data["kid"] for key in read_key_set(json.dumps({"keys": [*odd, jwk(RSA, "good")]}).encode())] == ["good"]
    for text in (b"", b"[]", b'{"keys": {}}', b'{"keys": [], "keys": []}', b"[" * 100_000, b"\xff"):
        with pytest.raises(ValueError, match=r".+"):
            read_key_set(text)
