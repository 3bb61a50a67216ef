"""Who may do what, by a set of ACLs: a pure function of them, arranged so that thousands of them are not looked at.

Rules that hold inside:
- An ACL is about a resource where its name is the resource's (literal), `*` (literal), or a beginning of it (prefixed). The literal `*` is
  not about a longer name that begins with `*`: that is how Kafka looks, and what it refuses and lets through.
- It is about a principal and a host where they are equal, or where it says `User:*`, `*`. Case matters everywhere.
- An ACL that allows READ, WRITE, DELETE or ALTER allows DESCRIBE, one that allows ALTER_CONFIGS allows DESCRIBE_CONFIGS, one for ALL
  everything. A denial implies nothing, but where it is for ALL.
- One denial is stronger than all that allow. What no ACL decides is denied; unless no ACL at all, whoever it is for, is about the
  resource: then the default decides.

Source: KAFKA StandardAuthorizerData, StandardAcl, Authorizer.authorizeByResourceType.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Final, NamedTuple

from ottla.broker.cluster.metadata_records import AccessControlEntryRecord
from ottla.broker.core.acl import EVERYBODY, WILDCARD, Operation, Pattern, Permission, Resource

Acl = AccessControlEntryRecord
_OfPrincipals = dict[str, list[Acl]]

_IMPLYING: Final[Mapping[int, frozenset[int]]] = {
    Operation.DESCRIBE: frozenset({Operation.DESCRIBE, Operation.READ, Operation.WRITE, Operation.DELETE, Operation.ALTER}),
    Operation.DESCRIBE_CONFIGS: frozenset({Operation.DESCRIBE_CONFIGS, Operation.ALTER_CONFIGS}),
}
"""What allows an operation, where that is more than itself and ALL."""


class Question(NamedTuple):
    """May `principal` ("User:alice") at `host` do this with that? The host is an address as Java writes it."""

    principal: str
    host: str
    operation: int
    resource: int
    name: str


class AclVerdict(NamedTuple):
    """`acl` is the one that decided, if one did. `covered`: an ACL is about the resource, whoever it is for."""

    allowed: bool
    acl: Acl | None = None
    covered: bool = True


class AclIndex:
    """One set of ACLs; it never changes."""

    def __init__(self, acls: Iterable[Acl]) -> None:
        self._literal: dict[tuple[int, str], _OfPrincipals] = {}
        self._prefixed: dict[tuple[int, str], _OfPrincipals] = {}
        self._of_type: dict[int, _OfPrincipals] = {}
        lengths: dict[int, set[int]] = {}
        for acl in acls:
            place = (acl.resource_type, acl.resource_name)
            if acl.pattern_type == Pattern.PREFIXED:
                lengths.setdefault(acl.resource_type, set()).add(len(acl.resource_name))
            of_names = self._prefixed if acl.pattern_type == Pattern.PREFIXED else self._literal
            for of_principals in (of_names.setdefault(place, {}), self._of_type.setdefault(acl.resource_type, {})):
                of_principals.setdefault(acl.principal, []).append(acl)
        self._lengths: dict[int, Sequence[int]] = {kind: sorted(found, reverse=True) for kind, found in lengths.items()}
        """Of the prefixes of each type of resource, the longest first."""

    def judge(self, question: Question) -> AclVerdict:
        """What the ACLs say; what none of them decides is denied."""
        allowing, covered = None, False
        for of_principals in self._about(question.resource, question.name):
            covered = True
            for acl in _of(of_principals, question.principal):
                if not _applies(acl, question):
                    continue
                if acl.permission_type != Permission.ALLOW:
                    return AclVerdict(False, acl)
                allowing = acl
        return AclVerdict(allowing is not None, allowing, covered)

    def _about(self, resource: int, name: str) -> Iterator[_OfPrincipals]:
        """In the order in which Kafka looks: the longest name first, a literal before a prefix, the literal `*` last."""
        if (found := self._literal.get((resource, name))) is not None:
            yield found
        for length in self._lengths.get(resource, ()):
            if length <= len(name) and (found := self._prefixed.get((resource, name[:length]))) is not None:
                yield found
        if not name.startswith(WILDCARD) and (found := self._literal.get((resource, WILDCARD))) is not None:
            yield found

    def about(self, resource: int, name: str) -> Iterator[Acl]:
        """All that are about it, whoever they are for."""
        for of_principals in self._about(resource, name):
            for acls in of_principals.values():
                yield from acls

    def any_of_type(self, principal: str, host: str, operation: int, resource: int) -> bool:
        """Whether there is some name with which it may be done. What allows an operation by implication does not count here."""
        denied: dict[int, set[str]] = {Pattern.LITERAL: set(), Pattern.PREFIXED: set()}
        allowed: list[tuple[int, str]] = []
        for acl in _of(self._of_type.get(resource, {}), principal):
            if acl.host not in (host, WILDCARD) or acl.operation not in (operation, Operation.ALL):
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


def _of(of_principals: Mapping[str, list[Acl]], principal: str) -> Sequence[Acl]:
    """The principal's ACLs and everybody's, in the order of Kafka's set."""
    own = of_principals.get(principal, ()) if principal != EVERYBODY else ()
    return sorted([*own, *of_principals.get(EVERYBODY, ())], key=_order)


def _order(acl: Acl) -> tuple[int, str, str, int]:
    return acl.operation, acl.principal, acl.host, acl.permission_type


def _applies(acl: Acl, question: Question) -> bool:
    if acl.host not in (question.host, WILDCARD):
        return False
    if acl.operation in (question.operation, Operation.ALL):
        return True
    return acl.permission_type == Permission.ALLOW and acl.operation in _IMPLYING.get(question.operation, ())


def text_of(acl: Acl) -> str:
    """As Kafka's log writes it."""
    return (
        f"StandardAcl[resourceType={Resource(acl.resource_type).name}, resourceName={acl.resource_name}, "
        f"patternType={Pattern(acl.pattern_type).name}, principal={acl.principal}, host={acl.host}, "
        f"operation={Operation(acl.operation).name}, permissionType={Permission(acl.permission_type).name}]"
    )
