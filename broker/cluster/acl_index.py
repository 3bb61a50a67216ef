"""Decides by a set of ACLs whether a principal may access a resource. The ACLs are indexed, so that thousands of them need not be scanned.

Invariants:
- A literal ACL matches the resource of the same name or, with the name `*`, every resource of the type. A prefixed ACL matches resources
  whose names start with its own. As in Kafka, the literal `*` does not match a name that itself begins with `*`.
- An ACL matches an equal principal, or every principal with `User:*`, and an equal host, or every host with `*`. Case matters.
- With `ranges` (Kafka 4.4), an ACL whose host is a range in CIDR notation matches the addresses in it.
- ALLOW of READ, WRITE, DELETE or ALTER implies DESCRIBE, ALLOW of ALTER_CONFIGS implies DESCRIBE_CONFIGS, and ALL implies everything. A
  DENY implies nothing, except DENY of ALL.
- One DENY overrides every ALLOW. Without a matching ACL, access is denied. But if no ACL of any principal matches even the resource, the
  setting allow.everyone.if.no.acl.found decides.

Source: Kafka's StandardAuthorizerData, StandardAcl, Authorizer.authorizeByResourceType.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from ipaddress import IPv4Network, IPv6Network, ip_address, ip_network
from typing import Any, Final, NamedTuple, TypeAlias

from ottla.broker.cluster.metadata_records import AccessControlEntryRecord
from ottla.broker.core.acl import EVERYBODY, WILDCARD, Operation, Pattern, Permission, Resource

Acl = AccessControlEntryRecord
Network: TypeAlias = IPv4Network | IPv6Network
_OfPrincipals = dict[str, dict[int, Acl]]
"""ACLs by principal and, for each principal, by the `id()` of the ACL object, so that an ACL is removed without a search."""

_IMPLYING: Final[Mapping[int, frozenset[int]]] = {
    Operation.DESCRIBE: frozenset({Operation.DESCRIBE, Operation.READ, Operation.WRITE, Operation.DELETE, Operation.ALTER}),
    Operation.DESCRIBE_CONFIGS: frozenset({Operation.DESCRIBE_CONFIGS, Operation.ALTER_CONFIGS}),
}
"""For each operation, the operations whose ALLOW permits it: the operation itself and those that imply it. ALL, which permits every
operation, is not in the table."""


def address_range(host: str) -> Network | None:
    """Return the addresses that an ACL's host names in CIDR notation, such as `10.0.0.0/8`; None for any other host."""
    address, slash, width = host.partition("/")
    if not (slash and width.isascii() and width.isdecimal()):
        return None
    try:
        return ip_network(f"{ip_address(address)}/{width}", strict=False)
    except ValueError:
        return None


def _is_in(host: str, network: Network) -> bool:
    try:
        return ip_address(host) in network
    except ValueError:
        return False


class AccessRequest(NamedTuple):
    """The input of a decision: `principal` ("User:alice") at `host` wants to perform `operation` on the resource of type `resource` with
    the name `name`. The host is an IP address in Java's notation."""

    principal: str
    host: str
    operation: int
    resource: int
    name: str


class AclVerdict(NamedTuple):
    """The decision about one access. `acl` is the ACL that decided, if any. `covered` is true if any ACL, for whatever principal, matches
    the resource.
    """

    allowed: bool
    acl: Acl | None = None
    covered: bool = True


class AclIndex:
    """A set of ACLs, indexed by resource and principal. With `ranges`, the host of an ACL can be an address range in CIDR notation."""

    def __init__(self, acls: Iterable[Acl], *, ranges: bool = False) -> None:
        self._literal: dict[tuple[int, str], _OfPrincipals] = {}
        self._prefixed: dict[tuple[int, str], _OfPrincipals] = {}
        self._of_type: dict[int, _OfPrincipals] = {}
        self._knows_ranges = ranges
        self._ranges: dict[str, Network] = {}
        """The parsed address range of each ACL host in CIDR notation, by the host's text."""
        self._lengths: dict[int, Sequence[int]] = {}
        """For each resource type, the lengths of the names in its prefixed ACLs, longest first. A length stays after its last ACL was
        removed."""
        for acl in acls:
            self.add(acl)

    def add(self, acl: Acl) -> None:
        """Add an ACL to the index."""
        if self._knows_ranges and (network := address_range(acl.host)) is not None:
            self._ranges[acl.host] = network
        kind, length = acl.resource_type, len(acl.resource_name)
        if acl.pattern_type == Pattern.PREFIXED and length not in (lengths := self._lengths.get(kind, ())):
            self._lengths[kind] = sorted([*lengths, length], reverse=True)
        for places, place in self._places(acl):
            places.setdefault(place, {}).setdefault(acl.principal, {})[id(acl)] = acl

    def remove(self, acl: Acl) -> None:
        """Remove an ACL from the index. `acl` must be the very object that was added; an equal one raises KeyError."""
        for places, place in self._places(acl):
            of_principals = places[place]
            del of_principals[acl.principal][id(acl)]
            if not of_principals[acl.principal]:
                del of_principals[acl.principal]
            if not of_principals:
                del places[place]

    def _places(self, acl: Acl) -> tuple[tuple[dict[Any, _OfPrincipals], object], ...]:
        of_names = self._prefixed if acl.pattern_type == Pattern.PREFIXED else self._literal
        return (of_names, (acl.resource_type, acl.resource_name)), (self._of_type, acl.resource_type)

    def judge(self, request: AccessRequest) -> AclVerdict:
        """Return the verdict of the ACLs. A matching DENY or, without one, a matching ALLOW decides; without either, the verdict denies.

        If no ACL matches even the resource, the verdict has `covered` false. The caller must then follow allow.everyone.if.no.acl.found
        instead of the verdict, because the index does not know this setting.
        """
        allowing, covered = None, False
        for of_principals in self._about(request.resource, request.name):
            covered = True
            for acl in _of(of_principals, request.principal):
                if not (self._is_of_host(acl, request.host) and _applies(acl, request)):
                    continue
                if acl.permission_type != Permission.ALLOW:
                    return AclVerdict(False, acl)
                allowing = acl
        return AclVerdict(allowing is not None, allowing, covered)

    def _is_of_host(self, acl: Acl, host: str) -> bool:
        if acl.host in (host, WILDCARD):
            return True
        network = self._ranges.get(acl.host) if self._ranges else None
        return network is not None and _is_in(host, network)

    def _about(self, resource: int, name: str) -> Iterator[_OfPrincipals]:
        """Yield the ACLs that match the resource, grouped by principal, one group per pattern. Patterns have Kafka's order: longest name
        first, literal before prefixed, the literal `*` last."""
        if (found := self._literal.get((resource, name))) is not None:
            yield found
        for length in self._lengths.get(resource, ()):
            if length <= len(name) and (found := self._prefixed.get((resource, name[:length]))) is not None:
                yield found
        if not name.startswith(WILDCARD) and (found := self._literal.get((resource, WILDCARD))) is not None:
            yield found

    def about(self, resource: int, name: str) -> Iterator[Acl]:
        """Yield all ACLs that match the resource of this type and name, whatever principal they are for."""
        for of_principals in self._about(resource, name):
            for acls in of_principals.values():
                yield from acls.values()

    def any_of_type(self, principal: str, host: str, operation: int, resource: int) -> bool:
        """Return whether the principal may perform the operation on at least one resource of the type (authorizeByResourceType). As in
        Kafka, only ACLs for `operation` itself or for ALL count, not those for operations that imply it."""
        denied: dict[int, set[str]] = {Pattern.LITERAL: set(), Pattern.PREFIXED: set()}
        allowed: list[tuple[int, str]] = []
        for acl in _of(self._of_type.get(resource, {}), principal):
            if not self._is_of_host(acl, host) or acl.operation not in (operation, Operation.ALL):
                continue
            if acl.permission_type == Permission.ALLOW:
                allowed.append((acl.pattern_type, acl.resource_name))
            else:
                denied.setdefault(acl.pattern_type, set()).add(acl.resource_name)
        if WILDCARD in denied[Pattern.LITERAL]:
            return False
        return any(_outlasts(pattern, name, denied) for pattern, name in allowed)


def _outlasts(pattern: int, name: str, denied: Mapping[int, set[str]]) -> bool:
    if pattern == Pattern.LITERAL:
        if name == WILDCARD:
            return True
        if name in denied[Pattern.LITERAL]:
            return False
    return not any(name[:length] in denied[Pattern.PREFIXED] for length in range(1, len(name) + 1))


def _of(of_principals: _OfPrincipals, principal: str) -> Sequence[Acl]:
    """Return the ACLs of `principal` and those of `User:*` among `of_principals`, in the order of Kafka's set of ACLs."""
    named = {principal, EVERYBODY}.intersection(of_principals)
    return sorted((acl for name in named for acl in of_principals[name].values()), key=_order)


def _order(acl: Acl) -> tuple[int, str, str, int]:
    return acl.operation, acl.principal, acl.host, acl.permission_type


def _applies(acl: Acl, request: AccessRequest) -> bool:
    if acl.operation in (request.operation, Operation.ALL):
        return True
    return acl.permission_type == Permission.ALLOW and acl.operation in _IMPLYING.get(request.operation, ())


def text_of(acl: Acl) -> str:
    """Return the ACL as text, in the form of Kafka's authorizer log."""
    return (
        f"StandardAcl[resourceType={Resource(acl.resource_type).name}, resourceName={acl.resource_name}, "
        f"patternType={Pattern(acl.pattern_type).name}, principal={acl.principal}, host={acl.host}, "
        f"operation={Operation(acl.operation).name}, permissionType={Permission(acl.permission_type).name}]"
    )
