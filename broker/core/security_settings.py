"""Kafka's settings that a user would read as a lock, and that are not obeyed here: they stop the start.

A broker that notes `authorizer.class.name` and serves everybody is worse than one that does not start. A value that means "no lock"
(Kafka's own default, or nothing) is a setting without effect like others. Those of TLS and SASL are obeyed (`security_keys`).
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

_EVERYBODY: Final = "everybody who can connect is served, whoever they are"
_NO_POLICY: Final = "no policy is asked here, and every request that is valid is carried out"

_REASONS: Final[Mapping[str, str]] = {
    "authorizer.class.name": _EVERYBODY,
    "super.users": _EVERYBODY,
    "allow.everyone.if.no.acl.found": _EVERYBODY,
    "create.topic.policy.class.name": _NO_POLICY,
    "alter.config.policy.class.name": _NO_POLICY,
}
_NO_LOCK: Final[Mapping[str, frozenset[str]]] = {
    "allow.everyone.if.no.acl.found": frozenset({"true"}),
}
"""Values, in lower case, beside the empty one, that lock nothing."""


def lock_problem(name: str, text: str) -> str | None:
    """Why a broker with the setting `name` must not start, or None for one that is no lock. The value, maybe a password, is not in it."""
    reason = _REASONS.get(name)
    value = text.strip().lower()
    if reason is None or not value or value in _NO_LOCK.get(name, ()):
        return None
    return f"{name} is not obeyed here: {reason}"
