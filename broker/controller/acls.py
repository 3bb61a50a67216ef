"""Decides CreateAcls and DeleteAcls, and matches ACLs against filters.

Invariants:
- Creating an ACL that exists already has no effect and is not an error.
- An invalid ACL or filter gets its own error; the other ones of the request are applied.
- In a release with address ranges (Kafka 4.4), a host must not be empty, and a host with a `/` must be a range in CIDR notation, which
  requires metadata.version 4.4-IV1. In an earlier release, a host may be any text.
- In a filter, null and ANY match everything. Pattern type MATCH matches the ACLs that apply to the filter's resource name: literal ACLs
  for that name or for `*`, and prefixed ACLs for a prefix of it.

Source: Kafka's AclControlManager, ResourcePatternFilter, AccessControlEntryFilter.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from functools import cache
from io import BytesIO
from typing import Final, NamedTuple, Protocol

from ottla.broker.cluster.acl_index import address_range
from ottla.broker.cluster.image import MetadataImage
from ottla.broker.cluster.metadata_records import AccessControlEntryRecord, MetadataRecord, RemoveAccessControlEntryRecord
from ottla.broker.cluster.topic_ids import ZERO_ID
from ottla.broker.controller.state import ControllerState
from ottla.broker.core.acl import CLUSTER_NAME, WILDCARD, Operation, Pattern, Permission, Resource
from ottla.broker.core.effects import Effects
from ottla.broker.core.rejected import Rejected
from ottla.broker.releases.release_behaviour import ADDRESS_RANGES
from ottla.protocol.error_codes import ErrorCode
from ottla.protocol.messages.k30_create_acls import AclCreation
from ottla.protocol.uuids import random_uuid

ACLS_PER_REQUEST_MAX: Final = 10_000


RESOURCE_TYPES: Final = frozenset(Resource) - {Resource.ANY}
OPERATIONS: Final = frozenset(Operation) - {Operation.ANY}
PERMISSIONS: Final = frozenset(Permission) - {Permission.ANY}
_IN_FILTERS: Final = frozenset(Resource), frozenset(Pattern), frozenset(Operation), frozenset(Permission)


class Filter(Protocol):
    """An ACL filter: the fields that DescribeAcls and DeleteAcls requests have in common."""

    @property
    def resource_type_filter(self) -> int: ...
    @property
    def resource_name_filter(self) -> str | None: ...
    @property
    def pattern_type_filter(self) -> int: ...
    @property
    def principal_filter(self) -> str | None: ...
    @property
    def host_filter(self) -> str | None: ...
    @property
    def operation(self) -> int: ...
    @property
    def permission_type(self) -> int: ...


class AclDeleteResult(NamedTuple):
    """The result of one filter of a DeleteAcls request: the ACLs that the filter matched, or `error` if the filter is invalid."""

    found: Sequence[AccessControlEntryRecord]
    error: Rejected | None = None


def create_acls(state: ControllerState, acls: Sequence[AclCreation]) -> Effects[MetadataRecord, list[Rejected | None]]:
    """Decide a CreateAcls request: return the metadata records to write, and an error or None for each ACL, in order.

    Raises `Rejected(POLICY_VIOLATION)` if one request creates too many ACLs.
    """
    image = state.image
    names = {acl.resource_name for acl in acls}
    known = {_content(acl) for acl in image.acls.values() if acl.resource_name in names}
    records: list[MetadataRecord] = []
    results: list[Rejected | None] = []
    checks_hosts = state.settings.release_behaviour.has_address_ranges
    random_bytes = _prefetched(state.random.randbytes, len(ZERO_ID) * len(acls))
    for acl in acls:
        try:
            _check(acl)
            if checks_hosts:
                _check_host(acl.host, image.metadata_level)
        except Rejected as error:
            results.append(error.without_traceback())
            continue
        record = _record_of(acl, ZERO_ID)
        if (content := _content(record)) not in known:
            known.add(content)
            record.id = _new_id(image, random_bytes)
            records.append(record)
        results.append(None)
    if len(records) > ACLS_PER_REQUEST_MAX:
        raise Rejected(ErrorCode.POLICY_VIOLATION, "Unable to perform excessively large batch operation.")
    return Effects(records, results)


def delete_acls(image: MetadataImage, filters: Sequence[Filter]) -> Effects[MetadataRecord, list[AclDeleteResult]]:
    """Decide a DeleteAcls request: return the metadata records to write, and one result per filter, in order. An ACL is deleted if any of
    the filters matches it. Raises `Rejected(INVALID_REQUEST)` if one request deletes too many ACLs."""
    removed: dict[bytes, MetadataRecord] = {}
    results: list[AclDeleteResult] = []
    candidates = _candidates(image)
    for wanted in filters:
        if (problem := _unknown(wanted)) is not None:
            results.append(AclDeleteResult([], _invalid(problem)))
            continue
        found = [acl for acl in candidates(wanted) if matches(wanted, acl)]
        removed |= {acl.id: RemoveAccessControlEntryRecord(acl.id) for acl in found}
        if len(removed) > ACLS_PER_REQUEST_MAX:
            raise _invalid(f"Cannot remove more than {ACLS_PER_REQUEST_MAX} acls in a single delete operation.")
        results.append(AclDeleteResult(found))
    return Effects(list(removed.values()), results)


def _candidates(image: MetadataImage) -> Callable[[Filter], Iterable[AccessControlEntryRecord]]:
    """Return a function that narrows down the ACLs that a filter can match: to those with the filter's resource name if it has one (and its
    pattern type is not MATCH), otherwise to those with its principal if it has one. Otherwise the function returns all ACLs.

    Without this, each filter would be compared with all ACLs. Tools send one filter for each ACL, and comparing 50,000 ACLs takes 25 ms.
    """

    @cache
    def grouped(field: str) -> dict[str, list[AccessControlEntryRecord]]:
        groups: dict[str, list[AccessControlEntryRecord]] = {}
        for acl in image.acls.values():
            groups.setdefault(getattr(acl, field), []).append(acl)
        return groups

    def candidates(wanted: Filter) -> Iterable[AccessControlEntryRecord]:
        if wanted.resource_name_filter is not None and wanted.pattern_type_filter != Pattern.MATCH:
            return grouped("resource_name").get(wanted.resource_name_filter, ())
        if wanted.principal_filter is not None:
            return grouped("principal").get(wanted.principal_filter, ())
        return image.acls.values()

    return candidates


def _unknown(wanted: Filter) -> str | None:
    resources, patterns, operations, permissions = _IN_FILTERS
    if wanted.resource_type_filter not in resources or wanted.pattern_type_filter not in patterns:
        return "Unknown patternFilter."
    if wanted.operation not in operations or wanted.permission_type not in permissions:
        return "Unknown entryFilter."
    return None


def matches(wanted: Filter, acl: AccessControlEntryRecord) -> bool:
    """Return whether the filter `wanted` matches this ACL."""
    return (
        wanted.resource_type_filter in (Resource.ANY, acl.resource_type)
        and _matches_name(wanted, acl)
        and wanted.principal_filter in (None, acl.principal)
        and wanted.host_filter in (None, acl.host)
        and wanted.operation in (Operation.ANY, acl.operation)
        and wanted.permission_type in (Permission.ANY, acl.permission_type)
    )


def _matches_name(wanted: Filter, acl: AccessControlEntryRecord) -> bool:
    name, kind = wanted.resource_name_filter, wanted.pattern_type_filter
    if kind not in (Pattern.ANY, Pattern.MATCH, acl.pattern_type):
        return False
    if name is None:
        return True
    if kind != Pattern.MATCH:
        return name == acl.resource_name
    if acl.pattern_type == Pattern.PREFIXED:
        return name.startswith(acl.resource_name)
    return acl.resource_name in (name, WILDCARD)


def _check(acl: AclCreation) -> None:
    if acl.resource_type == Resource.CLUSTER and acl.resource_name != CLUSTER_NAME:
        raise _invalid(f"The only valid name for the CLUSTER resource is {CLUSTER_NAME}")
    if acl.resource_type not in RESOURCE_TYPES:
        raise _invalid(f"Invalid resourceType {acl.resource_type}")
    if acl.resource_pattern_type not in (Pattern.LITERAL, Pattern.PREFIXED):
        raise _invalid(f"Invalid patternType {acl.resource_pattern_type}")
    if acl.operation not in OPERATIONS:
        raise _invalid(f"Invalid operation {acl.operation}")
    if acl.permission_type not in PERMISSIONS:
        raise _invalid(f"Invalid permissionType {acl.permission_type}")
    if not acl.resource_name:
        raise _invalid("Resource name should not be empty")
    if ":" not in acl.principal:
        what = "no colon is present separating the principal type from the principal name"
        raise _invalid(f"Could not parse principal from `{acl.principal}` ({what})")


def _check_host(host: str, metadata_level: int) -> None:
    """Raise Rejected if an ACL cannot have this host: INVALID_REQUEST for an empty host or an invalid CIDR range, UNSUPPORTED_VERSION for a
    range below the metadata.version that has ranges (AclControlManager.validateHostPattern)."""
    if not host:
        raise _invalid("Host pattern cannot be null or empty")
    if "/" not in host:
        return
    if metadata_level < ADDRESS_RANGES:
        problem = f"An address range as a host requires metadata.version 4.4-IV1 (level {ADDRESS_RANGES}); it is at level {metadata_level}"
        raise Rejected(ErrorCode.UNSUPPORTED_VERSION, problem)
    if address_range(host) is None:
        raise _invalid(f"Invalid address range in CIDR notation: {host}")


def _record_of(acl: AclCreation, acl_id: bytes) -> AccessControlEntryRecord:
    return AccessControlEntryRecord(
        id=acl_id,
        resource_type=acl.resource_type,
        resource_name=acl.resource_name,
        pattern_type=acl.resource_pattern_type,
        principal=acl.principal,
        host=acl.host,
        operation=acl.operation,
        permission_type=acl.permission_type,
    )


def _content(acl: AccessControlEntryRecord) -> tuple[object, ...]:
    """Return the fields of an ACL except its id; two ACLs with equal fields are duplicates."""
    return acl.resource_type, acl.resource_name, acl.pattern_type, acl.principal, acl.host, acl.operation, acl.permission_type


def _new_id(image: MetadataImage, random_bytes: Callable[[int], bytes]) -> bytes:
    while (acl_id := random_uuid(random_bytes)) in image.acls:
        pass
    return acl_id


def _prefetched(random_bytes: Callable[[int], bytes], size: int) -> Callable[[int], bytes]:
    """Return a source of random bytes that draws the first `size` bytes in one system call, because a call per ACL takes 10 us."""
    prefetched = BytesIO(random_bytes(size))
    return lambda wanted: prefetched.read(wanted) or random_bytes(wanted)


def _invalid(message: str) -> Rejected:
    return Rejected(ErrorCode.INVALID_REQUEST, message)
