"""The client side of SASL: makes the tokens to send, and verifies the server's responses.

It is used by the command-line tools, by `ottla audit`, and by nodes that connect to other nodes. Tests have their own implementation, so
that an error here is not hidden by the same error there. Names and passwords are used as UTF-8, without SASLprep. Sources: RFC 4616, RFC
5802, RFC 7628; KAFKA ScramSaslClient.
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
"""The hash function of each SCRAM mechanism."""
_ITERATIONS_MIN: Final = 4096
_NONCE_BYTES: Final = 18
_ITERATIONS_MAX: Final = 1_000_000
"""The maximum number of SCRAM iterations: with more, a server could keep this client busy for minutes."""
_ITERATIONS_OF_KAFKA: Final = 16_384
"""The maximum number of SCRAM iterations that Kafka allows for a user. The client computes them in a few milliseconds."""

Ask = Callable[[bytes], bytes]
"""A function that sends a token to the server and returns the server's token."""

Tokens = Generator[bytes, bytes, None]
"""A generator of one SASL authentication: it yields each token to send, and receives the server's response to it. It raises NotTrusted if a
response is invalid or the server cannot prove its identity."""


class NotTrusted(Exception):
    """The server could not prove that it knows the password, or its response is invalid."""


def log_in(mechanism: str, user: str, password: str, ask: Ask, random_bytes: Callable[[int], bytes], *, by_token: bool = False) -> None:
    """Authenticate with PLAIN or SCRAM: `ask` sends a token to the server and returns its response. With `by_token`, `user` and `password`
    are the id and HMAC (base64) of a delegation token (KIP-48).

    Raises NotTrusted, any error of `ask`, and ValueError for an unknown mechanism or for PLAIN with `by_token`.
    """
    send_all(tokens_of(mechanism, user, password, random_bytes, by_token=by_token), ask)


def send_all(tokens: Tokens, ask: Ask) -> None:
    """Run one authentication: send each of `tokens` with `ask`, which sends a token and returns the server's response. Raises NotTrusted
    and any error of `ask`."""
    with suppress(StopIteration):
        token = next(tokens)
        while True:
            token = tokens.send(ask(token))


def tokens_of(mechanism: str, user: str, password: str, random_bytes: Callable[[int], bytes], *, by_token: bool = False) -> Tokens:
    """Return a generator of the SASL tokens for PLAIN or SCRAM. With `by_token`, `user` and `password` are the id and HMAC (base64) of a
    delegation token (KIP-48). `random_bytes` makes the nonce.

    Raises ValueError for another mechanism, and for PLAIN with `by_token`.
    """
    if mechanism == "PLAIN" and not by_token:
        return _plain(user, password)
    if mechanism not in SCRAM_HASHES:
        raise ValueError(f"{mechanism}: allowed are {'' if by_token else 'PLAIN, '}{', '.join(SCRAM_HASHES)}")
    return _scram(mechanism, user, password, random_bytes, ",tokenauth=true" if by_token else "")


def takes_long(challenge: bytes) -> bool:
    """Return whether the response to the server's SCRAM message `challenge` takes too long to compute on the event loop. An attacker who
    impersonates the server could send such a message."""
    return _iterations(_items(challenge.decode("utf-8", "replace"))) > _ITERATIONS_OF_KAFKA


def bearer_tokens(token: str) -> Tokens:
    """Generate the client's messages of OAUTHBEARER (RFC 7628): the token and, if the server responds with an error, an acknowledgment.

    After the acknowledgment the server fails the authentication.
    """
    if (yield f"n,,\x01auth=Bearer {token}\x01\x01".encode()):
        yield b"\x01"


def _plain(user: str, password: str) -> Tokens:
    yield f"\0{user}\0{password}".encode()


def _scram(mechanism: str, user: str, password: str, random_bytes: Callable[[int], bytes], extensions: str) -> Tokens:
    name = SCRAM_HASHES[mechanism]
    nonce = base64.b64encode(random_bytes(_NONCE_BYTES)).decode()
    bare = f"n={user.replace('=', '=3D').replace(',', '=2C')},r={nonce}{extensions}"
    first = (yield f"n,,{bare}".encode()).decode("utf-8", "replace")
    server_nonce, salt, iterations = _parse_server_first(first, nonce)
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


def _parse_server_first(message: str, nonce: str) -> tuple[str, bytes, int]:
    """Parse the server's first SCRAM message; return (nonce, salt, iterations). `nonce` is the client's, with which the server's must
    begin. Raises NotTrusted if the message, the nonce or the number of iterations is invalid."""
    items = _items(message)
    try:
        server_nonce, salt, iterations = items["r"], base64.b64decode(items["s"], validate=True), _iterations(items)
    except (KeyError, ValueError, binascii.Error):
        raise NotTrusted("the broker's response is not valid SCRAM") from None
    if not server_nonce.startswith(nonce) or server_nonce == nonce or not 0 < iterations <= _ITERATIONS_MAX:
        raise NotTrusted("the broker's nonce or iteration count is invalid")
    return server_nonce, salt, iterations


def _items(message: str) -> dict[str, str]:
    return dict(item.partition("=")[::2] for item in message.split(","))


def _iterations(items: Mapping[str, str]) -> int:
    """Parse the iteration count of a SCRAM message; return 0, which the callers reject, if it is not a number."""
    text = items.get("i", "")
    return int(text) if text.isascii() and text.isdecimal() and len(text) <= len(str(_ITERATIONS_MAX)) else 0
