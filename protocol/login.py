"""The client's half of a log-in: which tokens to send, and whether what comes back is to be trusted.

For tools, the audit, and nodes that dial others; a test writes its own, so that one mistake cannot hide another. Names and passwords are
the bytes of their UTF-8, without SASLprep. Source: RFC 4616, RFC 5802, RFC 7628; KAFKA ScramSaslClient.
"""

from __future__ import annotations

import base64
import binascii
import hashlib
import hmac
from collections.abc import Callable, Generator, Mapping
from contextlib import suppress
from typing import Final

SCRAM_HASHES: Final[Mapping[str, str]] = {"SCRAM-SHA-256": "sha256", "SCRAM-SHA-512": "sha512"}
"""By the mechanism."""
_ITERATIONS_MIN: Final = 4096
_NONCE_BYTES: Final = 18
_ITERATIONS_MAX: Final = 1_000_000
"""More would let a server keep this client busy for minutes."""
_ITERATIONS_OF_KAFKA: Final = 16_384
"""So many Kafka lets a user have; they take some milliseconds."""

Ask = Callable[[bytes], bytes]
"""Sends a token and returns the server's."""

Tokens = Generator[bytes, bytes, None]
"""Gives the tokens of one log-in; it is sent what the server said to each. Raises NotTrusted."""


class NotTrusted(Exception):
    """The server could not prove that it knows the password, or sent what is no answer."""


def log_in(mechanism: str, user: str, password: str, ask: Ask, random_bytes: Callable[[int], bytes], *, by_token: bool = False) -> None:
    """Sends what there is to send. Raises NotTrusted, and what `ask` raises; ValueError as `tokens_of`."""
    send_all(tokens_of(mechanism, user, password, random_bytes, by_token=by_token), ask)


def send_all(tokens: Tokens, ask: Ask) -> None:
    """One log-in. Raises NotTrusted, and what `ask` raises."""
    with suppress(StopIteration):
        token = next(tokens)
        while True:
            token = tokens.send(ask(token))


def tokens_of(mechanism: str, user: str, password: str, random_bytes: Callable[[int], bytes], *, by_token: bool = False) -> Tokens:
    """Those of one who has a name and a password or, `by_token`, the id and the HMAC (in base64) of a delegation token (KIP-48).

    Raises ValueError for another mechanism, and for PLAIN by token.
    """
    if mechanism == "PLAIN" and not by_token:
        return _plain(user, password)
    if mechanism not in SCRAM_HASHES:
        raise ValueError(f"{mechanism}: allowed are {'' if by_token else 'PLAIN, '}{', '.join(SCRAM_HASHES)}")
    return _scram(mechanism, user, password, random_bytes, ",tokenauth=true" if by_token else "")


def takes_long(said: bytes) -> bool:
    """Whether the answer to this message of SCRAM takes so long to compute that nobody else should wait for it. Anybody can send one who
    is reached in the place of a server."""
    return _iterations(_items(said.decode("utf-8", "replace"))) > _ITERATIONS_OF_KAFKA


def bearer_tokens(token: str) -> Tokens:
    """That of one who shows a token (RFC 7628). A refusal is acknowledged, and then told."""
    if (yield f"n,,\x01auth=Bearer {token}\x01\x01".encode()):
        yield b"\x01"


def _plain(user: str, password: str) -> Tokens:
    yield f"\0{user}\0{password}".encode()


def _scram(mechanism: str, user: str, password: str, random_bytes: Callable[[int], bytes], extensions: str) -> Tokens:
    name = SCRAM_HASHES[mechanism]
    nonce = base64.b64encode(random_bytes(_NONCE_BYTES)).decode()
    bare = f"n={user.replace('=', '=3D').replace(',', '=2C')},r={nonce}{extensions}"
    first = (yield f"n,,{bare}".encode()).decode("utf-8", "replace")
    server_nonce, salt, iterations = _told(first, nonce)
    if iterations < _ITERATIONS_MIN:
        raise NotTrusted(f"Requested iterations {iterations} is less than the minimum {_ITERATIONS_MIN} for {mechanism}")
    salted = hashlib.pbkdf2_hmac(name, password.encode(), salt, iterations)
    client_key = hmac.digest(salted, b"Client Key", name)
    without_proof = f"c=biws,r={server_nonce}"
    signed = f"{bare},{first},{without_proof}".encode()
    signature = hmac.digest(hashlib.new(name, client_key).digest(), signed, name)
    proof = base64.b64encode(bytes(a ^ b for a, b in zip(client_key, signature, strict=True))).decode()
    last = yield f"{without_proof},p={proof}".encode()
    expected = b"v=" + base64.b64encode(hmac.digest(hmac.digest(salted, b"Server Key", name), signed, name))
    if not hmac.compare_digest(last.partition(b",")[0], expected):
        raise NotTrusted("the broker does not know the password")


def _told(message: str, nonce: str) -> tuple[str, bytes, int]:
    """The whole nonce, the salt and the iterations. Raises NotTrusted."""
    told = _items(message)
    try:
        server_nonce, salt, iterations = told["r"], base64.b64decode(told["s"], validate=True), _iterations(told)
    except (KeyError, ValueError, binascii.Error):
        raise NotTrusted("the broker's answer is none of SCRAM") from None
    if not server_nonce.startswith(nonce) or server_nonce == nonce or not 0 < iterations <= _ITERATIONS_MAX:
        raise NotTrusted("the broker's nonce or its iterations are not as they must be")
    return server_nonce, salt, iterations


def _items(message: str) -> dict[str, str]:
    return dict(item.partition("=")[::2] for item in message.split(","))


def _iterations(told: Mapping[str, str]) -> int:
    """0, which nobody takes, where they are no number."""
    text = told.get("i", "")
    return int(text) if text.isascii() and text.isdecimal() and len(text) <= len(str(_ITERATIONS_MAX)) else 0
