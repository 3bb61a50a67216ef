"""Whether a client may do what it asks: the authorizer of a node, where `authorizer.class.name` names one.

Rules that hold inside:
- Super users may do everything, whatever an ACL denies them. For all others `ottla.broker.cluster.acl_index` decides.
- The ACLs are those of the newest metadata, from the moment at which this node knows it. What was decided is kept until they change.
- A denial is one line in the log, in Kafka's words. A client can cause any number of them: of each window only the first are written, the
  same one once, and the next window's first line tells how many were left out.

Source: KAFKA StandardAuthorizer, StandardAuthorizerData, AuthHelper.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping, Sequence
from functools import lru_cache
from ipaddress import IPv6Address, ip_address
from typing import TYPE_CHECKING, Final, NamedTuple, Protocol

from ottla.broker.cluster.acl_index import AclIndex, AclVerdict, Question, text_of
from ottla.broker.core import limits
from ottla.broker.core.acl import STANDARD_AUTHORIZER, SUPPORTED, Operation, Resource, bits, super_users
from ottla.protocol.api_keys import ApiKey

if TYPE_CHECKING:
    from ottla.broker.cluster.metadata_records import AccessControlEntryRecord
    from ottla.broker.core.clock import Clock
    from ottla.broker.core.principal import Principal
    from ottla.broker.core.settings import BrokerSettings

AUDIT: Final = "kafka.authorizer.logger"
"""Kafka's name for the logger of denials."""
_ANY_NAME: Final = "hardcode"
"""What Kafka asks first, to see who is a super user."""

logger = logging.getLogger(AUDIT)


class Known(Protocol):
    """What is to be known of a client."""

    @property
    def host(self) -> str: ...
    @property
    def principal(self) -> Principal: ...


class Asking(Protocol):
    """What is to be known of a request: the context of a handler."""

    @property
    def peer(self) -> Known: ...
    @property
    def api_key(self) -> int: ...


class _Asked(NamedTuple):
    principal: Principal
    host: str
    operation: int
    resource: int
    name: str


class Authorizer:
    """`acls` gives those of the newest metadata, by their ids: always another mapping where they have changed."""

    def __init__(
        self, super_users: Sequence[str], is_open: bool, acls: Callable[[], Mapping[bytes, AccessControlEntryRecord]], clock: Clock
    ) -> None:
        self._super_users = frozenset(super_users)
        self._is_open = is_open
        self._acls = acls
        self._denials = DenialLines(clock)
        self._of: Mapping[bytes, AccessControlEntryRecord] | None = None
        self._index = AclIndex(())
        self._known: dict[_Asked, AclVerdict] = {}
        self._version = 0

    @property
    def version(self) -> int:
        """Another number where the ACLs have changed."""
        self._refresh()
        return self._version

    def _refresh(self) -> None:
        acls = self._acls()
        if acls is not self._of:
            self._of, self._index, self._known = acls, AclIndex(acls.values()), {}
            self._version += 1

    def allowed(
        self, asking: Asking, operation: Operation, resource: Resource, name: str, *, quietly: bool = False, count: int = 1
    ) -> bool:
        """Whether the client may. A denial is told in the log, unless this is asked `quietly`: to leave out what it may not see, or to
        try another permission. `count` is how often the request names the resource."""
        peer = asking.peer
        asked = _Asked(peer.principal, peer.host, operation, resource, name)
        verdict = self._verdict(asked)
        if not verdict.allowed and not quietly:
            self._denials.tell(asked, asking.api_key, count, verdict)
        return verdict.allowed

    def allowed_somewhere(self, asking: Asking, operation: Operation, resource: Resource) -> bool:
        """Whether there is any resource of the type with which the client may do it."""
        peer = asking.peer
        if self._verdict(_Asked(peer.principal, peer.host, operation, resource, _ANY_NAME)).allowed:
            return True
        return self._index.any_of_type(str(peer.principal), java_host(peer.host), operation, resource)

    def operations(self, asking: Asking, resource: Resource, name: str) -> int:
        """The bits of what the client may do with it (KIP-430)."""
        return bits([each for each in SUPPORTED[resource] if self.allowed(asking, each, resource, name, quietly=True)])

    def _verdict(self, asked: _Asked) -> AclVerdict:
        self._refresh()
        if len(asked.name) > limits.KEPT_VERDICT_CHARS:
            return self._judged(asked)
        verdict = self._known.get(asked)
        if verdict is None:
            if len(self._known) >= limits.KEPT_VERDICTS:
                self._known.clear()
            verdict = self._known[asked] = self._judged(asked)
        return verdict

    def _judged(self, asked: _Asked) -> AclVerdict:
        principal = str(asked.principal)
        if principal in self._super_users:
            return AclVerdict(True)
        verdict = self._index.judge(Question(principal, java_host(asked.host), asked.operation, asked.resource, asked.name))
        return AclVerdict(True, None, False) if self._is_open and not verdict.covered else verdict


class DenialLines:
    """The log of denials. Time is the clock's."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._window_ms = -1
        self._written: set[tuple[_Asked, int]] = set()
        self._left_out = 0

    def tell(self, asked: _Asked, api_key: int, count: int, verdict: AclVerdict) -> None:
        """Write it, or count it."""
        window_ms = limits.DENIAL_LINES_WINDOW_MS
        window = self._clock.mono_ms() // window_ms
        if window != self._window_ms:
            if self._left_out:
                logger.info("%d denials were not written in the %d s before", self._left_out, window_ms // 1_000)
            self._window_ms, self._left_out = window, 0
            self._written.clear()
        if (asked, api_key) in self._written or len(self._written) >= limits.DENIAL_LINES:
            self._left_out += 1
            return
        self._written.add((asked, api_key))
        logger.info("%s", denial_line(asked, api_key, count, verdict))


def denial_line(asked: _Asked, api_key: int, count: int, verdict: AclVerdict) -> str:
    """Kafka's own line (StandardAuthorizerData.buildAuditMessage)."""
    return (
        f"Principal = {_shown(str(asked.principal))} is Denied operation = {Operation(asked.operation).name} "
        f"from host = {java_host(asked.host)} on resource = {Resource(asked.resource).told}:LITERAL:{_shown(asked.name)} "
        f"for request = {_api_name(api_key)} with resourceRefCount = {count} based on rule {rule_of(verdict)}"
    )


def rule_of(verdict: AclVerdict) -> str:
    """The rule as Kafka's line names it; of nobody who is a super user."""
    if verdict.acl is not None:
        return f"MatchingAcl(acl={text_of(verdict.acl)})"
    return "DefaultAllow" if verdict.allowed else "DefaultDeny"


def authorizer_of(
    settings: BrokerSettings, acls: Callable[[], Mapping[bytes, AccessControlEntryRecord]], clock: Clock
) -> Authorizer | None:
    """None where everybody may do everything."""
    if settings.authorizer_class_name != STANDARD_AUTHORIZER:
        return None
    return Authorizer(super_users(settings.super_users), settings.allow_everyone_if_no_acl_found, acls, clock)


@lru_cache(maxsize=1024)
def java_host(host: str) -> str:
    """The address as ACLs have it (Java's `getHostAddress`): an IPv6 address in full, one that stands for an IPv4 address as that."""
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


def _shown(name: str) -> str:
    """A name without anything that would look like another line of the log."""
    return name if name.isprintable() and len(name) <= limits.DENIAL_NAME_CHARS else ascii(name[: limits.DENIAL_NAME_CHARS])


def _api_name(api_key: int) -> str:
    try:
        return "".join(word.capitalize() for word in ApiKey(api_key).name.split("_"))
    except ValueError:
        return str(api_key)
