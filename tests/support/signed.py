"""Keys of a token issuer, its key set as JSON, and signed or forged tokens."""

from __future__ import annotations

import base64
import json
from functools import cache
from typing import Any

import jwt
from cryptography.hazmat.primitives.asymmetric import ec, rsa

CURVES = {"P-256": ec.SECP256R1, "P-384": ec.SECP384R1}


@cache
def rsa_key(bits: int = 2048, number: int = 0) -> rsa.RSAPrivateKey:
    """Return a key, the same for the same number, because generating one takes long."""
    return rsa.generate_private_key(65537, bits)


@cache
def ec_key(curve: str = "P-256") -> ec.EllipticCurvePrivateKey:
    return ec.generate_private_key(CURVES[curve]())


def jwk(key: Any, kid: str | None, **others: Any) -> dict[str, Any]:
    """Return the public key as a JWK."""
    kind = jwt.algorithms.RSAAlgorithm if isinstance(key, rsa.RSAPrivateKey) else jwt.algorithms.ECAlgorithm
    named = {} if kid is None else {"kid": kid}
    return {**kind.to_jwk(key.public_key(), as_dict=True), **named, **others}


def key_set(*keys: dict[str, Any]) -> bytes:
    return json.dumps({"keys": keys}).encode()


def signed(key: Any, alg: str = "RS256", kid: str | None = "a", header: dict[str, Any] | None = None, **claims: Any) -> str:
    """Sign a token, with `kid` in its header unless that is None."""
    return jwt.encode(claims, key, alg, {**({} if kid is None else {"kid": kid}), **(header or {})})


def part(value: Any) -> str:
    data = value if isinstance(value, bytes) else json.dumps(value).encode()
    return base64.urlsafe_b64encode(data).decode().rstrip("=")


def first_message(token: str) -> bytes:
    """Make the client's first message of OAUTHBEARER."""
    return f"n,,\x01auth=Bearer {token}\x01\x01".encode()
