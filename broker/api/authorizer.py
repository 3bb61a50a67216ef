"""The authorizer of a node, if `authorizer.class.name` names one.

Invariants:
* Super users are authorized for everything, whatever ACLs deny. For all others `ottla.broker.cluster.acl_index` decides.
* ACLs are those of the newest metadata, from the moment at which this node has it. Decisions are cached until the ACLs change.
* A denial is written to the audit log as one line, in Kafka's format. Because clients can cause any number of denials, the lines are
  limited: in each window of time, every distinct denial is written once, up to a maximum. If lines were suppressed, the log gets their
  number with the first denial of a later window.

Source: KAFKA StandardAuthorizer, StandardAuthorizerData, AuthHelper.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping, Sequence
from functools import lru_cache
from ipaddress import IPv6Address, ip_address
from typing import Final, NamedTuple, Protocol

from ottla.broker.cluster.acl_index import AccessRequest, AclIndex, AclVerdict, text_of
from ottla.broker.cluster.metadata_records import AccessControlEntryRecord
from ottla.broker.core import limits
from ottla.broker.core.acl import STANDARD_AUTHORIZER, SUPPORTED, Operation, Resource, bits, super_users
from ottla.broker.core.clock import Clock
from ottla.broker.core.principal import Principal
from ottla.broker.core.settings import BrokerSettings
from ottla.protocol.api_keys import ApiKey

AUDIT: Final = "kafka.authorizer.logger"
"""The name of the logger for denials; Kafka's audit logger has the same name."""
READS: Final = frozenset({Operation.READ, Operation.DESCRIBE, Operation.DESCRIBE_CONFIGS, Operation.DESCRIBE_TOKENS})
"""The operations that a read-only node allows. Consumers can join groups and commit offsets, because Kafka requires READ on the group for
both."""
_NO_ACLS: Final[Mapping[bytes, AccessControlEntryRecord]] = {}
_ANY_NAME: Final = "hardcode"
"""The resource name that `allowed_somewhere` checks first, as Kafka does. It stands for an arbitrary name: the check succeeds for super
users, and for clients that an ACL allows the operation on every name.
"""

logger = logging.getLogger(AUDIT)


class Known(Protocol):
    """The client of a request: its host and principal, by which the authorizer selects the ACLs that apply to it."""

    @property
    def host(self) -> str: ...
    @property
    def principal(self) -> Principal: ...


class AuthorizableRequest(Protocol):
    """The request whose authorization is checked, with the properties that the authorizer reads. Every handler's `Context` has them."""

    @property
    def peer(self) -> Known: ...
    @property
    def api_key(self) -> int: ...


class _Check(NamedTuple):
    principal: Principal
    host: str
    operation: int
    resource: int
    name: str


class Authorizer:
    """The authorizer of one node. `acls` returns the newest metadata's ACLs by id, as a new mapping object whenever they have changed.
    `is_open` is the setting `allow.everyone.if.no.acl.found`. If `ranges` is true, the host of an ACL can be an address range in CIDR
    notation.
    """

    def __init__(
        self,
        super_users: Sequence[str],
        is_open: bool,
        acls: Callable[[], Mapping[bytes, AccessControlEntryRecord]],
        clock: Clock,
        *,
        ranges: bool = False,
    ) -> None:
        self._super_users = frozenset(super_users)
        self._is_open = is_open
        self._acls = acls
        self._denials = DenialLines(clock)
        self._of: Mapping[bytes, AccessControlEntryRecord] = {}
        self._index = AclIndex((), ranges=ranges)
        self._known: dict[_Check, AclVerdict] = {}
        self._version = 0

    @property
    def version(self) -> int:
        """A number that increases when the ACLs change. A decision that a caller has cached is valid only while the number is the same."""
        self._refresh()
        return self._version

    def _refresh(self) -> None:
        """Update the index of ACLs to the newest metadata. If the ACLs have changed, clear the cache of decisions; unchanged ACLs are not
        indexed again.
        """
        before, acls = self._of, self._acls()
        if acls is before:
            return
        for acl_id, acl in before.items():
            if acls.get(acl_id) is not acl:
                self._index.remove(acl)
        for acl_id, acl in acls.items():
            if before.get(acl_id) is not acl:
                self._index.add(acl)
        self._of, self._known = acls, {}
        self._version += 1

    def allowed(
        self, request: AuthorizableRequest, operation: Operation, resource: Resource, name: str, *, quietly: bool = False, count: int = 1
    ) -> bool:
        """Return whether the client may perform the operation on the resource. A denial is written to the audit log unless `quietly` is set
        (for a resource that the response silently omits, or if another permission may suffice). `count` is how often the request names the
        resource.
        """
        peer = request.peer
        check = _Check(peer.principal, peer.host, operation, resource, name)
        verdict = self._verdict(check)
        if not verdict.allowed and not quietly:
            self._denials.record(check, request.api_key, count, verdict)
        return verdict.allowed

    def is_super_user(self, peer: Known) -> bool:
        """Return whether the client is a super user, who is authorized for everything."""
        return str(peer.principal) in self._super_users

    def allows(self, peer: Known, operation: Operation, resource: Resource, name: str) -> bool:
        """Return whether the client may perform the operation on the resource, without a line in the audit log."""
        return self._verdict(_Check(peer.principal, peer.host, operation, resource, name)).allowed

    def allowed_somewhere(self, request: AuthorizableRequest, operation: Operation, resource: Resource) -> bool:
        """Return whether the client may perform the operation on at least one resource of this type. No line is written to the
        audit log."""
        peer = request.peer
        if self._verdict(_Check(peer.principal, peer.host, operation, resource, _ANY_NAME)).allowed:
            return True
        return self._index.any_of_type(str(peer.principal), java_host(peer.host), operation, resource)

    def operations(self, request: AuthorizableRequest, resource: Resource, name: str) -> int:
        """Return the operations that the client may perform on a resource, as the bit field of a response: bit n stands for the operation
        with number n (KIP-430)."""
        return bits([each for each in SUPPORTED[resource] if self.allowed(request, each, resource, name, quietly=True)])

    def _verdict(self, check: _Check) -> AclVerdict:
        self._refresh()
        if len(check.name) > limits.CACHED_DECISION_CHARS:
            return self._judged(check)
        verdict = self._known.get(check)
        if verdict is None:
            if len(self._known) >= limits.CACHED_DECISIONS:
                self._known.clear()
            verdict = self._known[check] = self._judged(check)
        return verdict

    def _judged(self, check: _Check) -> AclVerdict:
        principal = str(check.principal)
        if principal in self._super_users:
            return AclVerdict(True)
        verdict = self._index.judge(AccessRequest(principal, java_host(check.host), check.operation, check.resource, check.name))
        return AclVerdict(True, None, False) if self._is_open and not verdict.covered else verdict


class ReadOnlyAuthorizer(Authorizer):
    """An authorizer for a read-only node. It denies every operation that is not in `READS`, even if an ACL allows the operation or the
    client is a super user."""

    def is_super_user(self, peer: Known) -> bool:
        """Return False: on a read-only node nobody is authorized for everything."""
        return False

    def allowed_somewhere(self, request: AuthorizableRequest, operation: Operation, resource: Resource) -> bool:
        """Return whether the operation is a read, and the client may perform it on at least one resource of the type."""
        return operation in READS and super().allowed_somewhere(request, operation, resource)

    def _judged(self, check: _Check) -> AclVerdict:
        return super()._judged(check) if check.operation in READS else AclVerdict(False)


class DenialLines:
    """Writes denied requests to the audit log. In each window of time it writes every distinct denial once, up to a maximum."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._window_ms = -1
        self._written: set[tuple[_Check, int]] = set()
        self._suppressed = 0

    def record(self, check: _Check, api_key: int, count: int, verdict: AclVerdict) -> None:
        """Write a denial to the audit log. In each window of time, a line is written only once, and only up to a maximum number of lines. A
        denial beyond that is only counted, as suppressed.
        """
        window_ms = limits.DENIAL_LINES_WINDOW_MS
        window = self._clock.mono_ms() // window_ms
        if window != self._window_ms:
            if self._suppressed:
                logger.info("Suppressed %d denials in the previous %d s", self._suppressed, window_ms // 1_000)
            self._window_ms, self._suppressed = window, 0
            self._written.clear()
        if (check, api_key) in self._written or len(self._written) >= limits.DENIAL_LINES:
            self._suppressed += 1
            return
        self._written.add((check, api_key))
        logger.info("%s", denial_line(check, api_key, count, verdict))


def denial_line(check: _Check, api_key: int, count: int, verdict: AclVerdict) -> str:
    """Return the line that Kafka's audit log has for a denial (StandardAuthorizerData.buildAuditMessage). `count` is how often the request
    names the resource.
    """
    return (
        f"Principal = {_escaped(str(check.principal))} is Denied operation = {Operation(check.operation).name} "
        f"from host = {java_host(check.host)} on resource = {Resource(check.resource).java_name}:LITERAL:{_escaped(check.name)} "
        f"for request = {_api_name(api_key)} with resourceRefCount = {count} based on rule {rule_of(verdict)}"
    )


def rule_of(verdict: AclVerdict) -> str:
    """Return the text of the rule that decided (an ACL or the default), as Kafka's audit line writes it. `verdict` must not be that of a
    super user, for whom Kafka writes another text.
    """
    if verdict.acl is not None:
        return f"MatchingAcl(acl={text_of(verdict.acl)})"
    return "DefaultAllow" if verdict.allowed else "DefaultDeny"


def authorizer_of(
    settings: BrokerSettings, acls: Callable[[], Mapping[bytes, AccessControlEntryRecord]], clock: Clock
) -> Authorizer | None:
    """Return the configured authorizer, or None if every request is authorized."""
    made = ReadOnlyAuthorizer if settings.read_only else Authorizer
    if settings.authorizer_class_name != STANDARD_AUTHORIZER:
        return made((), True, lambda: _NO_ACLS, clock) if settings.read_only else None
    return made(
        super_users(settings.super_users),
        settings.allow_everyone_if_no_acl_found,
        acls,
        clock,
        ranges=settings.release_behaviour.has_address_ranges,
    )


@lru_cache(maxsize=1024)
def java_host(host: str) -> str:
    """Return an address in the form in which ACLs have it (Java's `getHostAddress`): an IPv6 address without `::`, and an IPv4-mapped IPv6
    address as IPv4."""
    try:
        address = ip_address(host)
    except ValueError:
        return host
    if not isinstance(address, IPv6Address):
        return host
    if address.ipv4_mapped is not None:
        return str(address.ipv4_mapped)
    zone = f"%{address.scope_id}" if address.scope_id else ""
    return ":".join(f"{int(address) >> shift & 0xFFFF:x}" for shift in range(112, -1, -16)) + zone


def _escaped(name: str) -> str:
    """Return a resource name in the form for a line of the audit log: unprintable characters are escaped, so that a client cannot forge log
    lines, and a long name is cut.
    """
    return name if name.isprintable() and len(name) <= limits.DENIAL_NAME_CHARS else ascii(name[: limits.DENIAL_NAME_CHARS])


def _api_name(api_key: int) -> str:
    try:
        return "".join(word.capitalize() for word in ApiKey(api_key).name.split("_"))
    except ValueError:
        return str(api_key)
