from __future__ import annotations

from pathlib import Path

import pytest

from ottla.broker.security.scram import SCRAM_KINDS, salted_password
from ottla.protocol.client import Client
from ottla.protocol.error_codes import ErrorCode
from ottla.protocol.messages.k51_alter_user_scram_credentials import (
    AlterUserScramCredentialsRequest,
    ScramCredentialDeletion,
    ScramCredentialUpsertion,
)
from tests.support.logins import ScramClient, authenticate, handshake, log_in, secured
from tests.support.running_broker import RunningBroker

WITH_SASL = pytest.mark.broker_settings(secured())
SALT = b"of the sea"


def upsertion(user: str, password: str, mechanism: str = "SCRAM-SHA-256", iterations: int = 4096) -> ScramCredentialUpsertion:
    kind = SCRAM_KINDS[mechanism]
    return ScramCredentialUpsertion(user, kind.number, iterations, SALT, salted_password(kind, password, SALT, iterations))


def alter(client: Client, *changes: ScramCredentialUpsertion | ScramCredentialDeletion) -> dict[str, tuple[int, str | None]]:
    request = AlterUserScramCredentialsRequest(
        [change for change in changes if isinstance(change, ScramCredentialDeletion)],
        [change for change in changes if isinstance(change, ScramCredentialUpsertion)],
    )
    return {result.user: (result.error_code, result.error_message) for result in client.call(request, 0).results}


def authenticates(broker: RunningBroker, user: str, password: str, mechanism: str = "SCRAM-SHA-256") -> bool:
    with broker.client() as client:
        scram = ScramClient(user, password, SCRAM_KINDS[mechanism].hash)
        handshake(client, mechanism)
        first = authenticate(client, scram.first())
        if first.error_code:
            assert (first.error_code, first.error_message) == failed(mechanism)
            return False
        last = authenticate(client, scram.final(bytes(first.auth_bytes)))
        if last.error_code:
            assert (last.error_code, last.error_message) == failed(mechanism)
            return False
        assert scram.trusts(bytes(last.auth_bytes))
        return True


def failed(mechanism: str) -> tuple[int, str]:
    text = f"Authentication failed during authentication due to invalid credentials with SASL mechanism {mechanism}"
    return ErrorCode.SASL_AUTHENTICATION_FAILED, text


@WITH_SASL
@pytest.mark.parametrize("mechanism", SCRAM_KINDS)
def test_a_user_authenticates_with_the_latest_password_until_it_is_deleted(broker: RunningBroker, client: Client, mechanism: str) -> None:
    log_in(client)
    assert not authenticates(broker, "eve", "one", mechanism)
    assert alter(client, upsertion("eve", "one", mechanism)) == {"eve": (0, None)}
    assert authenticates(broker, "eve", "one", mechanism)
    assert alter(client, upsertion("eve", "two", mechanism)) == {"eve": (0, None)}
    assert (authenticates(broker, "eve", "one", mechanism), authenticates(broker, "eve", "two", mechanism)) == (False, True)
    assert alter(client, ScramCredentialDeletion("eve", SCRAM_KINDS[mechanism].number)) == {"eve": (0, None)}
    assert not authenticates(broker, "eve", "two", mechanism)


@WITH_SASL
def test_a_credential_is_valid_for_its_own_mechanism_only(broker: RunningBroker, client: Client) -> None:
    log_in(client)
    alter(client, upsertion("eve", "one", "SCRAM-SHA-256"))
    assert not authenticates(broker, "eve", "one", "SCRAM-SHA-512")


def test_credentials_survive_a_kill(tmp_path: Path) -> None:
    with RunningBroker(tmp_path / "data", secured()) as broker:
        with broker.client() as client:
            log_in(client)
            alter(client, upsertion("eve", "one"))
        broker.kill()
        broker.start()
        assert authenticates(broker, "eve", "one")


def test_an_invalid_change_is_rejected_for_its_user_only(client: Client) -> None:
    assert alter(
        client,
        ScramCredentialDeletion("nobody", 1),
        upsertion("few", "p", iterations=4095),
        upsertion("many", "p", iterations=16_385),
        ScramCredentialUpsertion("other", 3, 4096, SALT, b"x"),
        upsertion("twice", "p"),
        upsertion("twice", "p", "SCRAM-SHA-512"),
        upsertion("", "p"),
        upsertion("good", "p"),
    ) == {
        "nobody": (ErrorCode.RESOURCE_NOT_FOUND, "Attempt to delete a user credential that does not exist"),
        "few": (ErrorCode.UNACCEPTABLE_CREDENTIAL, "Too few iterations"),
        "many": (ErrorCode.UNACCEPTABLE_CREDENTIAL, "Too many iterations"),
        "other": (ErrorCode.UNSUPPORTED_SASL_MECHANISM, "Unknown SCRAM mechanism"),
        "twice": (ErrorCode.DUPLICATE_RESOURCE, "A user credential cannot be altered twice in the same request"),
        "": (ErrorCode.UNACCEPTABLE_CREDENTIAL, "Username must not be empty"),
        "good": (0, None),
    }
