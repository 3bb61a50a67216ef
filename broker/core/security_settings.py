"""Kafka's settings that a user would read as a lock, and that are not obeyed here: they stop the start.

A broker that notes `create.topic.policy.class.name` and lets everything through is worse than one that does not start. Those of TLS, SASL
and of ACLs are obeyed (`security_keys`, `acl`).
"""

from __future__ import annotations

from typing import Final

_NO_POLICY: Final = "no policy is asked here, and every request that is valid is carried out"
_NOT_OBEYED: Final = {
    "create.topic.policy.class.name": _NO_POLICY,
    "alter.config.policy.class.name": _NO_POLICY,
    "client.quota.callback.class": "quotas are those that the cluster's metadata has, and no class is asked for others",
}


def lock_problem(name: str, text: str) -> str | None:
    """Why a broker with the setting `name` must not start, or None for one that is no lock. The value, maybe a password, is not in it."""
    if name not in _NOT_OBEYED or not text.strip():
        return None
    return f"{name} is not obeyed here: {_NOT_OBEYED[name]}"
