"""The security protocols of listeners (KAFKA SecurityProtocol)."""

from __future__ import annotations

from enum import IntEnum


class SecurityProtocol(IntEnum):
    """A listener's security protocol, numbered as in broker registrations."""

    PLAINTEXT = 0
    SSL = 1
    SASL_PLAINTEXT = 2
    SASL_SSL = 3

    @property
    def uses_tls(self) -> bool:
        """Whether connections with this protocol are encrypted by TLS."""
        return self in {SecurityProtocol.SSL, SecurityProtocol.SASL_SSL}

    @property
    def uses_sasl(self) -> bool:
        """Whether clients must authenticate by SASL before any other request."""
        return self in {SecurityProtocol.SASL_PLAINTEXT, SecurityProtocol.SASL_SSL}
