"""Kafka settings that restrict access but are not implemented here. They prevent the start.

A broker that ignored `create.topic.policy.class.name` and accepted every request would be worse than one that does not start. TLS, SASL
and ACL settings are implemented (`security_keys`, `acl`).
"""

from __future__ import annotations

from typing import Final

_NO_POLICY: Final = "policies are not supported, and every valid request would be executed"
_UNSUPPORTED: Final = {
    "create.topic.policy.class.name": _NO_POLICY,
    "alter.config.policy.class.name": _NO_POLICY,
    "client.quota.callback.class": "quotas come from the cluster's metadata only, not from a class",
}


def start_problem(name: str, text: str) -> str | None:
    """Return why a broker with the setting `name` and the value `text` must not start, or None if it may. The reason does not contain the
    value, which may be a password.
    """
    if name not in _UNSUPPORTED or not text.strip():
        return None
    return f"{name} is not supported: {_UNSUPPORTED[name]}"
