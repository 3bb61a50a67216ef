"""Deciding CreateAcls and DeleteAcls: who may do what. They are kept for brokers that obey them.

Rules that hold inside:
- An ACL that there is already is not made again, and that is no error.
- One ACL's or filter's mistake refuses that one and no other.
- A filter's null and ANY match everything. A pattern type of MATCH finds what holds for the name: its own literal, the literal `*` and the
  prefixes of it.

Source: KAFKA AclControlManager, ResourcePatternFilter, AccessControlEntryFilter.
"""

from __future__ import annotations

from collections.abc import Sequence
from enum import IntEnum
from random import Random
from typing import Final, NamedTuple

from ottla.broker.cluster.image import MetadataImage
from ottla.broker.cluster.metadata_records import AccessControlEntryRecord, MetadataRecord, RemoveAccessControlEntryRecord
from ottla.broker.cluster.topic_ids import new_topic_id
from ottla.broker.controller.state import ControllerState
from ottla.broker.core.effects import Effects
from ottla.broker.core.rejected import Rejected
from ottla.protocol.error_codes import ErrorCode
from ottla.protocol.messages.k30_create_acls import AclCreation
from ottla.protocol.messages.k31_delete_acls import DeleteAclsFilter

ANY: Final = 1
WILDCARD: Final = "*"
CLUSTER: Final = 4
CLUSTER_NAME: Final = "kafka-cluster"
ACLS_PER_REQUEST_MAX: Final = 10_000


class PatternType(IntEnum):
    """How a name is meant."""

    MATCH = 2
    LITERAL = 3
    PREFIXED = 4


RESOURCE_TYPES: Final = range(2, 8)
"""From TOPIC to USER."""
OPERATIONS: Final = range(2, 16)
"""From ALL to TWO_PHASE_COMMIT."""
PERMISSIONS: Final = range(2, 4)
"""Deny, allow."""


class Deleted(NamedTuple):
    """What a filter found; `error` where it could not be one."""

    found: Sequence[AccessControlEntryRecord]
    error: Rejected | None = None


def create_acls(state: ControllerState, acls: Sequence[AclCreation]) -> Effects[MetadataRecord, list[Rejected | None]]:
    """An error or None for each. Raises `Rejected(POLICY_VIOLATION)` for more than one request may make."""
    known = {_content(acl) for acl in state.image.acls.values()}
    records: list[MetadataRecord] = []
    results: list[Rejected | None] = []
    for acl in acls:
        try:
            _check(acl)
        except Rejected as error:
            results.append(error)
            continue
        record = _record_of(acl, _new_id(state.image, state.random))
        if _content(record) not in known:
            known.add(_content(record))
            records.append(record)
        results.append(None)
    if len(records) > ACLS_PER_REQUEST_MAX:
        raise Rejected(ErrorCode.POLICY_VIOLATION, "Unable to perform excessively large batch operation.")
    return Effects(records, results)


def delete_acls(state: ControllerState, filters: Sequence[DeleteAclsFilter]) -> Effects[MetadataRecord, list[Deleted]]:
    """Raises `Rejected(INVALID_REQUEST)` for more than one request may delete."""
    removed: dict[bytes, MetadataRecord] = {}
    results: list[Deleted] = []
    for wanted in filters:
        if (problem := _unknown(wanted)) is not None:
            results.append(Deleted([], _invalid(problem)))
            continue
        found = [acl for acl in state.image.acls.values() if matches(wanted, acl)]
        removed |= {acl.id: RemoveAccessControlEntryRecord(acl.id) for acl in found}
        if len(removed) > ACLS_PER_REQUEST_MAX:
            raise _invalid(f"Cannot remove more than {ACLS_PER_REQUEST_MAX} acls in a single delete operation.")
        results.append(Deleted(found))
    return Effects(list(removed.values()), results)


def _unknown(wanted: DeleteAclsFilter) -> str | None:
    pattern = {PatternType.MATCH, PatternType.LITERAL, PatternType.PREFIXED, ANY}
    if wanted.resource_type_filter not in {ANY, *RESOURCE_TYPES} or wanted.pattern_type_filter not in pattern:
        return "Unknown patternFilter."
    if wanted.operation not in {ANY, *OPERATIONS} or wanted.permission_type not in {ANY, *PERMISSIONS}:
        return "Unknown entryFilter."
    return None


def matches(wanted: DeleteAclsFilter, acl: AccessControlEntryRecord) -> bool:
    """Whether the filter means this ACL."""
    return (
        wanted.resource_type_filter in (ANY, acl.resource_type)
        and _matches_name(wanted, acl)
        and wanted.principal_filter in (None, acl.principal)
        and wanted.host_filter in (None, acl.host)
        and wanted.operation in (ANY, acl.operation)
        and wanted.permission_type in (ANY, acl.permission_type)
    )


def _matches_name(wanted: DeleteAclsFilter, acl: AccessControlEntryRecord) -> bool:
    name, kind = wanted.resource_name_filter, wanted.pattern_type_filter
    if kind not in (ANY, PatternType.MATCH, acl.pattern_type):
        return False
    if name is None:
        return True
    if kind != PatternType.MATCH:
        return name == acl.resource_name
    if acl.pattern_type == PatternType.PREFIXED:
        return name.startswith(acl.resource_name)
    return acl.resource_name in (name, WILDCARD)


def _check(acl: AclCreation) -> None:
    if acl.resource_type == CLUSTER and acl.resource_name != CLUSTER_NAME:
        raise _invalid(f"The only valid name for the CLUSTER resource is {CLUSTER_NAME}")
    if acl.resource_type not in RESOURCE_TYPES:
        raise _invalid(f"Invalid resourceType {acl.resource_type}")
    if acl.resource_pattern_type not in (PatternType.LITERAL, PatternType.PREFIXED):
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
    """What the ACL says, whatever its id."""
    return acl.resource_type, acl.resource_name, acl.pattern_type, acl.principal, acl.host, acl.operation, acl.permission_type


def _new_id(image: MetadataImage, random: Random) -> bytes:
    while (acl_id := new_topic_id(random.randbytes)) in image.acls:
        pass
    return acl_id


def _invalid(message: str) -> Rejected:
    return Rejected(ErrorCode.INVALID_REQUEST, message)
