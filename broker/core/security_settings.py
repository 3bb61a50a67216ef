"""Kafka's settings that a user would read as a lock, and that are not obeyed here: they stop the start.

A broker that notes `create.topic.policy.class.name` and lets everything through is worse than one that does not start. Those of TLS, SASL
and of ACLs are obeyed (`security_keys`, `acl`).
"""

from __future__ import annotations

from typing import Final

_POLICIES: Final = frozenset({"create.topic.policy.class.name", "alter.config.policy.class.name"})


def lock_problem(name: str, text: str) -> str | None:
    """Why a broker with the setting `name` must not start, or None for one that is no lock. The value, maybe a password, is not in it."""
    if name not in _POLICIES or not text.strip():
        return None
    return f"{name} is not obeyed here: no policy is asked here, and every request that is valid is carried out"
