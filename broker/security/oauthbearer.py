"""SASL OAUTHBEARER (RFC 7628, KIP-255) and the validation of unsigned tokens, which is Kafka's default and intended for tests only.

Invariants:
* The response to an invalid token is a JSON text with the error. Authentication fails, with that text, when the client has acknowledged the
  response.
* A token is not larger than its request, whose size is limited. No log message contains any part of a token.

Source: KAFKA OAuthBearerSaslServer, OAuthBearerClientInitialResponse, OAuthBearerUnsecuredValidatorCallbackHandler,
OAuthBearerUnsecuredJws.
"""

from __future__ import annotations

import base64
import binascii
import json
import math
import re
from collections.abc import Callable, Mapping
from typing import Any, Final, NamedTuple

from ottla.broker.security.mechanism import InvalidSaslMessage, SaslAuthenticationError, SaslError

_SASLNAME: Final = r"(?:[\x01-\x2b\x2d-\x3c\x3e-\x7f]|=2C|=3D)+"
_FIRST: Final = re.compile(rf"n,(?:a=(?P<authzid>{_SASLNAME}))?,\x01(?P<pairs>(?:[A-Za-z]+=[\x21-\x7e \t\r\n]+\x01)*)\x01")
_AUTH: Final = re.compile(r"(?P<scheme>[A-Za-z0-9_]+)[ ]+(?P<token>[-_~+/.a-zA-Z0-9]+=*)")
_BASE64_URL: Final = re.compile(r"[A-Za-z0-9_-]*={0,2}")
_ACKNOWLEDGED: Final = b"\x01"
_PARTS: Final = 3


class BadToken(Exception):
    """Raised for an invalid OAUTHBEARER token. If the token is invalid because it lacks a required scope, `scope` is that scope."""

    def __init__(self, why: str, scope: str | None = None) -> None:
        super().__init__(why)
        self.scope = scope


class Bearer(NamedTuple):
    """The information in a valid OAUTHBEARER token: the user, and the wall-clock time in ms at which the token expires."""

    user: str
    expires_ms: int


ValidateToken = Callable[[str], Bearer]
"""A function that validates a token and returns its user and its expiry time. For an invalid token, it raises BadToken or
InvalidSaslMessage."""


class OAuthBearer:
    """One client's authentication in progress with the SASL mechanism OAUTHBEARER."""

    by_token = False

    def __init__(self, validate: ValidateToken) -> None:
        self._validate = validate
        self._error_response: str | None = None
        self.complete = False
        self.user = ""
        self.expires_ms: int | None = None

    def evaluate(self, token: bytes) -> bytes:
        """Process the client's first message, which contains its token. Return an empty response for a valid token, otherwise a JSON text
        with the error.

        After such an error the client sends another message, an acknowledgement; for this message the method raises
        SaslAuthenticationError. It also raises SaslError or InvalidSaslMessage for a malformed message, and SaslAuthenticationError if the
        client requests another authorization id than the token's user.
        """
        if token == _ACKNOWLEDGED and self._error_response is not None:
            raise SaslAuthenticationError(self._error_response)
        self._error_response = None
        authzid, value = _read(token.decode("utf-8", "replace"))
        try:
            bearer = self._validate(value)
        except BadToken as error:
            status = "invalid_token" if error.scope is None else "insufficient_scope"
            scope = "" if error.scope is None else f', "scope":"{error.scope}"'
            self._error_response = f'{{"status":"{status}"{scope}}}'
            return self._error_response.encode()
        if authzid and authzid != bearer.user:
            raise SaslAuthenticationError(
                f"Authentication failed: Client requested an authorization id ({authzid}) that is different from the token's principal "
                f"name ({bearer.user})"
            )
        self.user, self.expires_ms, self.complete = bearer.user, bearer.expires_ms, True
        return b""


def _read(message: str) -> tuple[str, str]:
    """Parse the client's first OAUTHBEARER message. Return the authorization id, which may be empty, and the token. Raises SaslError for a
    malformed message, InvalidSaslMessage for an authorization scheme other than Bearer."""
    match = _FIRST.fullmatch(message)
    if match is None:
        raise SaslError("Invalid OAUTHBEARER client first message")
    pairs = dict(pair.split("=", 1) for pair in match["pairs"].split("\x01")[:-1])
    auth = pairs.get("auth")
    if auth is None:
        raise SaslError("Invalid OAUTHBEARER client first message: 'auth' not specified")
    found = _AUTH.fullmatch(auth)
    if found is None:
        raise SaslError("Invalid OAUTHBEARER client first message: invalid 'auth' format")
    if found["scheme"].lower() != "bearer":
        raise InvalidSaslMessage("Invalid scheme in OAUTHBEARER client first message")
    return match["authzid"] or "", found["token"]


class UnsecuredTokenValidator:
    """Validates unsigned OAUTHBEARER tokens, according to the login module's `unsecuredValidator…` options. The constructor raises
    ValueError for an invalid option."""

    def __init__(self, options: Mapping[str, str], now_ms: Callable[[], int]) -> None:
        def option(name: str, otherwise: str) -> str:
            return options.get(f"unsecuredValidator{name}", "").strip() or otherwise

        self._now_ms = now_ms
        self._principal, self._scope = option("PrincipalClaimName", "sub"), option("ScopeClaimName", "scope")
        self._required = option("RequiredScope", "").split()
        self._skew_ms = int(option("AllowableClockSkewMs", "0"))
        if self._skew_ms < 0:
            raise ValueError(f"Allowable clock skew millis must not be negative: {self._skew_ms}")

    def validate(self, token: str) -> Bearer:
        """Return the user and the expiry time of an unsigned token if it is valid. Raises BadToken or InvalidSaslMessage for an invalid
        token."""
        claims = _claims(token)
        scope = _scope(claims.get(self._scope))
        expires = _number(claims, "exp")
        if expires is None:
            raise BadToken("No expiration time in JWT")
        principal = claims.get(self._principal)
        if not isinstance(principal, str) or not principal.strip():
            raise BadToken("No principal name in JWT claim")
        issued = _number(claims, "iat")
        now_ms = self._now_ms()
        if issued is not None and 1000 * issued > now_ms + self._skew_ms:
            raise BadToken("The Issued At value was after the indicated time plus allowable clock skew")
        if now_ms - self._skew_ms >= 1000 * expires:
            raise BadToken("The indicated time minus allowable clock skew was on or after the Expiration Time value")
        if issued is not None and expires <= issued:
            raise BadToken("The Expiration Time time was not after the Issued At time")
        if not scope.issuperset(self._required):
            raise BadToken("The provided scope was missing a required scope", f"[{', '.join(self._required)}]")
        return Bearer(principal, math.floor(expires * 1000 + 0.5))


def _claims(token: str) -> Mapping[str, Any]:
    """Return the claims of an unsigned token. Raises BadToken for an invalid token, but InvalidSaslMessage for a header without an
    algorithm, because Kafka closes the connection then."""
    if ".." in token:
        raise BadToken("Malformed compact serialization contains '..'")
    parts = token.split(".")
    if len(parts) != _PARTS:
        raise BadToken("Unsecured JWS compact serializations must have 3 dot-separated Base64URL-encoded values")
    header, claims = _json(parts[0]), _json(parts[1])
    if header.get("alg") is None:
        raise InvalidSaslMessage("JWS header must have an Algorithm value")
    if header["alg"] != "none":
        raise BadToken("Unsecured JWS must have 'none' for an algorithm")
    if parts[2]:
        raise BadToken("Unsecured JWS must not contain a digital signature")
    return claims


def _json(part: str) -> dict[str, Any]:
    """Decode one part of a token (Base64 URL) to a JSON object; other JSON, or nothing, gives an empty object. Raises BadToken if the part
    is malformed, or if a value is neither a string, a number nor a list of strings, as in Kafka."""
    if _BASE64_URL.fullmatch(part) is None or ("=" in part and len(part) % 4):
        raise BadToken("malformed Base64 URL encoded value")
    try:
        data = base64.urlsafe_b64decode(part + "=" * (-len(part) % 4))
    except binascii.Error:
        raise BadToken("malformed Base64 URL encoded value") from None
    if not data:
        return {}
    try:
        found = json.loads(data, parse_constant=_no_number)
    except (ValueError, RecursionError):
        raise BadToken("malformed JSON") from None
    return {name: _converted(value) for name, value in found.items()} if isinstance(found, dict) else {}


def _no_number(text: str) -> float:
    raise ValueError(text)


def _converted(value: Any) -> str | float | list[str]:
    if isinstance(value, list):
        return [_as_text(each) for each in value]
    return value if isinstance(value, int | float) and not isinstance(value, bool) else _as_text(value)


def _as_text(value: Any) -> str:
    if isinstance(value, str):
        return value.encode("utf-8", "replace").decode()  # JSON can contain a lone surrogate, which cannot be encoded in a response
    if value is None or isinstance(value, bool):
        return {None: "null", True: "true", False: "false"}[value]
    return "" if isinstance(value, dict | list) else str(value)


def _number(claims: Mapping[str, Any], name: str) -> float | None:
    value = claims.get(name)
    if value is not None and (not isinstance(value, int | float) or not abs(value) < 1e15):
        raise BadToken(f"The '{name}' claim was not of type Number")
    return value


def _scope(claim: Any) -> set[str]:
    if isinstance(claim, str):
        return {claim.strip()} - {""}
    if isinstance(claim, list):
        return {each.strip() for each in claim} - {""}
    if claim is None:
        return set()
    raise BadToken("The scope claim was not of type List")
