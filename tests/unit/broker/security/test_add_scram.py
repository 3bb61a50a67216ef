from __future__ import annotations

import base64

import pytest

from ottla.broker.security.add_scram import parsed_scram
from ottla.broker.security.scram import SHA_256, SHA_512, credential_of, salted_password


def drawn(count: int) -> bytes:
    return b"s" * count


def test_a_password_is_salted_with_kafkas_defaults() -> None:
    user, kind, kept = parsed_scram(' SCRAM-SHA-256=[name=alice,password="se cret"]', drawn)
    assert (user, kind) == ("alice", SHA_256)
    assert kept == credential_of(SHA_256, salted_password(SHA_256, "se cret", drawn(24), 4096), drawn(24), 4096)


def test_salt_iterations_and_a_salted_password_can_be_given() -> None:
    salted = salted_password(SHA_512, "secret", b"salt", 8192)
    texts = [base64.b64encode(each).decode() for each in (b"salt", salted)]
    by_password = f"SCRAM-SHA-512=[name=a,password=secret,salt={texts[0]},iterations=8192]"
    by_salted = f'SCRAM-SHA-512=[name=a,saltedpassword="{texts[1]}",salt="{texts[0]}",iterations=8192]'
    assert (
        parsed_scram(by_password, drawn) == parsed_scram(by_salted, drawn) == ("a", SHA_512, credential_of(SHA_512, salted, b"salt", 8192))
    )


@pytest.mark.parametrize(
    ("argument", "words"),
    [
        ("SCRAM-SHA-256", "Failed to find equals sign in SCRAM argument"),
        ("SCRAM-SHA-1=[name=a,password=secret]", "The add-scram mechanism SCRAM-SHA-1 is not supported"),
        ("SCRAM-SHA-256=name=a,password=secret", r"Expected configuration string to start with \["),
        ("SCRAM-SHA-256=[password=secret]", "You must supply 'name'"),
        ("SCRAM-SHA-256=[name=a]", "You must supply one of 'password' or 'saltedpassword'"),
        ("SCRAM-SHA-256=[name=a,saltedpassword=c2VjcmV0]", "You must supply 'salt' with 'saltedpassword'"),
        ("SCRAM-SHA-256=[name=a,password=se,cret]", "No equals sign found in a SCRAM component"),
        ("SCRAM-SHA-256=[name=a,password=secret,iterations=4095]", "must be >= 4096 for add-scram using SCRAM-SHA-256"),
        ("SCRAM-SHA-256=[name=a,password=secret,iterations=16385]", "must be <= 16384"),
        ("SCRAM-SHA-256=[name=a,password=secret,iterations=many]", "Failed to parse iterations count"),
        ("SCRAM-SHA-256=[name=a,password=secret,salt=?]", "Failed to decode given salt"),
        ("SCRAM-SHA-256=[name=a,password=secret,x=1]", "Unknown SCRAM configurations: x"),
    ],
)
def test_invalid_arguments_are_rejected_in_kafkas_words_without_the_password(argument: str, words: str) -> None:
    with pytest.raises(ValueError, match=words) as caught:
        parsed_scram(argument, drawn)
    assert "secret" not in str(caught.value)
    assert "cret" not in str(caught.value)
