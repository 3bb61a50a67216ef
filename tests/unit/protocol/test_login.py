"""The client side of SASL authentication: against the broker's own server side, and against servers that break the protocol."""

from __future__ import annotations

import base64
from collections.abc import Callable
from random import Random

import pytest

from ottla.broker.security.mechanism import SaslError
from ottla.broker.security.scram import SCRAM_KINDS, SHA_512, Scram, credential_of, salted_password
from ottla.protocol.login import NotTrusted, bearer_tokens, log_in, tokens_of

SALT = b"of the sea"


def server(password: str = "secret") -> Scram:
    kept = credential_of(SHA_512, salted_password(SHA_512, password, SALT, 4096), SALT, 4096)
    return Scram(SHA_512, lambda name, _: kept if name == "a=b,c" else None, Random(2).getrandbits)


def scram(ask: Callable[[bytes], bytes]) -> None:
    log_in("SCRAM-SHA-512", "a=b,c", "secret", ask, Random(1).randbytes)


def test_scram_client_authenticates_with_the_password_and_verifies_the_server() -> None:
    there = server()
    scram(there.evaluate)
    assert (there.complete, there.user) == (True, "a=b,c")
    with pytest.raises(SaslError):
        scram(server("other").evaluate)


@pytest.mark.parametrize(
    ("first", "last", "words"),
    [
        ("r={nonce}x,s={salt},i=4096", "v=AAAA", "does not know the password"),
        ("r={nonce}x,s={salt},i=4095", "", "Requested iterations 4095 is less than the minimum 4096 for SCRAM-SHA-512"),
        ("r={nonce}x,s={salt},i=1000001", "", "nonce or iteration count"),
        ("r={nonce},s={salt},i=4096", "", "nonce or iteration count"),
        ("r=x{nonce},s={salt},i=4096", "", "nonce or iteration count"),
        ("r={nonce}x,s=?,i=4096", "", "not valid SCRAM"),
        ("nothing", "", "not valid SCRAM"),
    ],
)
def test_server_without_the_password_is_not_trusted(first: str, last: str, words: str) -> None:
    def answer(token: bytes) -> bytes:
        nonce = token.rpartition(b"r=")[2].decode()
        return (first.format(nonce=nonce, salt=base64.b64encode(SALT).decode()) if token.startswith(b"n,,") else last).encode()

    with pytest.raises(NotTrusted, match=words):
        scram(answer)


@pytest.mark.parametrize("mechanism", SCRAM_KINDS)
def test_delegation_token_authentication_sends_the_tokenauth_extension(mechanism: str) -> None:
    kind, lookups = SCRAM_KINDS[mechanism], list[tuple[str, bool]]()
    kept = credential_of(kind, salted_password(kind, "hmac", SALT, 4096), SALT, 4096)
    there = Scram(kind, lambda name, by_token: lookups.append((name, by_token)) or kept, Random(2).getrandbits)
    log_in(mechanism, "id", "hmac", there.evaluate, Random(1).randbytes, by_token=True)
    assert (there.complete, there.by_token, lookups) == (True, True, [("id", True)])


def test_rejected_bearer_token_is_acknowledged_and_an_accepted_one_ends_the_exchange() -> None:
    refused, taken = bearer_tokens("a.b."), bearer_tokens("a.b.")
    assert next(refused) == next(taken) == b"n,,\x01auth=Bearer a.b.\x01\x01"
    assert refused.send(b'{"status":"invalid_token"}') == b"\x01"
    with pytest.raises(StopIteration):
        taken.send(b"")


def test_unsupported_mechanism_is_rejected_with_the_supported_ones() -> None:
    with pytest.raises(ValueError, match=f"GSSAPI: allowed are PLAIN, {', '.join(SCRAM_KINDS)}"):
        tokens_of("GSSAPI", "a", "b", Random(1).randbytes)
    with pytest.raises(ValueError, match=f"PLAIN: allowed are {', '.join(SCRAM_KINDS)}"):
        tokens_of("PLAIN", "id", "hmac", Random(1).randbytes, by_token=True)
