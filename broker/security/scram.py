"""SCRAM-SHA-256 and -512: the client proves that it knows the password, and the broker that it knows a key derived from the password (RFC
5802, KIP-84).

Invariants:
* The client's messages are parsed with Kafka's patterns, and the signed text is rebuilt from the parsed fields. A legal but unusual message
  fails here if it fails in Kafka.
* Names and passwords are UTF-8 bytes, without SASLprep.
* The response for an unknown user is the same as for a wrong password.

Source: KAFKA ScramSaslServer, ScramMessages, ScramFormatter, ScramMechanism.
"""

from __future__ import annotations

import base64
import hashlib
import hmac
import re
from collections.abc import Callable
from typing import Final, NamedTuple

from ottla.broker.security.mechanism import InvalidSaslMessage, SaslAuthenticationError, SaslError

_ALPHA: Final = "[A-Za-z]+"
_VALUE: Final = r"[\x01-\x2b\x2d-\x7f]+"
_PRINTABLE: Final = r"[\x21-\x2b\x2d-\x7e]+"
_SASLNAME: Final = r"(?:[\x01-\x2b\x2d-\x3c\x3e-\x7f]|=2C|=3D)+"
_BASE64_CHAR: Final = "[a-zA-Z0-9/+]"
_BASE64: Final = f"(?:{_BASE64_CHAR}{{4}})*(?:{_BASE64_CHAR}{{3}}=|{_BASE64_CHAR}{{2}}==)?"
_EXTENSIONS: Final = f"(?:,{_ALPHA}={_VALUE})*"
_FIRST: Final = re.compile(
    f"n,(?:a=(?P<authzid>{_SASLNAME}))?,(?:m={_VALUE},)?n=(?P<name>{_SASLNAME}),r=(?P<nonce>{_PRINTABLE})(?P<extensions>{_EXTENSIONS})"
)
_FINAL: Final = re.compile(f"c=(?P<channel>{_BASE64}),r=(?P<nonce>{_PRINTABLE}){_EXTENSIONS},p=(?P<proof>{_BASE64})")
_NONCE_BITS: Final = 130
_DIGITS: Final = "0123456789abcdefghijklmnopqrstuvwxyz"
TOKEN_EXTENSION: Final = "tokenauth"


class ScramKind(NamedTuple):
    """A SCRAM mechanism: its name, its number in metadata records and requests, its hash function, and the allowed range of iterations."""

    name: str
    number: int
    hash: str
    min_iterations: int = 4096
    max_iterations: int = 16_384


SHA_256: Final = ScramKind("SCRAM-SHA-256", 1, "sha256")
SHA_512: Final = ScramKind("SCRAM-SHA-512", 2, "sha512")
SCRAM_KINDS: Final = {kind.name: kind for kind in (SHA_256, SHA_512)}


class Credential(NamedTuple):
    """A SCRAM credential: the form in which a user's password is stored. If it belongs to a delegation token, `owner` and `expires_ms` are
    the token's."""

    salt: bytes
    stored_key: bytes
    server_key: bytes
    iterations: int
    owner: str | None = None
    expires_ms: int | None = None


def salted_password(kind: ScramKind, password: str, salt: bytes, iterations: int) -> bytes:
    """Return the password salted and hashed `iterations` times (`Hi` of RFC 5802). This takes milliseconds."""
    return hashlib.pbkdf2_hmac(kind.hash, password.encode(), salt, iterations)


def credential_of(kind: ScramKind, salted: bytes, salt: bytes, iterations: int) -> Credential:
    """Return the credential to store for a password. `salted` is the password after salting and hashing, as `salted_password` returns
    it."""
    client_key = hmac.digest(salted, b"Client Key", kind.hash)
    return Credential(salt, hashlib.new(kind.hash, client_key).digest(), hmac.digest(salted, b"Server Key", kind.hash), iterations)


FindCredential = Callable[[str, bool], Credential | None]
"""A function that returns a stored credential or None: that of the user with this name or, if its second argument is true, of the
delegation token with this id."""


class Scram:
    """One client's authentication in progress with SCRAM. `random_bits(n)` returns n random bits for the server's part of the nonce."""

    def __init__(self, kind: ScramKind, find: FindCredential, random_bits: Callable[[int], int]) -> None:
        self._kind, self._find, self._random_bits = kind, find, random_bits
        self._credential: Credential | None = None
        self._nonce = ""
        self._signed = ""
        self._failed = False
        self.complete = False
        self.user = ""
        self.by_token = False
        self.expires_ms: int | None = None

    def evaluate(self, token: bytes) -> bytes:
        """Process the client's first or final SCRAM message and return the server's response to it. If authentication fails, raises
        SaslAuthenticationError, SaslError or InvalidSaslMessage, which differ in the text that the client receives."""
        try:
            if self.complete or self._failed:
                raise SaslAuthenticationError(f"Unexpected challenge in Sasl server state {'COMPLETE' if self.complete else 'FAILED'}")
            message = token.decode("utf-8", "replace")
            return (self._first(message) if self._credential is None else self._final(message, self._credential)).encode()
        except (SaslAuthenticationError, SaslError, InvalidSaslMessage):
            self._failed = True
            raise

    def _first(self, message: str) -> str:
        match = _FIRST.fullmatch(message)
        if match is None:
            raise SaslError("Invalid SCRAM client first message format")
        extensions = dict(item.split("=", 1) for item in match["extensions"].split(",")[1:])
        by_token = extensions.get(TOKEN_EXTENSION, "").lower() == "true"
        name = match["name"].replace("=2C", ",").replace("=3D", "=")  # in this order: =3D2C is the text =2C
        found = self._find(name, by_token)
        if found is None:
            raise SaslError(
                "Token Authentication failed: Invalid tokenId" if by_token else "Authentication failed: Invalid user credentials"
            )
        if match["authzid"] and match["authzid"] != name:
            raise SaslAuthenticationError("Authentication failed: Client requested an authorization id that is different from username")
        if found.iterations < self._kind.min_iterations:
            raise SaslError(f"Iterations {found.iterations} is less than the minimum {self._kind.min_iterations} for {self._kind.name}")
        self._credential, self.by_token, self.expires_ms = found, by_token, found.expires_ms
        self.user = name if found.owner is None else found.owner
        self._nonce = match["nonce"] + _in_base_36(self._random_bits(_NONCE_BITS))
        salt = base64.b64encode(found.salt).decode()
        answer = f"r={self._nonce},s={salt},i={found.iterations}"
        # Kafka rebuilds this text from a map whose order differs from one JVM to the next; for a single extension the result is the same.
        rest = "".join(f",{key}={value}" for key, value in extensions.items())
        self._signed = f"n={match['name']},r={match['nonce']}{rest},{answer}"
        return answer

    def _final(self, message: str, credential: Credential) -> str:
        match = _FINAL.fullmatch(message)
        if match is None:
            raise SaslError("Invalid SCRAM client final message format")
        if match["nonce"] != self._nonce:
            raise SaslError("Invalid client nonce in the final client message.")
        channel = base64.b64encode(base64.b64decode(match["channel"])).decode()
        signed = f"{self._signed},c={channel},r={self._nonce}".encode()
        signature = hmac.digest(credential.stored_key, signed, self._kind.hash)
        proof = base64.b64decode(match["proof"])
        if len(proof) != len(signature):
            raise InvalidSaslMessage(f"a proof of {len(proof)} bytes instead of {len(signature)}")
        client_key = bytes(a ^ b for a, b in zip(signature, proof, strict=True))
        if not hmac.compare_digest(hashlib.new(self._kind.hash, client_key).digest(), credential.stored_key):
            raise SaslError("Invalid client credentials")
        self.complete = True
        return "v=" + base64.b64encode(hmac.digest(credential.server_key, signed, self._kind.hash)).decode()


def _in_base_36(number: int) -> str:
    digits = ""
    while number:
        number, digit = divmod(number, 36)
        digits = _DIGITS[digit] + digits
    return digits or "0"
