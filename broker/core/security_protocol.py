"""What a listener asks of a connection before it serves it (KAFKA SecurityProtocol)."""

from __future__ import annotations

from enum import IntEnum


class SecurityProtocol(IntEnum):
    """By the numbers that registrations carry."""

    PLAINTEXT = 0
    SSL = 1
    SASL_PLAINTEXT = 2
    SASL_SSL = 3

    @property
    def uses_tls(self) -> bool:
        """Whether everything is encrypted."""
        return self in {SecurityProtocol.SSL, SecurityProtocol.SASL_SSL}

    @property
    def uses_sasl(self) -> bool:
        """Whether clients log in before anything else."""
        return self in {SecurityProtocol.SASL_PLAINTEXT, SecurityProtocol.SASL_SSL}
