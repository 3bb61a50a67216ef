from __future__ import annotations

import base64

import pytest

from ottla.broker.security.mechanism import InvalidSaslMessage, SaslAuthenticationError, SaslError
from ottla.broker.security.scram import SCRAM_KINDS, SHA_256, Credential, Scram, ScramKind, credential_of, salted_password
from tests.support.logins import ScramClient

SALT = b"0123456789"


def server(kind: ScramKind = SHA_256, name: str = "ann", iterations: int = 4096) -> Scram:
    kept = credential_of(kind, salted_password(kind, "pass word", SALT, iterations), SALT, iterations)
    return Scram(kind, lambda user, by_token: kept if user == name and not by_token else None, lambda bits: (1 << bits) - 1)


@pytest.mark.parametrize("kind", SCRAM_KINDS.values())
@pytest.mark.parametrize("name", ["ann", "a,b=c", "=2C"])
def test_client_and_broker_prove_that_they_know_the_password(kind: ScramKind, name: str) -> None:
    scram, client = server(kind, name), ScramClient(name, "pass word", kind.hash)
    answer = scram.evaluate(client.first())
    assert not scram.complete
    assert client.trusts(scram.evaluate(client.final(answer)))
    assert (scram.complete, scram.user, scram.by_token, scram.expires_ms) == (True, name, False, None)


def test_the_exchange_of_rfc_7677_is_reproduced() -> None:
    salt = base64.b64decode("W22ZaJ0SNY7soEsUEjb6gQ==")
    kept = credential_of(SHA_256, salted_password(SHA_256, "pencil", salt, 4096), salt, 4096)
    scram = Scram(SHA_256, lambda _user, _by_token: kept, lambda _bits: 35)
    first = scram.evaluate(b"n,,n=user,r=rOprNGfwEbeRWgbNEkqO")
    assert first == b"r=rOprNGfwEbeRWgbNEkqOz,s=W22ZaJ0SNY7soEsUEjb6gQ==,i=4096"


def test_extensions_are_part_of_the_signed_text() -> None:
    scram, client = server(), ScramClient("ann", "pass word", extensions=",x=1,y=2")
    assert client.trusts(scram.evaluate(client.final(scram.evaluate(client.first()))))


@pytest.mark.parametrize(
    "message",
    [
        b"",
        b"y,,n=ann,r=x",
        b"p=tls-unique,,n=ann,r=x",
        b"n,,n=ann",
        b"n,,n=a=b,r=x",
        b"n,,r=x,n=ann",
        "n,,n=änn,r=x".encode(),
        b"n,,n=ann,r=",
    ],
)
def test_an_invalid_first_message_fails(message: bytes) -> None:
    with pytest.raises(SaslError, match="Invalid SCRAM client first message format"):
        server().evaluate(message)


def test_an_unknown_user_or_token_fails_at_the_first_message() -> None:
    for message in (b"n,,n=eve,r=x", b"n,,n=ann,r=x,tokenauth=true"):
        with pytest.raises(SaslError):
            server().evaluate(message)


def test_another_authorization_id_is_rejected() -> None:
    with pytest.raises(SaslAuthenticationError, match="different from username"):
        server().evaluate(b"n,a=bob,n=ann,r=x")


def test_a_credential_with_too_few_iterations_fails() -> None:
    with pytest.raises(SaslError, match="Iterations 4095 is less than the minimum 4096 for SCRAM-SHA-256"):
        server(iterations=4095).evaluate(ScramClient("ann", "pass word").first())


def test_a_wrong_password_or_a_manipulated_final_message_fails() -> None:
    def final(message: bytes, *changed: tuple[bytes, bytes]) -> bytes:
        for old, new in changed:
            assert old in message
            message = message.replace(old, new)
        return message

    for password, changes in (
        ("nope", []),
        ("pass word", [(b"r=fyko", b"r=fykp")]),
        ("pass word", [(b"c=biws", b"c=eSws")]),
        ("pass word", [(b",p=", b",q=")]),
    ):
        scram, client = server(), ScramClient("ann", password)
        token = final(client.final(scram.evaluate(client.first())), *changes)
        with pytest.raises(SaslError):
            scram.evaluate(token)
        assert not scram.complete
        with pytest.raises(SaslAuthenticationError, match="state FAILED"):  # a second attempt fails, too
            scram.evaluate(token)


@pytest.mark.parametrize("proof", [b"", b"AAAA"])
def test_a_proof_of_another_length_is_rejected(proof: bytes) -> None:
    scram, client = server(), ScramClient("ann", "pass word")
    message = client.final(scram.evaluate(client.first()))
    with pytest.raises(InvalidSaslMessage):
        scram.evaluate(message[: message.index(b",p=") + 3] + proof)


def test_an_empty_proof_does_not_match_an_empty_credential() -> None:
    empty = Credential(SALT, b"", b"", 4096)
    scram = Scram(SHA_256, lambda _user, _by_token: empty, lambda _bits: 1)
    answer = scram.evaluate(b"n,,n=ann,r=x").decode()
    with pytest.raises(InvalidSaslMessage):
        scram.evaluate(f"c=biws,{answer.split(',')[0]},p=".encode())
