"""Compare Ottla with Apache Kafka by requests about SCRAM credentials, and by SASL requests on a plaintext listener."""

from __future__ import annotations

import hashlib

from client_compat.differential.probe import Probe
from client_compat.differential.scenarios.common import until
from ottla.protocol.api_keys import ApiKey
from ottla.protocol.messages.k17_sasl_handshake import SaslHandshakeRequest
from ottla.protocol.messages.k36_sasl_authenticate import SaslAuthenticateRequest
from ottla.protocol.messages.k38_create_delegation_token import CreateDelegationTokenRequest
from ottla.protocol.messages.k39_renew_delegation_token import RenewDelegationTokenRequest
from ottla.protocol.messages.k40_expire_delegation_token import ExpireDelegationTokenRequest
from ottla.protocol.messages.k41_describe_delegation_token import DescribeDelegationTokenRequest
from ottla.protocol.messages.k50_describe_user_scram_credentials import DescribeUserScramCredentialsRequest, UserName
from ottla.protocol.messages.k51_alter_user_scram_credentials import (
    AlterUserScramCredentialsRequest,
    ScramCredentialDeletion,
    ScramCredentialUpsertion,
)

_SALTED = hashlib.pbkdf2_hmac("sha256", b"secret", b"salt", 4096)


def _upsertion(name: str, mechanism: int = 1, iterations: int = 4096, salted: bytes = _SALTED) -> ScramCredentialUpsertion:
    return ScramCredentialUpsertion(name, mechanism, iterations, b"salt", salted)


CHANGES = {
    "one": ([], [_upsertion("ann")]),
    "both mechanisms": ([], [_upsertion("bob"), _upsertion("eve", 2, 8192)]),
    "the same again": ([], [_upsertion("ann", 1, 5000)]),
    "twice": ([], [_upsertion("zoe"), _upsertion("zoe", 2)]),
    "twice, and taken away": ([ScramCredentialDeletion("zoe", 1)], [_upsertion("zoe")]),
    "no name": ([ScramCredentialDeletion("", 1)], []),
    "iterations": ([], [_upsertion("few", 1, 4095), _upsertion("many", 1, 16_385), _upsertion("most", 1, 16_384)]),
    "mechanisms": ([ScramCredentialDeletion("ann", 0)], [_upsertion("x", 3), _upsertion("y", 0), _upsertion("z", -1)]),
    "of nobody": ([ScramCredentialDeletion("nobody", 1), ScramCredentialDeletion("ann", 2)], []),
    "without a password": ([], [_upsertion("blank", 1, 4096, b"")]),
    "taken away": ([ScramCredentialDeletion("eve", 2)], []),
    "none": ([], []),
}


def credentials(probe: Probe) -> None:
    """Alter SCRAM credentials and describe them after each change."""
    known: dict[tuple[str, int], int] = {}
    for label, (deletions, upsertions) in CHANGES.items():
        answer = probe.ask(label, AlterUserScramCredentialsRequest(deletions, upsertions), 0)
        changed = {result.user for result in answer.results if not result.error_code}
        for gone in deletions:
            if gone.name in changed:
                known.pop((gone.name, gone.mechanism))
        known.update({(new.name, new.mechanism): new.iterations for new in upsertions if new.name in changed})
        _wait_for(probe, known)
        probe.ask(f"after {label}", DescribeUserScramCredentialsRequest(None), 0)
    for label, names in {"two": ["ann", "bob"], "twice": ["ann", "ann"], "unknown": ["nobody"], "none": [], "blank": [""]}.items():
        probe.ask(label, DescribeUserScramCredentialsRequest([UserName(name) for name in names]), 0)


def _wait_for(probe: Probe, known: dict[tuple[str, int], int]) -> None:
    """Wait until DescribeUserScramCredentials returns exactly the credentials `known`: iterations by (user, mechanism).

    Apache Kafka's controller responds before the broker has applied the change.
    """
    for _ in until("users are known"):
        results = probe.ask_unrecorded(DescribeUserScramCredentialsRequest(None), 0).results
        if {(user.user, each.mechanism): each.iterations for user in results for each in user.credential_infos} == known:
            return


def out_of_turn(probe: Probe) -> None:
    """Send SaslHandshake and SaslAuthenticate on a plaintext connection, which does not use SASL."""
    probe.each_version("handshake", ApiKey.SASL_HANDSHAKE, lambda _: SaslHandshakeRequest("PLAIN"))
    probe.each_version("token", ApiKey.SASL_AUTHENTICATE, lambda _: SaslAuthenticateRequest(b"\0ann\0secret"))


def tokens(probe: Probe) -> None:
    """Send delegation token requests on an unauthenticated connection; `client_compat.differential.tokens` compares the rest."""
    probe.each_version("create", ApiKey.CREATE_DELEGATION_TOKEN, lambda _: CreateDelegationTokenRequest())
    probe.each_version("renew", ApiKey.RENEW_DELEGATION_TOKEN, lambda _: RenewDelegationTokenRequest(b"x"))
    probe.each_version("expire", ApiKey.EXPIRE_DELEGATION_TOKEN, lambda _: ExpireDelegationTokenRequest(b"x"))
    probe.each_version("describe", ApiKey.DESCRIBE_DELEGATION_TOKEN, lambda _: DescribeDelegationTokenRequest(None))
