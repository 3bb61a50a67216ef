"""The identity of a client (Kafka's KafkaPrincipal)."""

from __future__ import annotations

from typing import Final, NamedTuple


class Principal(NamedTuple):
    """The authenticated identity of a client, or the owner or renewer of a delegation token (KAFKA KafkaPrincipal)."""

    kind: str
    name: str

    @classmethod
    def parse(cls, text: str) -> Principal:
        """Return the principal of a text like `User:alice`. Only the first colon separates type and name, so the name may contain
        colons."""
        kind, _, name = text.partition(":")
        return cls(kind, name)

    def __str__(self) -> str:
        return f"{self.kind}:{self.name}"


USER: Final = "User"
"""The principal type of every connection; other types can occur only in ACLs and delegation tokens."""

ANONYMOUS: Final = Principal(USER, "ANONYMOUS")
"""The principal of a client that does not authenticate."""
