"""Decides requests about delegation tokens. A client that authenticates with a token acts as the token's owner (KIP-48).

Invariants:
- A token's HMAC is derived from the token id and the secret that all nodes share (delegation.token.secret.key). No record contains it.
- A token is valid until its expiry time, which its owner and its renewers can extend up to the token's maximum lifetime.
- Without a secret, no token can be created.
- The tokens that one principal can create take bounded memory, because creating one requires no permission.

Times are wall-clock ms. Source: Kafka's DelegationTokenControlManager.
"""

from __future__ import annotations

import hmac
from collections.abc import Callable
from dataclasses import replace
from typing import Final, NamedTuple

from ottla.broker.cluster.features import METADATA_VERSION
from ottla.broker.cluster.image import MetadataImage
from ottla.broker.cluster.metadata_records import DelegationTokenRecord, MetadataRecord, RemoveDelegationTokenRecord
from ottla.broker.cluster.record_versions import DELEGATION_TOKENS
from ottla.broker.core import limits
from ottla.broker.core.config_keys import INT64_MAX
from ottla.broker.core.effects import Effects
from ottla.broker.core.principal import USER, Principal
from ottla.broker.core.rejected import Rejected
from ottla.broker.core.settings import BrokerSettings
from ottla.broker.security.tokens import token_hmac
from ottla.protocol.error_codes import ErrorCode
from ottla.protocol.messages.k38_create_delegation_token import CreateDelegationTokenRequest
from ottla.protocol.messages.k39_renew_delegation_token import RenewDelegationTokenRequest
from ottla.protocol.messages.k40_expire_delegation_token import ExpireDelegationTokenRequest
from ottla.protocol.schema import Buffer
from ottla.protocol.uuids import encode_uuid, random_uuid

REMOVED_AT_ONCE_MAX: Final = 1000


class TokenRules(NamedTuple):
    """The settings of delegation tokens: `delegation.token.secret.key`, `delegation.token.max.lifetime.ms` and
    `delegation.token.expiry.time.ms`.
    """

    secret: str | None = None
    max_lifetime_ms: int = 604_800_000
    renewed_for_ms: int = 86_400_000


def rules_of(settings: BrokerSettings) -> TokenRules:
    """Return the settings of delegation tokens on a node. An empty secret key counts as none."""
    return TokenRules(
        settings.delegation_token_secret_key or None,
        settings.delegation_token_max_lifetime_ms,
        settings.delegation_token_expiry_time_ms,
    )


class NewToken(NamedTuple):
    """A created delegation token and its HMAC."""

    record: DelegationTokenRecord
    hmac: bytes


def create_token(
    image: MetadataImage,
    rules: TokenRules,
    requester: Principal,
    request: CreateDelegationTokenRequest,
    now_ms: int,
    *,
    random_bytes: Callable[[int], bytes],
) -> Effects[MetadataRecord, NewToken]:
    """Decide a CreateDelegationToken request: return the metadata record to write, and the new token with its HMAC. The token's owner is
    the one that the request names, or else the requester.

    Raises Rejected: DELEGATION_TOKEN_AUTH_DISABLED without a secret key, UNSUPPORTED_VERSION if metadata.version is too low,
    INVALID_PRINCIPAL_TYPE for a renewer that is not a User, POLICY_VIOLATION for too many tokens or renewers.
    """
    secret = _secret(image, rules)
    owner = owner_of(request, requester)
    lifetime_ms = min(request.max_lifetime_ms, rules.max_lifetime_ms) if request.max_lifetime_ms > 0 else rules.max_lifetime_ms
    last_ms = _sum(now_ms, lifetime_ms)
    check_renewers(request)
    _check_room(image, requester, request)
    record = DelegationTokenRecord(
        owner=str(owner),
        requester=str(requester),
        renewers=[str(Principal(renewer.principal_type, renewer.principal_name)) for renewer in request.renewers],
        issue_timestamp=now_ms,
        max_timestamp=last_ms,
        expiration_timestamp=min(last_ms, _sum(now_ms, rules.renewed_for_ms)),
        token_id=encode_uuid(random_uuid(random_bytes)),
    )
    return Effects([record], NewToken(record, token_hmac(secret, record.token_id)))


def check_renewers(request: CreateDelegationTokenRequest) -> None:
    """Raise Rejected (INVALID_PRINCIPAL_TYPE) if a renewer that the request names is not of the principal type User."""
    if any(renewer.principal_type != USER for renewer in request.renewers):
        raise Rejected(ErrorCode.INVALID_PRINCIPAL_TYPE)


def _check_room(image: MetadataImage, requester: Principal, request: CreateDelegationTokenRequest) -> None:
    if sum(len(renewer.principal_name) for renewer in request.renewers) > limits.TOKEN_RENEWERS_CHARS:
        raise Rejected(ErrorCode.POLICY_VIOLATION)
    name = str(requester)
    if sum(token.requester == name for token in image.delegation_tokens.values()) >= limits.TOKENS_OF_REQUESTER:
        raise Rejected(ErrorCode.POLICY_VIOLATION)


def owner_of(request: CreateDelegationTokenRequest, requester: Principal) -> Principal:
    """Return the owner of the new token: the principal that the request names as the owner, or else the requester."""
    named = request.owner_principal_name
    return Principal(request.owner_principal_type or "", named) if named else requester


def renew_token(
    image: MetadataImage, rules: TokenRules, requester: Principal, request: RenewDelegationTokenRequest, now_ms: int
) -> Effects[MetadataRecord, int]:
    """Decide a RenewDelegationToken request: return the metadata record to write, and the token's new expiry time in wall-clock ms. A
    requested period of 0 or less means the longest one allowed. Raises Rejected if the token is unknown or has expired, or if the requester
    is neither its owner nor one of its renewers."""
    token = _found(image, rules, request.hmac)
    _check_lasts(token, now_ms)
    _check_may_renew(token, requester)
    period_ms = min(request.renew_period_ms, rules.renewed_for_ms) if request.renew_period_ms > 0 else rules.renewed_for_ms
    return _expiring(token, min(token.max_timestamp, now_ms + period_ms))


def expire_token(
    image: MetadataImage, rules: TokenRules, requester: Principal, request: ExpireDelegationTokenRequest, now_ms: int
) -> Effects[MetadataRecord, int]:
    """Decide an ExpireDelegationToken request, which sets the token's expiry time to now plus the requested period; a negative period
    deletes the token at once. Return the metadata record to write, and the new expiry time in wall-clock ms. Raises Rejected if the token
    is unknown or (unless it is to be deleted) has expired, or if the requester is neither its owner nor one of its renewers."""
    token = _found(image, rules, request.hmac)
    _check_may_renew(token, requester)
    if request.expiry_time_period_ms < 0:
        return Effects([RemoveDelegationTokenRecord(token.token_id)], now_ms)
    _check_lasts(token, now_ms)
    return _expiring(token, min(token.max_timestamp, _sum(now_ms, request.expiry_time_period_ms)))


def remove_expired_tokens(image: MetadataImage, now_ms: int) -> Effects[MetadataRecord, bool]:
    """Return the records that delete expired delegation tokens, at most REMOVED_AT_ONCE_MAX of them, and whether there may be more."""
    expired = [token for token in image.delegation_tokens.values() if _is_over(token, now_ms)]
    records: list[MetadataRecord] = [RemoveDelegationTokenRecord(token.token_id) for token in expired]
    return Effects(records[:REMOVED_AT_ONCE_MAX], len(records) >= REMOVED_AT_ONCE_MAX)


def _is_over(token: DelegationTokenRecord, now_ms: int) -> bool:
    return min(token.max_timestamp, token.expiration_timestamp) < now_ms


def _secret(image: MetadataImage, rules: TokenRules) -> str:
    if rules.secret is None:
        raise Rejected(ErrorCode.DELEGATION_TOKEN_AUTH_DISABLED)
    if image.features.get(METADATA_VERSION, 0) < DELEGATION_TOKENS:
        raise Rejected(ErrorCode.UNSUPPORTED_VERSION)
    return rules.secret


def _found(image: MetadataImage, rules: TokenRules, proof: Buffer) -> DelegationTokenRecord:
    secret = _secret(image, rules)
    for token in image.delegation_tokens.values():
        if hmac.compare_digest(token_hmac(secret, token.token_id), proof):
            return token
    raise Rejected(ErrorCode.DELEGATION_TOKEN_NOT_FOUND)


def _check_lasts(token: DelegationTokenRecord, now_ms: int) -> None:
    if _is_over(token, now_ms):
        raise Rejected(ErrorCode.DELEGATION_TOKEN_EXPIRED)


def _check_may_renew(token: DelegationTokenRecord, requester: Principal) -> None:
    if str(requester) not in {token.owner, *token.renewers}:
        raise Rejected(ErrorCode.DELEGATION_TOKEN_OWNER_MISMATCH)


def _expiring(token: DelegationTokenRecord, expires_ms: int) -> Effects[MetadataRecord, int]:
    return Effects([replace(token, expiration_timestamp=expires_ms)], expires_ms)


def _sum(now_ms: int, duration_ms: int) -> int:
    return min(now_ms + duration_ms, INT64_MAX)
