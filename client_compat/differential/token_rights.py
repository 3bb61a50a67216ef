"""Compare authorization of delegation tokens: both brokers get the same random ACLs on users and on tokens (KIP-48, KIP-373).

Rules:
- Four tokens exist all the time. Each broker has its own token ids, so tokens are identified by their numbers, and an ACL on a token names
  that broker's id.
- A token that a request created is expired before the next request.
- Everything follows from a seed.
"""

from __future__ import annotations

import base64
import os
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from random import Random
from typing import Any, Final

from client_compat.differential.normalise import Plain
from client_compat.differential.probe import Seen
from client_compat.differential.scenarios.common import until
from client_compat.support.brokers import HOST
from ottla.protocol.api_keys import ApiKey
from ottla.protocol.client import Client
from ottla.protocol.error_codes import ErrorCode
from ottla.protocol.login import log_in
from ottla.protocol.messages.k03_metadata import MetadataRequest, MetadataRequestTopic
from ottla.protocol.messages.k17_sasl_handshake import SaslHandshakeRequest
from ottla.protocol.messages.k30_create_acls import AclCreation
from ottla.protocol.messages.k36_sasl_authenticate import SaslAuthenticateRequest
from ottla.protocol.messages.k38_create_delegation_token import CreatableRenewers, CreateDelegationTokenRequest
from ottla.protocol.messages.k39_renew_delegation_token import RenewDelegationTokenRequest
from ottla.protocol.messages.k40_expire_delegation_token import ExpireDelegationTokenRequest
from ottla.protocol.messages.k41_describe_delegation_token import DescribeDelegationTokenOwner, DescribeDelegationTokenRequest

ROOT: Final = "root"
"""The name of the super user (`super.users`)."""
USERS: Final = ("ann", "bob", "eve")
"""The names of the ordinary users."""
CASES: Final = 30
MINUTE_MS: Final = 60_000
TOPIC, DELEGATION_TOKEN, USER = 2, 6, 7
ALL, READ, WRITE, ALTER, DESCRIBE, CREATE_TOKENS, DESCRIBE_TOKENS = 2, 3, 4, 7, 8, 13, 14
DENY, ALLOW = 2, 3
LITERAL, PREFIXED = 3, 4
TOKENS: Final = (("ann", "ann", ("bob",)), ("bob", "bob", ()), (ROOT, "eve", ("ann",)), (ROOT, ROOT, ()))
"""The delegation tokens that exist all the time, each as (requester, owner, renewers)."""
OWNERS: Final[Sequence[Sequence[tuple[str, str]] | None]] = (
    None,
    [("User", "ann")],
    [("User", "bob"), ("User", "eve")],
    [("User", ROOT)],
    [("Group", "ann")],
)
_NAMED: Final = (
    ("User:ann", LITERAL),
    ("User:bob", LITERAL),
    ("User:eve", LITERAL),
    ("User:eve", LITERAL),
    ("Group:g", LITERAL),
    ("ann", LITERAL),
    ("*", LITERAL),
    ("User:", PREFIXED),
    ("User:b", PREFIXED),
)
_OF_USERS: Final = (CREATE_TOKENS, CREATE_TOKENS, DESCRIBE_TOKENS, DESCRIBE_TOKENS, ALL, DESCRIBE, READ)
_OF_TOKENS: Final = (DESCRIBE, DESCRIBE, ALL, READ, WRITE, ALTER, DESCRIBE_TOKENS, CREATE_TOKENS)
PREFIX_CHARS: Final = 6
"""The length of the prefixes of token ids in prefixed ACLs. It is long enough to distinguish the tokens, whose ids have 22 characters."""


@dataclass(slots=True)
class TokenRights:
    """One of the compared brokers, and the users' connections to it. `rule_by` replaces all ACLs; `passwords` are by user, for SASL/PLAIN
    at `port`."""

    port: int
    passwords: dict[str, str]
    rule_by: Callable[[Sequence[AclCreation]], None]
    seen: list[Seen] = field(default_factory=list)
    _clients: dict[str, Client] = field(default_factory=dict)
    _ids: list[str] = field(default_factory=list)
    _proofs: list[bytes] = field(default_factory=list)

    def run(self, seed: int, cases: int = CASES) -> list[Seen]:
        """Create delegation tokens at the broker, send it the requests of `cases` random cases, each with its own random ACLs, and return
        the responses."""
        self.rule_by([])
        with self._users():
            for requester, owner, renewers in TOKENS:
                made = self._clients[requester].call(_creation(("User", owner), renewers), 3)
                self._ids.append(made.token_id)
                self._proofs.append(bytes(made.hmac))
            self._wait_until(lambda ids: ids.issuperset(self._ids))
            self._ends("without any")
            for case in range(cases):
                self._case(Random(f"tokens {seed}/{case}"), f"seed {seed}, case {case}")
            self.rule_by([_acl(kind, "*", LITERAL, "User:*", ALL) for kind in (USER, DELEGATION_TOKEN)])
            self._ends("all allowed")
            self._by_token()
        return self.seen

    @contextmanager
    def _users(self) -> Iterator[None]:
        try:
            for user, password in self.passwords.items():
                client = self._clients[user] = Client(HOST, self.port)
                client.call(SaslHandshakeRequest("PLAIN"), 1)
                answer = client.call(SaslAuthenticateRequest(f"\0{user}\0{password}".encode()), 1)
                assert answer.error_code == 0, answer
            yield
        finally:
            for client in self._clients.values():
                client.close()

    # --- requests ----------------------------------------------------------------------------------------------------------------

    def _case(self, random: Random, label: str) -> None:
        self.rule_by([self._drawn(random) for _ in range(random.randint(0, 9))])
        for user in USERS:
            for owners in OWNERS:
                self._describe(f"{label}, of {owners}, for {user}", user, owners)
            for owner in random.sample((*(("User", name) for name in (*USERS, "nobody", ROOT)), ("Group", "g")), 2):
                self._create(f"{label}, for {owner}, by {user}", user, owner)

    def _ends(self, label: str) -> None:
        """Try to renew and expire each delegation token as each user.

        Only a token's owner and its renewers may do this: neither an ACL nor `super.users` allows it to others.
        """
        for number, proof in enumerate(self._proofs):
            for user in self.passwords:
                for request in (RenewDelegationTokenRequest(proof, MINUTE_MS), ExpireDelegationTokenRequest(proof, 60 * MINUTE_MS)):
                    answer = self._clients[user].call(request, 2)
                    self._note(f"{label}, token {number}, by {user}", answer, 2, answer.expiry_timestamp_ms > 0)

    def _by_token(self) -> None:
        """Authenticate with a delegation token, and record what the session may do. It has the permissions of the token's owner, except
        that it may not request delegation tokens."""
        client = self._clients["by token"] = Client(HOST, self.port)
        client.call(SaslHandshakeRequest("SCRAM-SHA-256"), 1)
        proof = base64.b64encode(self._proofs[0]).decode()
        log_in(
            "SCRAM-SHA-256",
            self._ids[0],
            proof,
            lambda token: bytes(client.call(SaslAuthenticateRequest(token), 2).auth_bytes),
            os.urandom,
            by_token=True,
        )
        for user in ("by token", "ann", "bob"):
            self._describe(f"all allowed, for {user}", user, None)
        allowed = [_acl(TOPIC, "a1", LITERAL, "User:ann", DESCRIBE), _acl(TOPIC, "b1", LITERAL, f"User:{self._ids[0]}", DESCRIBE)]
        self.rule_by(allowed)
        for user in ("by token", "ann", "bob"):
            answer = self._clients[user].call(MetadataRequest([MetadataRequestTopic(name="a1"), MetadataRequestTopic(name="b1")]), 8)
            errors = {topic.name: ErrorCode(topic.error_code).name for topic in answer.topics}
            self.seen.append(Seen(f"topics, for {user}", ApiKey.METADATA.name, 8, errors))

    def _drawn(self, random: Random) -> AclCreation:
        kind = random.choice((USER, DELEGATION_TOKEN))
        operation = random.choice(_OF_USERS if kind == USER else _OF_TOKENS)
        name, pattern = random.choice(_NAMED)
        if kind == DELEGATION_TOKEN:
            drawn, pattern = random.choice(self._ids), random.choice((LITERAL, LITERAL, PREFIXED))
            name = drawn if pattern == LITERAL else drawn[:PREFIX_CHARS]
            if random.random() < 0.2:
                name, pattern = "*", LITERAL
        principal = f"User:{random.choice((*USERS, *USERS, '*'))}"
        host, permission = random.choice(("*", "*", "*", HOST, "10.0.0.1")), random.choice((ALLOW, ALLOW, ALLOW, DENY))
        return AclCreation(kind, name, pattern, principal, host, operation, permission)

    def _describe(self, label: str, user: str, owners: Sequence[tuple[str, str]] | None) -> None:
        named = None if owners is None else [DescribeDelegationTokenOwner(*owner) for owner in owners]
        answer = self._clients[user].call(DescribeDelegationTokenRequest(named), 3)
        self._note(label, answer, 3, sorted(self._ids.index(token.token_id) for token in answer.tokens))

    def _create(self, label: str, user: str, owner: tuple[str, str]) -> None:
        answer = self._clients[user].call(_creation(owner, (ROOT,)), 3)
        requester = f"{answer.token_requester_principal_type}:{answer.token_requester_principal_name}"
        details = [f"{answer.principal_type}:{answer.principal_name}", requester, answer.token_id != ""]
        self._note(label, answer, 3, details)
        if answer.token_id:
            self._wait_until(lambda ids: answer.token_id in ids)
            self._clients[ROOT].call(ExpireDelegationTokenRequest(bytes(answer.hmac), -1), 2)
            self._wait_until(lambda ids: answer.token_id not in ids)

    def _wait_until(self, holds: Callable[[set[str]], bool]) -> None:
        for _ in until("the change of a token is obeyed"):
            found = self._clients[ROOT].call(DescribeDelegationTokenRequest(None), 3).tokens
            if holds({token.token_id for token in found}):
                return

    def _note(self, label: str, answer: Any, version: int, details: Plain) -> None:
        error = ErrorCode(answer.error_code).name
        self.seen.append(Seen(label, ApiKey(answer.API_KEY).name, version, {"error": error, "told": details}))


def _creation(owner: tuple[str, str], renewers: Sequence[str]) -> CreateDelegationTokenRequest:
    return CreateDelegationTokenRequest(*owner, [CreatableRenewers("User", name) for name in renewers], 60 * MINUTE_MS)


def _acl(kind: int, name: str, pattern: int, principal: str, operation: int) -> AclCreation:
    return AclCreation(kind, name, pattern, principal, "*", operation, ALLOW)
