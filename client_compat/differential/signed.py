"""Signed OAUTHBEARER tokens, valid and invalid in many ways, for two brokers that read the issuer's keys from one JWKS file."""

from __future__ import annotations

import base64
import hashlib
import hmac
import json
import time
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import jwt
from cryptography.hazmat.primitives.asymmetric import ec, rsa
from cryptography.hazmat.primitives.serialization import Encoding, PublicFormat
from jwt.algorithms import ECAlgorithm, RSAAlgorithm

ALLOWED_URLS = "org.apache.kafka.sasl.oauthbearer.allowed.urls"
AUDIENCE, ISSUER = "us", "https://issuer"
HOUR_S = 3_600


@dataclass(slots=True)
class Issuer:
    """An OAuth issuer with newly generated keys. Its key set (JWKS) is written to `file`."""

    file: Path
    key: rsa.RSAPrivateKey = field(default_factory=lambda: rsa.generate_private_key(65537, 2048))
    other: rsa.RSAPrivateKey = field(default_factory=lambda: rsa.generate_private_key(65537, 2048))
    ec_key: ec.EllipticCurvePrivateKey = field(default_factory=lambda: ec.generate_private_key(ec.SECP256R1()))

    def __post_init__(self) -> None:
        keys = [
            {**RSAAlgorithm.to_jwk(self.key.public_key(), as_dict=True), "kid": "r", "use": "sig"},
            {**ECAlgorithm.to_jwk(self.ec_key.public_key(), as_dict=True), "kid": "e"},
            {**RSAAlgorithm.to_jwk(self.other.public_key(), as_dict=True), "kid": "enc", "use": "enc"},
            {"kty": "oct", "kid": "o", "k": _part(b"s" * 32)},
            {"kty": "what", "kid": "w"},
        ]
        self.file.write_text(json.dumps({"keys": keys}))

    def settings(self, prefix: str) -> dict[str, str]:
        """Return the OAUTHBEARER settings of a listener; `prefix` is `listener.name.x.oauthbearer.`."""
        return {
            f"{prefix}sasl.server.callback.handler.class": f"{_OAUTH}.OAuthBearerValidatorCallbackHandler",
            f"{prefix}sasl.jaas.config": f"{_OAUTH}.OAuthBearerLoginModule required;",
            f"{prefix}sasl.oauthbearer.jwks.endpoint.url": self.file.as_uri(),
            f"{prefix}sasl.oauthbearer.expected.audience": f"others,{AUDIENCE}",
            f"{prefix}sasl.oauthbearer.expected.issuer": ISSUER,
        }

    def tokens(self) -> Mapping[str, str]:
        """Return a signed token of each variant, valid and invalid, by a description of the variant."""
        return {**self._by_header(), **self._by_claims()}

    def _by_header(self) -> dict[str, str]:
        good, claims = self._token(), _claims()
        head, body, signature = good.split(".")
        pem = self.key.public_key().public_bytes(Encoding.PEM, PublicFormat.SubjectPublicKeyInfo)
        return {
            "right": good,
            "of no key's name": self._token(kid=None),
            "by EC": jwt.encode(claims, self.ec_key, "ES256", {"kid": "e"}),
            "by EC, of no key's name": jwt.encode(claims, self.ec_key, "ES256"),
            "PS256": jwt.encode(claims, self.key, "PS256", {"kid": "r"}),
            "RS512": jwt.encode(claims, self.key, "RS512", {"kid": "r"}),
            "symmetric": jwt.encode(claims, b"s" * 32, "HS256", {"kid": "o"}),
            "by the public key": _by_hmac({"alg": "HS256", "kid": "r"}, claims, pem),
            "by the public key, of no key's name": _by_hmac({"alg": "HS256"}, claims, pem),
            "other key": jwt.encode(claims, self.other, "RS256", {"kid": "r"}),
            "key for another use": jwt.encode(claims, self.other, "RS256", {"kid": "enc"}),
            "unknown key": self._token(kid="x"),
            "key's name a number": f"{_part({'alg': 'RS256', 'kid': 7})}.{body}.{signature}",
            "none": f"{_part({'alg': 'none', 'kid': 'r'})}.{body}.x",
            "none, unsigned": f"{_part({'alg': 'none'})}.{body}.",
            "unknown algorithm": f"{_part({'alg': 'RS1', 'kid': 'r'})}.{body}.{signature}",
            "of the other kind": f"{_part({'alg': 'ES256', 'kid': 'r'})}.{body}.{signature}",
            "changed": f"{head}.{_part({**claims, 'sub': 'bob'})}.{signature}",
            "cut": f"{head}.{body}.{signature[:-8]}",
            "two parts": f"{head}.{body}",
            "four parts": f"{good}.x",
            "no JSON": f"{_part(b'x')}.{body}.{signature}",
            "critical": self._token(header={"crit": ["x"], "x": 1}),
        }

    def _by_claims(self) -> dict[str, str]:
        now_s = int(time.time())
        changes: dict[str, dict[str, Any]] = {
            "expired": {"exp": now_s - 60, "iat": now_s - 120},
            "without an end": {"exp": None},
            "without a beginning": {"iat": None},
            "begins later": {"nbf": now_s + HOUR_S // 2},
            "issued later": {"iat": now_s + HOUR_S // 2},
            "issued after its end": {"iat": now_s + 2 * HOUR_S},
            "end a text": {"exp": str(now_s + HOUR_S)},
            "end a fraction": {"exp": now_s + HOUR_S + 0.5},
            "end a truth": {"exp": True},
            "other audience": {"aud": "them"},
            "one of its audiences": {"aud": ["them", "others"]},
            "audience a number": {"aud": 7},
            "no audience": {"aud": None},
            "other issuer": {"iss": "https://other"},
            "no issuer": {"iss": None},
            "issuer a list": {"iss": [ISSUER]},
            "no name": {"sub": None},
            "blank name": {"sub": " "},
            "name with blanks": {"sub": " ann "},
            "name a number": {"sub": 7},
            "scopes": {"scope": ["a", " b"]},
            "scopes, one twice": {"scope": ["a", " a"]},
            "blank scope": {"scope": " "},
            "empty scope": {"scope": ""},
            "scope a number": {"scope": 7},
            "id a number": {"jti": 7},
        }
        return {name: self._token(**change) for name, change in changes.items()}

    def _token(self, kid: str | None = "r", header: dict[str, Any] | None = None, **changes: Any) -> str:
        """Return a signed token. It is made by hand, because PyJWT refuses to create some of the invalid ones."""
        claims = {name: value for name, value in {**_claims(), **changes}.items() if value is not None}
        named = {} if kid is None else {"kid": kid}
        head = f"{_part({'alg': 'RS256', **named, **(header or {})})}.{_part(claims)}"
        return f"{head}.{_part(RSAAlgorithm(RSAAlgorithm.SHA256).sign(head.encode(), self.key))}"


_OAUTH = "org.apache.kafka.common.security.oauthbearer"


def _claims() -> dict[str, Any]:
    now_s = int(time.time())
    return {"sub": "ann", "iat": now_s - 60, "exp": now_s + HOUR_S, "aud": AUDIENCE, "iss": ISSUER}


def _by_hmac(header: dict[str, str], claims: dict[str, Any], key: bytes) -> str:
    head = f"{_part(header)}.{_part(claims)}"
    return f"{head}.{_part(hmac.digest(key, head.encode(), hashlib.sha256))}"


def _part(value: object) -> str:
    data = value if isinstance(value, bytes) else json.dumps(value).encode()
    return base64.urlsafe_b64encode(data).decode().rstrip("=")
