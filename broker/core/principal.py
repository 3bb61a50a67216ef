"""Who is at the other end of a connection."""

from __future__ import annotations

from typing import Final, NamedTuple


class Principal(NamedTuple):
    """Who asks, owns or renews (KAFKA KafkaPrincipal)."""

    kind: str
    name: str

    @classmethod
    def parse(cls, text: str) -> Principal:
        """Of `User:alice`; a name may have colons."""
        kind, _, name = text.partition(":")
        return cls(kind, name)

    def __str__(self) -> str:
        return f"{self.kind}:{self.name}"


USER: Final = "User"
"""The one kind of principal that connections have."""

ANONYMOUS: Final = Principal(USER, "ANONYMOUS")
"""Who is not asked who it is."""
