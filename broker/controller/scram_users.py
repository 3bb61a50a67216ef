"""Decides AlterUserScramCredentials: creates and deletes users' SCRAM credentials. Brokers authenticate against them.

Invariants:
- A request may change each user once. If it names a user more often, that user gets DUPLICATE_RESOURCE and keeps all credentials; other
  users are not affected. A broker that imitates a release with ZooKeeper allows one change for each user and mechanism.
- The request contains the password only salted and hashed. The stored credential suffices to verify a client, but not to impersonate one
  (RFC 5802).

Source: Kafka's ScramControlManager.
"""

from __future__ import annotations

from itertools import chain
from typing import Final, TypeAlias

from ottla.broker.cluster.features import METADATA_VERSION
from ottla.broker.cluster.image import MetadataImage
from ottla.broker.cluster.metadata_records import MetadataRecord, RemoveUserScramCredentialRecord, UserScramCredentialRecord
from ottla.broker.cluster.record_versions import SCRAM
from ottla.broker.controller.state import ControllerState
from ottla.broker.core.effects import Effects
from ottla.broker.core.rejected import Rejected
from ottla.broker.security.scram import SCRAM_KINDS, SHA_256, credential_of
from ottla.protocol.error_codes import ErrorCode
from ottla.protocol.messages.k51_alter_user_scram_credentials import (
    AlterUserScramCredentialsRequest,
    ScramCredentialDeletion,
    ScramCredentialUpsertion,
)

Change: TypeAlias = ScramCredentialDeletion | ScramCredentialUpsertion

_KINDS: Final = {kind.number: kind for kind in SCRAM_KINDS.values()}
_ITERATIONS: Final = range(SHA_256.min_iterations, SHA_256.max_iterations + 1)


def alter_scram_users(
    state: ControllerState, request: AlterUserScramCredentialsRequest
) -> Effects[MetadataRecord, dict[str, Rejected | None]]:
    """Decide an AlterUserScramCredentials request: return the metadata records to write, and an error or None per user."""
    wanted: dict[str, dict[int, Change]] = {}
    results: dict[str, Rejected | None] = {}
    changes: list[Change] = [*request.deletions, *request.upsertions]
    for change in changes:
        if results.get(change.name) is not None:
            continue
        try:
            others = wanted.get(change.name, {})
            if change.mechanism in others or (others and not state.settings.release_behaviour.has_zookeeper):
                raise Rejected(ErrorCode.DUPLICATE_RESOURCE, "A user credential cannot be altered twice in the same request")
            _check(state.image, change)
            wanted[change.name], results[change.name] = {**others, change.mechanism: change}, None
        except Rejected as error:
            wanted.pop(change.name, None)
            results[change.name] = error.without_traceback()
    records: list[MetadataRecord] = []
    for change in chain.from_iterable(each.values() for each in wanted.values()):
        if isinstance(change, ScramCredentialDeletion):
            records.append(RemoveUserScramCredentialRecord(change.name, change.mechanism))
        elif change.salted_password:
            records.append(_credential(change))
        else:
            results[change.name] = Rejected(ErrorCode.UNKNOWN_SERVER_ERROR, "Empty key")
    return Effects(records, results)


def _check(image: MetadataImage, change: Change) -> None:
    """Raise Rejected if a user's SCRAM credential cannot be created or deleted as the request asks."""
    if image.features.get(METADATA_VERSION, 0) < SCRAM:
        raise Rejected(ErrorCode.UNSUPPORTED_VERSION, "The current metadata.version does not support SCRAM")
    if not change.name:
        raise Rejected(ErrorCode.UNACCEPTABLE_CREDENTIAL, "Username must not be empty")
    if change.mechanism not in _KINDS:
        raise Rejected(ErrorCode.UNSUPPORTED_SASL_MECHANISM, "Unknown SCRAM mechanism")
    if isinstance(change, ScramCredentialUpsertion):
        if change.iterations not in _ITERATIONS:
            few_or_many = "few" if change.iterations < _ITERATIONS.start else "many"
            raise Rejected(ErrorCode.UNACCEPTABLE_CREDENTIAL, f"Too {few_or_many} iterations")
    elif (change.mechanism, change.name) not in image.scram:
        raise Rejected(ErrorCode.RESOURCE_NOT_FOUND, "Attempt to delete a user credential that does not exist")


def _credential(upsertion: ScramCredentialUpsertion) -> UserScramCredentialRecord:
    kind = _KINDS[upsertion.mechanism]
    kept = credential_of(kind, bytes(upsertion.salted_password), bytes(upsertion.salt), upsertion.iterations)
    return UserScramCredentialRecord(upsertion.name, kind.number, kept.salt, kept.stored_key, kept.server_key, kept.iterations)
