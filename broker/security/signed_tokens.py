"""Tokens of OAUTHBEARER that somebody signed: whom they are for, judged by the keys of a JWK set. Imported only where they are judged.

Rules that hold inside:
- The key says by which algorithms it may be used, never the token alone: a token that names HS256 finds no key of RSA or EC, and one that
  names `none` finds none at all.
- What a token claims counts once its signature is good. It ends, it says when it was issued, and it is for who is expected; without an
  expected audience it must name none.
- A text for the log tells what is wrong, and nothing of the token.

Signatures and keys are PyJWT's affair; which key is taken, and what is asked of the claims, is Kafka's and that of jose4j, which it uses.

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
"""The kind of key, and the curve, that an algorithm needs."""
_READ_AS: Final = {"RSA": "RS256", "OKP": "EdDSA", "oct": "HS256", "P-256": "ES256", "P-384": "ES384", "P-521": "ES512"}
_THUMBPRINTS: Final = ("x5t", "x5t#S256")
_TIME_MAX: Final = 1e12


class SigningKey(NamedTuple):
    """One key of a set: what it says of itself, and what the library made of it."""

    data: Mapping[str, Any]
    key: Any


def read_key_set(text: bytes) -> list[SigningKey]:
    """The keys of a JSON Web Key Set that can be used; others are passed over, as by jose4j. Raises ValueError for what is none."""
    try:
        found = json.loads(text, object_pairs_hook=_members)["keys"]
    except (KeyError, TypeError, RecursionError):
        found = None
    if not isinstance(found, list):
        raise ValueError("no JSON Web Key Set: it has no list of keys")
    keys = []
    for data in found:
        if isinstance(data, dict) and (key := _key_of(data)) is not None:
            keys.append(SigningKey(data, key))
    return keys


def _key_of(data: Mapping[str, Any]) -> Any:
    name = data.get("crv") if data.get("kty") == "EC" else data.get("kty")
    try:
        key = jwt.PyJWK({**data}, _READ_AS[str(name)]).key
    except (KeyError, ValueError, TypeError, jwt.PyJWTError):
        return None
    return key.public_key() if hasattr(key, "public_key") else key


class KeySource(Protocol):
    """Where the keys are."""

    def known(self) -> Sequence[SigningKey]:
        """Those that are known. Raises OSError or ValueError where they cannot be read."""
        ...

    def missed(self, kid: str) -> None:
        """A token names a key that is not known."""
        ...


@dataclass(frozen=True, slots=True)
class ClaimRules:
    """`sasl.oauthbearer.expected.audience` and the others; no issuer: any will do."""

    audiences: frozenset[str] = frozenset()
    issuer: str | None = None
    scope_claim: str = "scope"
    sub_claim: str = "sub"
    skew_s: int = 30


class SignedTokens:
    """Judges them, by the wall clock."""

    def __init__(self, source: KeySource, rules: ClaimRules, now_ms: Callable[[], int], tell: Callable[[str], object]) -> None:
        self._source, self._rules, self._now_ms, self._tell = source, rules, now_ms, tell

    def judge(self, token: str) -> Bearer:
        """See `oauthbearer.Judge`. What is wrong is told to `tell`: its client is told only that it does not do."""
        try:
            return self._judged(token)
        except BadToken as error:
            self._tell(str(error))
            raise

    def _judged(self, token: str) -> Bearer:
        parts = token.split(".")
        if len(parts) != _PARTS or not all(parts):
            raise BadToken("it does not have three parts")
        header = _object(parts[0], "header")
        algorithm = header.get("alg")
        if not isinstance(algorithm, str) or algorithm not in _KEY_OF:
            raise BadToken("its algorithm is not allowed")
        key = self._key(header, algorithm)
        try:
            jwt.PyJWS().decode_complete(token, key.key, [algorithm], {"verify_signature": True, "enforce_minimum_key_length": True})
        except (jwt.PyJWTError, ValueError, TypeError) as error:
            raise BadToken(f"its signature is not good ({type(error).__name__})") from None
        return self._bearer(_object(parts[1], "claims"))

    def _key(self, header: Mapping[str, Any], algorithm: str) -> SigningKey:
        kid = header.get("kid")
        if kid is not None and not isinstance(kid, str):
            raise BadToken("the id of its key is no text")
        try:
            found = select(self._source.known(), header, algorithm)
        except (OSError, ValueError, TypeError) as error:  # or not compared: a set may have anything for a text
            raise BadToken(f"the keys cannot be read: {error}") from None
        if found is None:
            if kid is not None:
                self._source.missed(kid)
            raise BadToken("no key of the set is for it")
        if found.data.get("crv") != _KEY_OF[algorithm][1]:
            raise BadToken("its algorithm is not that of its key")
        return found

    def _bearer(self, claims: Mapping[str, Any]) -> Bearer:
        rules, now_s = self._rules, self._now_ms() // 1000
        _check_audience(claims.get("aud"), rules.audiences)
        if rules.issuer is not None and claims.get("iss") != rules.issuer:
            raise BadToken("its issuer is not sasl.oauthbearer.expected.issuer")
        for name in ("iss", "sub", "jti"):
            if not isinstance(claims.get(name), str | None):
                raise BadToken(f"its claim {name} is no text")
        expires_s, issued_s, begins_s = _time(claims, "exp"), _time(claims, "iat"), _time(claims, "nbf")
        if expires_s is None or issued_s is None:
            raise BadToken("it does not say when it ends (exp) and when it was issued (iat)")
        if now_s - rules.skew_s >= expires_s:
            raise BadToken("it has expired")
        if expires_s < issued_s or (begins_s is not None and expires_s < begins_s):
            raise BadToken("it ends before it begins")
        if begins_s is not None and now_s + rules.skew_s < begins_s:
            raise BadToken("it is not good yet (nbf)")
        _check_scope(claims.get(rules.scope_claim))
        if expires_s < 0 or issued_s < 0:
            raise BadToken("its times are negative")
        return Bearer(_text(claims.get(rules.sub_claim), "name"), expires_s * 1000)


def select(keys: Sequence[SigningKey], header: Mapping[str, Any], algorithm: str) -> SigningKey | None:
    """The key for a token with this header; what neither says does not count."""
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
        raise ValueError("a member of an object is there twice")
    return found


def _object(part: str, name: str) -> dict[str, Any]:
    try:
        data = base64.b64decode(part + "=" * (-len(part) % 4), b"-_", validate=True)
        found = json.loads(data, object_pairs_hook=_members, parse_constant=_no_number)
    except (ValueError, binascii.Error, RecursionError):
        found = None
    if not isinstance(found, dict):
        raise BadToken(f"its {name} cannot be read")
    return found


def _no_number(text: str) -> float:
    raise ValueError(text)


def _time(claims: Mapping[str, Any], name: str) -> int | None:
    value = claims.get(name)
    if value is None:
        return None
    if isinstance(value, bool) or not isinstance(value, int | float) or not abs(value) < _TIME_MAX:
        raise BadToken(f"its claim {name} is no time")
    return int(value)


def _check_audience(claim: Any, expected: frozenset[str]) -> None:
    named = [] if claim is None else [claim] if isinstance(claim, str) else claim
    if not isinstance(named, list) or not all(isinstance(each, str) for each in named):
        raise BadToken("its audience is no text")
    if claim is not None and not expected:
        raise BadToken("it is for an audience, and sasl.oauthbearer.expected.audience names none")
    if expected and expected.isdisjoint(named):
        raise BadToken("its audience is none of sasl.oauthbearer.expected.audience")


def _check_scope(claim: Any) -> None:
    """It need not be there; what is there has to be texts, each once."""
    scopes = [claim] if isinstance(claim, str) else claim if isinstance(claim, list) else []
    texts = [_text(scope, "scope") for scope in scopes]
    if len(set(texts)) != len(texts):
        raise BadToken("its scope names something twice")


def _text(value: Any, name: str) -> str:
    if not isinstance(value, str) or not value.strip():
        raise BadToken(f"its {name} is no text")
    return value.strip().encode("utf-8", "replace").decode()  # JSON can name half a character, which nothing can be told with
