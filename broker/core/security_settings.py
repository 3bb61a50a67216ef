"""Kafka's settings that a user would read as a lock, and that are not obeyed here: they stop the start.

A broker that notes `authorizer.class.name` and serves everybody is worse than one that does not start. A value that means "no lock"
(Kafka's own default, or nothing) is a setting without effect like others. Keys and certificates (`ssl.keystore…`) are none: without a
listener that uses them, which is refused by itself, they lock nothing in Kafka either.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Final

_EVERYBODY: Final = "everybody who can connect is served, whoever they are"
_NOBODY_LOGS_IN: Final = "nobody logs in here, and everybody who can connect is served"
_NO_POLICY: Final = "no policy is asked here, and every request that is valid is carried out"
_PLAIN: Final = "only PLAINTEXT is available"

_REASONS: Final[Mapping[str, str]] = {
    "authorizer.class.name": _EVERYBODY,
    "super.users": _EVERYBODY,
    "allow.everyone.if.no.acl.found": _EVERYBODY,
    "principal.builder.class": _EVERYBODY,
    "connections.max.reauth.ms": _NOBODY_LOGS_IN,
    "ssl.client.auth": _NOBODY_LOGS_IN,
    "security.inter.broker.protocol": _PLAIN,
    "create.topic.policy.class.name": _NO_POLICY,
    "alter.config.policy.class.name": _NO_POLICY,
}
_SASL: Final = re.compile(r"sasl\..+")
_TUNING: Final = re.compile(r"sasl\.(login\.|kerberos\.|server\.max\.|oauthbearer\.(clock|jwks\.endpoint\.re)).*")
"""How a log-in goes, not that there is one: these lock nothing."""

_NO_LOCK: Final[Mapping[str, frozenset[str]]] = {
    "allow.everyone.if.no.acl.found": frozenset({"true"}),
    "principal.builder.class": frozenset({"org.apache.kafka.common.security.authenticator.defaultkafkaprincipalbuilder"}),
    "connections.max.reauth.ms": frozenset({"0"}),
    "ssl.client.auth": frozenset({"none"}),
    "security.inter.broker.protocol": frozenset({"plaintext"}),
    "sasl.mechanism.inter.broker.protocol": frozenset({"gssapi"}),
    "sasl.mechanism.controller.protocol": frozenset({"gssapi"}),
}
"""Values, in lower case, beside the empty one, that lock nothing."""

_OF_A_LISTENER: Final = re.compile(r"listener\.name\.[^.]*\.(.+)")
_OF_A_MECHANISM: Final = re.compile(r"[^.]+\.(sasl\..+|connections\.max\.reauth\.ms)")


def lock_problem(name: str, text: str) -> str | None:
    """Why a broker with the setting `name` must not start, or None for one that is no lock. The value, maybe a password, is not in it."""
    base = name
    if (of_listener := _OF_A_LISTENER.fullmatch(name)) is not None:
        base = of_listener[1]
        if (of_mechanism := _OF_A_MECHANISM.fullmatch(base)) is not None:
            base = of_mechanism[1]
    reason = _REASONS.get(base)
    if _SASL.fullmatch(base) and not _TUNING.fullmatch(base):
        reason = _NOBODY_LOGS_IN
    value = text.strip().lower()
    if reason is None or not value or value in _NO_LOCK.get(base, ()):
        return None
    return f"{name} is not obeyed here: {reason}"
