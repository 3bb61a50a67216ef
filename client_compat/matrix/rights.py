"""SCRAM users and ACLs of a secured broker, created and deleted through its open listener.

Rule: each method waits until the broker itself reports the change, because the controller responds before the broker has applied it.
"""

from __future__ import annotations

import hashlib
from dataclasses import dataclass
from enum import IntEnum

from client_compat.matrix.control import Unsupported
from client_compat.matrix.truth import TruthFailed, until
from client_compat.support.brokers import HOST
from ottla.protocol.client import Client
from ottla.protocol.error_codes import ErrorCode
from ottla.protocol.errors import UnsupportedVersion
from ottla.protocol.messages.k29_describe_acls import DescribeAclsRequest
from ottla.protocol.messages.k30_create_acls import AclCreation, CreateAclsRequest
from ottla.protocol.messages.k31_delete_acls import DeleteAclsFilter, DeleteAclsRequest
from ottla.protocol.messages.k50_describe_user_scram_credentials import DescribeUserScramCredentialsRequest, UserName
from ottla.protocol.messages.k51_alter_user_scram_credentials import AlterUserScramCredentialsRequest, ScramCredentialUpsertion

ACL_VERSION = 2  # the newest that Apache Kafka 2.8 has
LITERAL, ALLOW = 3, 3
HASHES = ("sha256", "sha512")
SALT, ITERATIONS = b"of the sea", 4_096


class Resource(IntEnum):
    """Resource types, by their number in requests."""

    TOPIC = 2
    GROUP = 3
    TRANSACTIONAL_ID = 5


class Operation(IntEnum):
    """ACL operations, by their number in requests."""

    ALL = 2
    READ = 3
    WRITE = 4


@dataclass(frozen=True, slots=True)
class Right:
    """An ACL that allows one user one operation on the resource of that name; `*` stands for all names."""

    user: str
    operation: Operation
    resource: Resource
    name: str


@dataclass(frozen=True, slots=True)
class Rights:
    """The users and ACLs of the broker at `port`.

    Every method raises `TruthFailed` if the broker rejects the change or does not apply it in time.
    """

    port: int

    def add_user(self, name: str, password: str) -> None:
        """Create a user with SCRAM-SHA-256 and SCRAM-SHA-512. Raises `Unsupported` if the broker's release has no SCRAM users."""
        with self._client() as client:
            try:
                client.highest_version(AlterUserScramCredentialsRequest)
            except UnsupportedVersion as error:  # KRaft before 3.5 (KIP-900)
                raise Unsupported("the broker's release has no SCRAM users") from error
            for mechanism, hashed in enumerate(HASHES, 1):
                salted = hashlib.pbkdf2_hmac(hashed, password.encode(), SALT, ITERATIONS)
                upsertion = ScramCredentialUpsertion(name, mechanism, ITERATIONS, SALT, salted)
                (result,) = client.call(AlterUserScramCredentialsRequest([], [upsertion]), 0).results
                _check(result.error_code, f"user {name}: {result.error_message or ''}")
            for _ in until(f"{name} is a user"):
                (found,) = client.call(DescribeUserScramCredentialsRequest([UserName(name)]), 0).results
                if len(found.credential_infos) == len(HASHES):
                    return

    def grant(self, right: Right) -> None:
        made = AclCreation(right.resource, right.name, LITERAL, f"User:{right.user}", "*", right.operation, ALLOW)
        with self._client() as client:
            (result,) = client.call(CreateAclsRequest([made]), ACL_VERSION).results
            _check(result.error_code, f"{right}: {result.error_message or ''}")
            self._wait(client, right, there=True)

    def revoke(self, right: Right) -> None:
        of_it = DeleteAclsFilter(right.resource, right.name, LITERAL, f"User:{right.user}", None, right.operation, ALLOW)
        with self._client() as client:
            (result,) = client.call(DeleteAclsRequest([of_it]), ACL_VERSION).filter_results
            _check(result.error_code, f"{right}: {result.error_message or ''}")
            if len(result.matching_acls) != 1:
                raise TruthFailed(f"{len(result.matching_acls)} ACLs were {right}")
            self._wait(client, right, there=False)

    def _wait(self, client: Client, right: Right, *, there: bool) -> None:
        request = DescribeAclsRequest(right.resource, right.name, LITERAL, f"User:{right.user}", None, right.operation, ALLOW)
        for _ in until(f"{right} is {'there' if there else 'gone'}"):
            if bool(client.call(request, ACL_VERSION).resources) == there:
                return

    def _client(self) -> Client:
        return Client(HOST, self.port, client_id="matrix")


def _check(code: int, what: str) -> None:
    if code:
        raise TruthFailed(f"{what} ({ErrorCode(code).name})")
