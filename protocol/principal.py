"""Who sent a request, as one broker tells another (Kafka's `DefaultKafkaPrincipalBuilder`): a version, and `DefaultPrincipalData`."""

from __future__ import annotations

from dataclasses import dataclass

from ottla.protocol.schema import Message, boolean, encode_prefixed, string


@dataclass(slots=True)
class DefaultPrincipalData(Message, versions="0", flexible="0+"):
    type: str = string()
    name: str = string()
    token_authenticated: bool = boolean()


def principal_bytes(name: str) -> bytes:
    """A user."""
    return encode_prefixed(DefaultPrincipalData("User", name), 0)


ANONYMOUS = principal_bytes("ANONYMOUS")
"""Who is not asked who it is."""
