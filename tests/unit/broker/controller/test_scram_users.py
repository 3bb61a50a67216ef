"""Altering SCRAM credentials: at most one change of each user in a request, valid credentials, and the stored record."""

from __future__ import annotations

import hashlib
import hmac

import pytest

from ottla.broker.cluster.metadata_records import RemoveUserScramCredentialRecord
from ottla.broker.controller.scram_users import alter_scram_users
from ottla.protocol.error_codes import ErrorCode
from ottla.protocol.messages.k51_alter_user_scram_credentials import (
    AlterUserScramCredentialsRequest,
    ScramCredentialDeletion,
    ScramCredentialUpsertion,
)
from tests.support.catalogs import code_of
from tests.support.controllers import LiveController

SALT = b"0123456789"


def upsertion(name: str, mechanism: int = 1, iterations: int = 4096, password: bytes = b"salted") -> ScramCredentialUpsertion:
    return ScramCredentialUpsertion(name, mechanism, iterations, SALT, password)


def alter(controller: LiveController, *changes: ScramCredentialDeletion | ScramCredentialUpsertion) -> dict[str, ErrorCode]:
    request = AlterUserScramCredentialsRequest(
        [change for change in changes if isinstance(change, ScramCredentialDeletion)],
        [change for change in changes if isinstance(change, ScramCredentialUpsertion)],
    )
    return {name: code_of(error) for name, error in controller.run(alter_scram_users(controller.state, request)).items()}


@pytest.mark.parametrize(("mechanism", "name"), [(1, "sha256"), (2, "sha512")])
def test_the_stored_credential_verifies_the_password(mechanism: int, name: str) -> None:
    controller = LiveController()
    salted = hashlib.pbkdf2_hmac(name, b"secret", SALT, 4096)
    assert alter(controller, upsertion("alice", mechanism, password=salted)) == {"alice": ErrorCode.NONE}
    kept = controller.state.image.scram[mechanism, "alice"]
    signature = hmac.digest(kept.stored_key, b"what was said", name)
    key = hmac.digest(salted, b"Client Key", name)
    proof = bytes(a ^ b for a, b in zip(key, signature, strict=True))
    assert hashlib.new(name, bytes(a ^ b for a, b in zip(proof, signature, strict=True))).digest() == kept.stored_key
    assert kept.server_key == hmac.digest(salted, b"Server Key", name)
    assert (kept.salt, kept.iterations) == (SALT, 4096)


def test_removing_a_credential_keeps_the_users_other_one() -> None:
    controller = LiveController()
    for mechanism in 1, 2:
        alter(controller, upsertion("alice", mechanism))
    assert alter(controller, ScramCredentialDeletion("alice", 1)) == {"alice": ErrorCode.NONE}
    assert controller.log[-1] == RemoveUserScramCredentialRecord("alice", 1)
    assert list(controller.state.image.scram) == [(2, "alice")]


@pytest.mark.parametrize(
    "twice",
    [
        [upsertion("alice"), upsertion("alice", 2)],
        [ScramCredentialDeletion("alice", 1), upsertion("alice")],
        [ScramCredentialDeletion("alice", 1), ScramCredentialDeletion("alice", 1), upsertion("alice")],
        [upsertion("alice", password=b""), upsertion("alice")],
    ],
)
def test_a_duplicate_user_is_not_altered(twice: list[ScramCredentialDeletion | ScramCredentialUpsertion]) -> None:
    controller = LiveController()
    alter(controller, upsertion("alice"))
    before = controller.state.image
    assert alter(controller, *twice) == {"alice": ErrorCode.DUPLICATE_RESOURCE}
    assert controller.state.image == before


@pytest.mark.parametrize(
    ("change", "code"),
    [
        (upsertion(""), ErrorCode.UNACCEPTABLE_CREDENTIAL),
        (upsertion("bob", mechanism=0), ErrorCode.UNSUPPORTED_SASL_MECHANISM),
        (upsertion("bob", mechanism=3), ErrorCode.UNSUPPORTED_SASL_MECHANISM),
        (upsertion("bob", iterations=4095), ErrorCode.UNACCEPTABLE_CREDENTIAL),
        (upsertion("bob", iterations=16_385), ErrorCode.UNACCEPTABLE_CREDENTIAL),
        (upsertion("bob", password=b""), ErrorCode.UNKNOWN_SERVER_ERROR),
        (ScramCredentialDeletion("", 1), ErrorCode.UNACCEPTABLE_CREDENTIAL),
        (ScramCredentialDeletion("bob", 0), ErrorCode.UNSUPPORTED_SASL_MECHANISM),
        (ScramCredentialDeletion("bob", 1), ErrorCode.RESOURCE_NOT_FOUND),
    ],
)
def test_an_invalid_credential_is_refused(change: ScramCredentialDeletion | ScramCredentialUpsertion, code: ErrorCode) -> None:
    controller = LiveController()
    assert alter(controller, change, upsertion("carol", iterations=16_384)) == {change.name: code, "carol": ErrorCode.NONE}
    assert list(controller.state.image.scram) == [(1, "carol")]


def test_scram_users_need_their_metadata_version() -> None:
    assert alter(LiveController(level=10), upsertion("alice")) == {"alice": ErrorCode.UNSUPPORTED_VERSION}
