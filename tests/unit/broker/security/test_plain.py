from __future__ import annotations

import pytest

from ottla.broker.security.mechanism import SaslAuthenticationError
from ottla.broker.security.plain import Plain

USERS = {"ann": "pass word", "bö": "ö"}


@pytest.mark.parametrize(("token", "user"), [("\0ann\0pass word", "ann"), ("ann\0ann\0pass word", "ann"), ("\0bö\0ö", "bö")])
def test_valid_credentials_authenticate_the_user(token: str, user: str) -> None:
    plain = Plain(USERS)
    assert plain.evaluate(token.encode()) == b""
    assert (plain.complete, plain.user) == (True, user)


@pytest.mark.parametrize(
    ("token", "words"),
    [
        (b"ann", "Invalid SASL/PLAIN response: expected 3 tokens, got 1"),
        (b"\0ann\0pass word\0", "Invalid SASL/PLAIN response: expected 3 tokens, got 4"),
        (b"\0ann\0pass word\0\0\0", "Invalid SASL/PLAIN response: expected 3 tokens, got 4"),
        (b"\0\0pass word", "Authentication failed: username not specified"),
        (b"\0ann\0", "Authentication failed: password not specified"),
        (b"\0ann\0Pass word", "Authentication failed: Invalid username or password"),
        (b"\0eve\0pass word", "Authentication failed: Invalid username or password"),
        (b"bob\0ann\0pass word", "Authentication failed: Client requested an authorization id that is different from username"),
        (b"\xff\0\xff\0\xff", "Authentication failed: Invalid username or password"),
    ],
)
def test_invalid_credentials_are_rejected_in_kafkas_words(token: bytes, words: str) -> None:
    plain = Plain(USERS)
    with pytest.raises(SaslAuthenticationError) as caught:
        plain.evaluate(token)
    assert str(caught.value) == words
    assert not plain.complete
