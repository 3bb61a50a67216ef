"""Who is at the other end of a connection."""

from __future__ import annotations

from typing import Final, NamedTuple


class Principal(NamedTuple):
    """Who asks, owns or renews (KAFKA KafkaPrincipal)."""

    kind: str
    name: str

    def __str__(self) -> str:
        return f"{self.kind}:{self.name}"


ANONYMOUS: Final = Principal("User", "ANONYMOUS")
"""Who is not asked who it is."""
