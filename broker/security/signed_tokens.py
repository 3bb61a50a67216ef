"""Validation of signed OAUTHBEARER tokens with the keys of a JSON Web Key Set (JWKS). Imported only if such tokens are configured.

Invariants:
* The key determines the permitted algorithms, not the token alone: a token that names HS256 matches no RSA or EC key, and a token that
  names `none` matches no key at all.
* Claims are checked after the signature. A token must have an expiry time and an issue time, and an expected audience. If no audience is
  configured, the token must not name one, unless every audience is allowed.
* A log message names the problem and contains no part of the token.

PyJWT verifies signatures and parses keys. The choice of the key and the required claims follow Kafka and jose4j, which Kafka uses.

Source: KAFKA BrokerJwtValidator, ClaimValidationUtils; jose4j VerificationJwkSelector, JwtConsumer.
"""

from __future__ import annotations

import base64
import binascii
import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final, NamedTuple, Protocol

import jwt

from ottla.broker.security.oauthbearer import BadToken, Bearer

_PARTS: Final = 3
_OF_RSA: Final = tuple(f"{kind}{bits}" for kind in ("RS", "PS") for bits in (256, 384, 512))
_KEY_OF: Final[Mapping[str, tuple[str, str | None]]] = {
    **dict.fromkeys(_OF_RSA, ("RSA", None)),
    "ES256": ("EC", "P-256"),
    "ES384": ("EC", "P-384"),
    "ES512": ("EC", "P-521"),
    "EdDSA": ("OKP", "Ed25519"),
    **dict.fromkeys(("HS256", "HS384", "HS512"), ("oct", None)),
}
"""The key type and the curve (None for key types without one) that each signature algorithm requires."""
_ALGORITHM_OF_KEY: Final = {"RSA": "RS256", "OKP": "EdDSA", "oct": "HS256", "P-256": "ES256", "P-384": "ES384", "P-521": "ES512"}
_THUMBPRINTS: Final = ("x5t", "x5t#S256")
_TIME_MAX: Final = 1e12


class SigningKey(NamedTuple):
    """One key of a JSON Web Key Set: the members of its JWK (JSON object), and the parsed key."""

    data: Mapping[str, Any]
    key: Any


def read_key_set(text: bytes) -> list[SigningKey]:
    """Parse a JWKS document and return its keys. Keys that cannot be used are skipped, as in jose4j. Raises ValueError if the document is
    no JWKS."""
    try:
        found = json.loads(text, object_pairs_hook=_members)["keys"]
    except (KeyError, TypeError, RecursionError):
        found = None
    if not isinstance(found, list):
        raise ValueError("not a JSON Web Key Set: it has no list of keys")
    keys = []
    for data in found:
        if isinstance(data, dict) and (key := _key_of(data)) is not None:
            keys.append(SigningKey(data, key))
    return keys


def _key_of(data: Mapping[str, Any]) -> Any:
    name = data.get("crv") if data.get("kty") == "EC" else data.get("kty")
    try:
        key = jwt.PyJWK({**data}, _ALGORITHM_OF_KEY[str(name)]).key
    except (KeyError, ValueError, TypeError, jwt.PyJWTError):
        return None
    return key.public_key() if hasattr(key, "public_key") else key


class KeySource(Protocol):
    """The source of the keys that verify signed tokens: a JWKS document in a file or at a URL (`ottla.broker.net.jwks`)."""

    def current_keys(self) -> Sequence[SigningKey]:
        """Return the current keys that verify tokens. Raises OSError or ValueError if they cannot be read."""
        ...

    def maybe_expedite_refresh(self, kid: str) -> None:
        """Fetch the JWKS document again soon, because a token names the key id `kid`, which is unknown (KAFKA
        RefreshingHttpsJwks.maybeExpediteRefresh)."""
        ...


@dataclass(frozen=True, slots=True)
class ClaimRules:
    """Rules for the claims of a signed token: `sasl.oauthbearer.expected.audience` and related settings. `skew_s` is the allowed clock skew
    in seconds.

    If `issuer` is None, any issuer is accepted; if `audiences` is None, any audience. If `audiences` is empty, a token must not name an
    audience.
    """

    audiences: frozenset[str] | None = frozenset()
    issuer: str | None = None
    scope_claim: str = "scope"
    sub_claim: str = "sub"
    skew_s: int = 30


class SignedTokenValidator:
    """Validates signed OAUTHBEARER tokens. Their times are compared with the wall clock. `log_problem` gets the reason why a token is
    invalid."""

    def __init__(self, source: KeySource, rules: ClaimRules, now_ms: Callable[[], int], log_problem: Callable[[str], object]) -> None:
        self._source, self._rules, self._now_ms, self._log_problem = source, rules, now_ms, log_problem

    def validate(self, token: str) -> Bearer:
        """Return the user and the expiry time of a signed token if it is valid, otherwise raise BadToken. The reason goes to `log_problem`;
        the client learns only that the token is invalid."""
        try:
            return self._validated(token)
        except BadToken as error:
            self._log_problem(str(error))
            raise

    def _validated(self, token: str) -> Bearer:
        parts = token.split(".")
        if len(parts) != _PARTS or not all(parts):
            raise BadToken("the token does not have three parts")
        header = _object(parts[0], "header")
        algorithm = header.get("alg")
        if not isinstance(algorithm, str) or algorithm not in _KEY_OF:
            raise BadToken("the token's algorithm is not allowed")
        key = self._key(header, algorithm)
        try:
            jwt.PyJWS().decode_complete(token, key.key, [algorithm], {"verify_signature": True, "enforce_minimum_key_length": True})
        except (jwt.PyJWTError, ValueError, TypeError) as error:
            raise BadToken(f"the token's signature is invalid ({type(error).__name__})") from None
        return self._bearer(_object(parts[1], "claims"))

    def _key(self, header: Mapping[str, Any], algorithm: str) -> SigningKey:
        kid = header.get("kid")
        if kid is not None and not isinstance(kid, str):
            raise BadToken("the token's key id is not a string")
        try:
            found = select(self._source.current_keys(), header, algorithm)
        except (OSError, ValueError, TypeError) as error:  # TypeError: a key set may contain any type instead of a string
            raise BadToken(f"the keys cannot be read: {error}") from None
        if found is None:
            if kid is not None:
                self._source.maybe_expedite_refresh(kid)
            raise BadToken("no key of the set matches the token")
        if found.data.get("crv") != _KEY_OF[algorithm][1]:
            raise BadToken("the token's algorithm does not match its key")
        return found

    def _bearer(self, claims: Mapping[str, Any]) -> Bearer:
        rules, now_s = self._rules, self._now_ms() // 1000
        if rules.audiences is not None:
            _check_audience(claims.get("aud"), rules.audiences)
        if rules.issuer is not None and claims.get("iss") != rules.issuer:
            raise BadToken("the token's issuer is not sasl.oauthbearer.expected.issuer")
        for name in ("iss", "sub", "jti"):
            if not isinstance(claims.get(name), str | None):
                raise BadToken(f"the token's claim {name} is not a string")
        expires_s, issued_s, begins_s = _time(claims, "exp"), _time(claims, "iat"), _time(claims, "nbf")
        if expires_s is None or issued_s is None:
            raise BadToken("the token lacks its expiry time (exp) or its issue time (iat)")
        if now_s - rules.skew_s >= expires_s:
            raise BadToken("the token has expired")
        if expires_s < issued_s or (begins_s is not None and expires_s < begins_s):
            raise BadToken("the token expires before it becomes valid")
        if begins_s is not None and now_s + rules.skew_s < begins_s:
            raise BadToken("the token is not valid yet (nbf)")
        _check_scope(claims.get(rules.scope_claim))
        if expires_s < 0 or issued_s < 0:
            raise BadToken("the token's times are negative")
        return Bearer(_text(claims.get(rules.sub_claim), "name"), expires_s * 1000)


def select(keys: Sequence[SigningKey], header: Mapping[str, Any], algorithm: str) -> SigningKey | None:
    """Return the first key that fits the header of a token, or None. The key's type must fit `algorithm`. If the header has a `kid`, the
    key must have the same. Certificate thumbprints must be equal only if header and key both have one."""
    kind, curve = _KEY_OF[algorithm]

    def fits(data: Mapping[str, Any]) -> bool:
        operations = data.get("key_ops")
        return (
            data.get("kty") == kind
            and header.get("kid") in {None, data.get("kid")}
            and data.get("use") in {None, "sig"}
            and (operations is None or "verify" in operations)
            and all(data.get(name) in {None, header[name]} for name in _THUMBPRINTS if isinstance(header.get(name), str))
        )

    found = [key for key in keys if fits(key.data)]
    if len(found) > 1:
        found = [key for key in found if key.data.get("alg") in {None, algorithm}]
    if len(found) > 1 and curve is not None:
        found = [key for key in found if key.data.get("crv") == curve]
    return found[0] if found else None


def _members(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    found = dict(pairs)
    if len(found) != len(pairs):
        raise ValueError("an object has a duplicate member")
    return found


def _object(part: str, name: str) -> dict[str, Any]:
    try:
        data = base64.b64decode(part + "=" * (-len(part) % 4), b"-_", validate=True)
        found = json.loads(data, object_pairs_hook=_members, parse_constant=_no_number)
    except (ValueError, binascii.Error, RecursionError):
        found = None
    if not isinstance(found, dict):
        raise BadToken(f"the token's {name} cannot be parsed")
    return found


def _no_number(text: str) -> float:
    raise ValueError(text)


def _time(claims: Mapping[str, Any], name: str) -> int | None:
    value = claims.get(name)
    if value is None:
        return None
    if isinstance(value, bool) or not isinstance(value, int | float) or not abs(value) < _TIME_MAX:
        raise BadToken(f"the token's claim {name} is not a time")
    return int(value)


def _check_audience(claim: Any, expected: frozenset[str]) -> None:
    named = [] if claim is None else [claim] if isinstance(claim, str) else claim
    if not isinstance(named, list) or not all(isinstance(each, str) for each in named):
        raise BadToken("the token's audience is not a string or a list of strings")
    if claim is not None and not expected:
        raise BadToken("the token has an audience, but sasl.oauthbearer.expected.audience is not set")
    if expected and expected.isdisjoint(named):
        raise BadToken("the token's audience is not in sasl.oauthbearer.expected.audience")


def _check_scope(claim: Any) -> None:
    """Raise BadToken if the scope claim of a token is invalid. The claim may be missing; otherwise every item must be a string, without
    duplicates."""
    scopes = [claim] if isinstance(claim, str) else claim if isinstance(claim, list) else []
    texts = [_text(scope, "scope") for scope in scopes]
    if len(set(texts)) != len(texts):
        raise BadToken("the token's scope has a duplicate item")


def _text(value: Any, name: str) -> str:
    if not isinstance(value, str) or not value.strip():
        raise BadToken(f"the token's {name} is not a non-empty string")
    return value.strip().encode("utf-8", "replace").decode()  # JSON can contain a lone surrogate, which cannot be encoded in a response
