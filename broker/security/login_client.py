"""The client's half of a log-in: which tokens to send, and whether what comes back is to be trusted.

For tools; a test writes its own, so that one mistake cannot hide another. Source: RFC 4616, RFC 5802.
"""

from __future__ import annotations

import base64
import binascii
import hashlib
import hmac
from collections.abc import Callable
from typing import Final

from ottla.broker.security.scram import SCRAM_KINDS

_NONCE_BYTES: Final = 18
_ITERATIONS_MAX: Final = 1_000_000
"""More would let a server keep this client busy for minutes."""

Ask = Callable[[bytes], bytes]
"""Sends a token and returns the server's."""


class NotTrusted(Exception):
    """The server could not prove that it knows the password, or sent what is no answer."""


def log_in(mechanism: str, user: str, password: str, ask: Ask, random_bytes: Callable[[int], bytes]) -> None:
    """Sends what there is to send. Raises NotTrusted, and what `ask` raises; ValueError for another mechanism."""
    if mechanism == "PLAIN":
        ask(f"\0{user}\0{password}".encode())
        return
    if mechanism not in SCRAM_KINDS:
        raise ValueError(f"{mechanism}: allowed are PLAIN, {', '.join(SCRAM_KINDS)}")
    name = SCRAM_KINDS[mechanism].hash
    nonce = base64.b64encode(random_bytes(_NONCE_BYTES)).decode()
    bare = f"n={user.replace('=', '=3D').replace(',', '=2C')},r={nonce}"
    first = ask(f"n,,{bare}".encode()).decode("utf-8", "replace")
    server_nonce, salt, iterations = _told(first, nonce)
    salted = hashlib.pbkdf2_hmac(name, password.encode(), salt, iterations)
    client_key = hmac.digest(salted, b"Client Key", name)
    without_proof = f"c=biws,r={server_nonce}"
    signed = f"{bare},{first},{without_proof}".encode()
    signature = hmac.digest(hashlib.new(name, client_key).digest(), signed, name)
    proof = base64.b64encode(bytes(a ^ b for a, b in zip(client_key, signature, strict=True))).decode()
    last = ask(f"{without_proof},p={proof}".encode())
    expected = b"v=" + base64.b64encode(hmac.digest(hmac.digest(salted, b"Server Key", name), signed, name))
    if not hmac.compare_digest(last.partition(b",")[0], expected):
        raise NotTrusted("the broker does not know the password")


def _told(message: str, nonce: str) -> tuple[str, bytes, int]:
    """The whole nonce, the salt and the iterations. Raises NotTrusted."""
    told = dict(item.partition("=")[::2] for item in message.split(","))
    try:
        server_nonce, salt, iterations = told["r"], base64.b64decode(told["s"], validate=True), int(told["i"])
    except (KeyError, ValueError, binascii.Error):
        raise NotTrusted("the broker's answer is none of SCRAM") from None
    if not server_nonce.startswith(nonce) or server_nonce == nonce or not 0 < iterations <= _ITERATIONS_MAX:
        raise NotTrusted("the broker's nonce or its iterations are not as they must be")
    return server_nonce, salt, iterations
